"""The command line against a real node and worker: `fairway up` in a process of its own."""

from __future__ import annotations

import getpass
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FAIRWAY = [sys.executable, "-m", "fairway.cli"]
PATIENCE_SECONDS = 30.0


class Running:
    """A `fairway` process whose stdout is read line by line."""

    def __init__(
        self, *arguments: str, together: bool = False, environment: dict[str, str] | None = None
    ) -> None:
        """Start it; *together* reads stderr as if it were stdout."""
        self.process = subprocess.Popen(
            [*FAIRWAY, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if together else subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.lines: list[str] = []
        self._coming: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def line(self, pattern: str) -> re.Match[str]:
        """Return the next line of stdout that matches."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            line = self._coming.get(timeout=max(deadline - time.monotonic(), 0.01))
            if line is None:
                raise AssertionError(f"ended without {pattern!r}: {self.lines} {self._errors()}")
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal; return exit code, the rest of stdout, stderr."""
        self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        rest = []
        while (line := self._coming.get(timeout=PATIENCE_SECONDS)) is not None:
            rest.append(line)
        return code, "".join(rest), self._errors()

    def _errors(self) -> str:
        return self.process.stderr.read() if self.process.stderr else ""

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._coming.put(line)
        self._coming.put(None)


class Shell:
    """Calls `fairway` as a person would, with the node's address in the environment."""

    def __init__(self, url: str) -> None:
        self.environment = {"FAIRWAY_URL": url}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*FAIRWAY, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS + 30,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
        )

    def out(self, *arguments: str) -> str:
        """Return what it wrote; it must succeed."""
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """Return the one document it wrote."""
        return json.loads(self.out(*arguments, "--json"))

    def submit(self, *arguments: str) -> str:
        """Hand in a job; return its id."""
        return self.out("submit", *arguments).strip()


@pytest.fixture(scope="module")
def fairway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A node with a worker of four slots."""
    place = tmp_path_factory.mktemp("node")
    node = up(place)
    try:
        yield Shell(node.line(r"^  api +(http://\S+)")[1])
    finally:
        node.stop(signal.SIGTERM)


def up(place: Path) -> Running:
    """Start a node in *place*."""
    options = ["--listen", "127.0.0.1:0", "--name", "n1", "--slots", "4", "--data-dir", str(place)]
    return Running("up", "--database", f"sqlite:///{place}/fairway.db", *options)


def eventually(fact: Callable[[], bool]) -> None:
    """Wait, within bounds, until *fact* holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def until_file(path: Path) -> list[str]:
    """A command that runs until a file is there."""
    return ["--", "sh", "-c", f"while ! test -e {path}; do sleep 0.05; done"]


def test_a_command_writes_as_if_it_ran_here(fairway: Shell) -> None:
    done = fairway("submit", "--wait", "--", "sh", "-c", "echo hello; echo oops >&2")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "oops\n" in done.stderr
    assert "succeeded" in done.stderr


def test_a_command_that_fails_makes_the_call_fail(fairway: Shell) -> None:
    done = fairway("submit", "--wait", "--attempts", "1", "--", "sh", "-c", "exit 3")
    assert (done.returncode, done.stdout) == (1, "")
    assert "failed" in done.stderr


def test_show_says_why_the_third_job_waits(fairway: Shell, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first, second, third = [
        fairway.submit("--queue", "acme", "--concurrency", "1", *until_file(go)) for _ in range(3)
    ]
    eventually(lambda: fairway.json("jobs", "show", first)["state"] == "running")
    lines = fairway.out("jobs", "show", third).splitlines()
    assert lines[0].startswith("waits: ")
    assert "acme" in lines[0] or "ahead" in lines[0] or "before" in lines[0]
    assert fairway.json("jobs", "show", third)["position"] == 1
    assert fairway.out("jobs", "cancel", third) == f"{third}  cancelled\n"
    go.touch()
    assert fairway.out("jobs", "wait", first, second).count("succeeded") == 2
    assert fairway.json("jobs", "show", third)["state"] == "cancelled"


def test_a_job_is_moved_while_it_waits_and_killed_while_it_runs(fairway: Shell, tmp_path: Path) -> None:
    up = tmp_path / "up"
    fairway.out("queues", "pause", "shut")
    stubborn = ["--", "sh", "-c", f"trap '' TERM; touch {up}; while :; do sleep 0.1; done"]
    job = fairway.submit("--queue", "shut", "--attempts", "1", *stubborn)
    assert fairway.out("jobs", "move", job, "--queue", "open", "--priority", "3") == f"{job}  moved\n"
    eventually(up.exists)
    shown = fairway.json("jobs", "show", job)
    assert (shown["queue"], shown["priority"]) == ("open", 3)
    refused = fairway("jobs", "move", job, "--queue", "shut")
    assert (refused.returncode, "was not moved" in refused.stderr) == (1, True)
    fairway.out("jobs", "kill", job)
    eventually(lambda: fairway.json("jobs", "show", job)["state"] == "cancelled")


def test_a_paused_queue_holds_its_jobs_until_it_is_resumed(fairway: Shell) -> None:
    assert "yes" in fairway.out("queues", "pause", "slow")
    job = fairway.submit("--queue", "slow", "--", "true")
    assert "paused" in fairway.out("jobs", "show", job).splitlines()[0]
    fairway.out("queues", "resume", "slow")
    assert "succeeded" in fairway.out("jobs", "wait", job)


def test_settings_show_in_the_list_and_a_bad_one_is_refused(fairway: Shell) -> None:
    fairway.out("queues", "set", "lanes/fast", "limit=3", "discipline=fifo")
    settings = {queue["path"]: queue["settings"] for queue in fairway.json("queues", "list")["queues"]}
    assert settings["lanes/fast"]["limit"] == 3
    assert fairway("queues", "set", "lanes/fast", "limit=-1").returncode == 2
    fairway.out("queues", "delete", "lanes/fast")
    assert fairway("queues", "show", "lanes/fast").returncode == 1


def test_settings_come_from_a_file_are_undone_and_go_along_with_a_new_name(
    fairway: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("queues:\n  firm: {paused: true}\n  firm/a: {limit: 3}\n")
    assert "made, limit none → 3" in fairway.out("queues", "apply", str(file), "--dry-run")
    assert fairway("queues", "show", "firm").returncode == 1
    fairway.out("queues", "apply", str(file))
    fairway.out("queues", "set", "firm/a", "limit=5")
    fairway.out("queues", "revert", "firm/a")
    assert "limit 5 → 3" in fairway.out("queues", "history", "firm/a").splitlines()[1]
    me = f"{getpass.getuser()}@{socket.gethostname()}"
    assert f"by {me} " in fairway.out("queues", "show", "firm/a")
    jobs = [fairway.submit("--queue", "firm/a", "--", "true") for _ in range(3)]
    assert fairway.out("queues", "rename", "firm", "house") == "queue firm is house now\n"
    assert {fairway.json("jobs", "show", job)["queue"] for job in jobs} == {"house/a"}
    assert fairway.json("queues", "show", "house/a")["settings"]["limit"] == 3
    assert fairway("queues", "delete", "house").returncode == 1
    fairway.out("queues", "delete", "house", "--move-to", "bin")
    assert fairway.out("jobs", "wait", *jobs).count("succeeded") == 3


def test_equal_jobs_are_one_and_the_newest_takes_the_place_of_the_one_that_waits(fairway: Shell) -> None:
    fairway.out("queues", "set", "once", "unique=true")
    assert re.search(r"once .* unique", fairway.out("queues", "list"))
    fairway.out("queues", "pause", "once")
    first, second, other = [
        fairway.submit("--queue", "once/mail", "--", "echo", word) for word in ("a", "a", "b")
    ]
    assert first == second != other
    newer = fairway.submit("--queue", "once/mail", "--replace", "--unique-for", "1h", "--", "echo", "a")
    eventually(lambda: fairway.json("jobs", "show", first)["state"] == "cancelled")
    assert fairway.json("jobs", "show", first)["outcome"]["reason"] == "replaced"
    fairway.out("queues", "resume", "once")
    assert "succeeded" in fairway.out("jobs", "wait", newer)
    assert fairway.submit("--queue", "once/mail", "--", "echo", "a") == newer
    refused = fairway("submit", "--unique-for", "1h", "--", "true")
    assert refused.returncode == 2 and "needs a unique key" in refused.stderr


def test_what_failed_is_found_by_a_query_and_tried_again(fairway: Shell) -> None:
    for _ in range(2):
        fairway("submit", "--wait", "--queue", "again", "--attempts", "1", "--", "false")
    assert len(fairway.json("jobs", "list", "queue:again", "state:failed")["jobs"]) == 2
    refused = fairway("jobs", "retry", "queue:again", "--all-matching")
    assert (refused.returncode, "retry 2 failed or unknown jobs" in refused.stderr) == (2, True)
    assert fairway.out("jobs", "retry", "queue:again", "--all-matching", "--yes") == "2 jobs queued again\n"
    assert fairway("jobs", "retry", fairway.submit("--delay", "1h", "--", "true")).returncode == 1


@pytest.mark.parametrize(("verb", "word"), [("cancel", "cancelled"), ("delete", "deleted")])
def test_a_job_that_is_not_there_is_named(fairway: Shell, verb: str, word: str) -> None:
    done = fairway("jobs", verb, "0000000000001")
    assert (done.returncode, done.stdout) == (1, f"0 jobs {word}\n")
    assert "there is no job 0000000000001" in done.stderr
    told = json.loads(fairway("--json", "jobs", verb, "0000000000001").stdout)
    [refused] = told["refusals"] if verb == "delete" else told["refused"]
    assert (refused["id"], refused["code"]) == ("0000000000001", "no_such_job")


def test_what_waits_for_others_is_found_by_a_query_moved_and_cancelled(fairway: Shell) -> None:
    first = fairway.submit("--queue", "chain", "--delay", "1h", "--", "true")
    second = fairway.submit("--queue", "chain", "--after", first, "--", "true")
    every = ("--all-matching", "--yes")
    worker = fairway.json("workers", "list")["workers"][0]["name"]
    assert fairway.out("jobs", "relocate", "queue:chain", "--to", worker, *every) == "2 jobs relocated\n"
    assert fairway.out("jobs", "move", "queue:chain", "--queue", "chained", *every) == "2 jobs moved\n"
    shown = fairway.json("jobs", "show", second)
    assert (shown["state"], shown["queue"], shown["pinned_to"]) == ("blocked", "chained", worker)
    assert fairway("jobs", "prefer", second).returncode == fairway("jobs", "requeue", second).returncode == 1
    assert fairway("jobs", "relocate", second, "--away").returncode == 1
    assert fairway.out("jobs", "kill", "queue:chained state:blocked", *every) == "1 job killed\n"
    last = first
    for _ in range(3):
        last = fairway.submit("--queue", "chained", "--after", last, "--", "true")
    assert fairway.out("jobs", "cancel", "queue:chained", *every) == "4 jobs cancelled\n"
    assert fairway.json("jobs", "show", last)["state"] in ("cancelled", "failed")  # with that before it


def test_a_log_can_be_read_later_and_shows_escapes(fairway: Shell) -> None:
    job = fairway.submit("--", "printf", "\\033[31mred\\n")
    fairway.out("jobs", "wait", job)
    eventually(lambda: fairway.out("jobs", "log", job) == "\\x1b[31mred\n")
    assert fairway.out("jobs", "log", "-f", "--raw", job) == "\x1b[31mred\n"


def test_a_drained_worker_takes_nothing_until_resumed(fairway: Shell) -> None:
    name = fairway.json("workers", "list")["workers"][0]["name"]
    fairway.out("workers", "drain", name)
    job = fairway.submit("--queue", "drained", "--", "true")
    assert fairway.json("jobs", "show", job)["state"] == "queued"
    assert fairway.out("jobs", "show", job).startswith("waits: ")
    fairway.out("workers", "resume", name)
    assert "succeeded" in fairway.out("jobs", "wait", job)


def test_a_detached_queue_finds_no_worker(fairway: Shell) -> None:
    worker = fairway.json("workers", "list")["workers"][0]
    glob = worker["queues"][0]
    fairway.out("queues", "attach", "only/this", worker["name"])
    fairway.out("queues", "detach", glob, worker["name"])
    job = fairway.submit("--queue", "elsewhere", "--", "true")
    assert fairway.json("jobs", "show", job)["waiting"]["reason"] == "no_worker"
    fairway.out("queues", "attach", glob, worker["name"])
    assert "succeeded" in fairway.out("jobs", "wait", job)


def test_events_are_told_as_they_happen(fairway: Shell) -> None:
    watch = Running("events", "queue:told", "--json", "--after", "0.0", environment=fairway.environment)
    try:
        job = fairway.submit("--queue", "told", "--", "true")
        assert watch.line(job)
    finally:
        code, _, errors = watch.stop()
    assert (code, errors.strip()) == (130, "")


def test_ctrl_c_while_following_is_quiet_and_the_job_goes_on(fairway: Shell, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = fairway.submit("--", "sh", "-c", f"echo ready; while ! test -e {go}; do sleep 0.05; done")
    watch = Running("jobs", "log", "-f", job, environment=fairway.environment)
    watch.line("ready")
    code, out, errors = watch.stop()
    assert (code, out, errors.strip()) == (130, "", "")
    go.touch()
    assert "succeeded" in fairway.out("jobs", "wait", job)


@pytest.mark.parametrize("line", [["--task", "no.such"], ["--tag", "nowhere", "--", "true"]])
def test_who_waits_is_told_why_and_how_to_stop_it(fairway: Shell, line: list[str]) -> None:
    waiting = Running("submit", "--wait", *line, together=True, environment=fairway.environment)
    job = waiting.line(r"^job (\S+)")[1]
    waiting.line("^waits: no worker has ")
    code, said, _ = waiting.stop()
    assert (code, said.strip()) == (130, f"the job goes on; stop it with: fairway jobs cancel {job}")
    assert fairway.json("jobs", "show", job)["state"] == "queued"
    again = Running("jobs", "wait", job, together=True, environment=fairway.environment)
    again.line("^waits: no worker has ")
    assert again.stop()[0] == 130
    fairway.out("jobs", "cancel", job)


def test_who_waits_is_told_what_failed(fairway: Shell) -> None:
    waiting = Running(
        "submit", "--wait", "--", "sh", "-c", "exit 3", together=True, environment=fairway.environment
    )
    job = waiting.line(r"^job (\S+)")[1]
    waiting.line(r"^try \d of 10 failed: ExitCode: .*exited with 3")
    waiting.stop()
    again = Running("jobs", "wait", job, together=True, environment=fairway.environment)
    again.line(r"^try \d of 10 failed: ")
    again.stop()
    fairway.out("jobs", "cancel", job)


def test_a_file_of_work_runs_and_keeps_its_secrets(fairway: Shell, tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    script = "echo got $(cat) ${#DB_PASSWORD}"
    file.write_text(
        f"adapter: command\nrun:\n- [sh, -c, '{script}']\nsecrets: {{DB_PASSWORD: hunter2}}\nstdin: hello\n"
        "result: last_line\n"
    )
    job = fairway.submit("--file", str(file))
    assert "succeeded" in fairway.out("jobs", "wait", job)
    assert fairway.json("jobs", "show", job)["outcome"]["value"] == "got hello 7"
    assert "hunter2" not in fairway.out("jobs", "show", job) + fairway.out("jobs", "show", job, "--json")


def test_a_worker_says_when_it_begins_and_when_it_stopped(fairway: Shell, tmp_path: Path) -> None:
    url = fairway.environment["FAIRWAY_URL"]
    options = ["--name", "w2", "--slots", "1", "--queues", "nothing", "--data-dir", str(tmp_path)]
    worker = Running("worker", "--join", url, *options)
    worker.line(f"^worker w2, 1 slot, joins {url}; Ctrl-C stops it$")
    eventually(lambda: "w2" in fairway.out("workers", "list"))
    code, said, errors = worker.stop()
    assert code == 0, errors
    assert said == "worker w2 stopped; what it had not finished is the node's again\n"


def test_a_reader_that_goes_away_is_no_error(fairway: Shell) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [*FAIRWAY, "jobs", "list", "--json"]
    environment = {**os.environ, **fairway.environment}
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, env=environment, timeout=60)
    os.close(writer)
    assert done.stderr == b""


def test_the_doctor_finds_the_node_and_the_cluster_its_leader(fairway: Shell) -> None:
    found = {
        one["check"]: one["status"] for one in json.loads(fairway("doctor", "--json").stdout)["findings"]
    }
    assert found["node"] == found["leader"] == found["version"] == found["clock"] == "ok"
    assert fairway.json("cluster")["leader"] == "n1"


def test_a_node_that_stepped_down_leads_again(fairway: Shell) -> None:
    term = fairway.json("cluster")["term"]
    fairway.out("cluster", "step-down")
    eventually(lambda: (fairway.json("cluster")["term"] or 0) > term)
    assert fairway("submit", "--wait", "--", "echo", "back").stdout == "back\n"


def test_jobs_survive_a_restart(tmp_path: Path) -> None:
    node = up(tmp_path)
    shell = Shell(node.line(r"^  api +(http://\S+)")[1])
    shell.out("queues", "pause", "later")
    job = shell.submit("--queue", "later", "--", "true")
    code, said, errors = node.stop()
    assert code == 0, errors
    assert "waiting" in said
    node = up(tmp_path)
    try:
        shell = Shell(node.line(r"^  api +(http://\S+)")[1])
        assert "paused" in shell.out("jobs", "show", job).splitlines()[0]
    finally:
        node.stop(signal.SIGTERM)


def test_what_is_not_there_is_named(fairway: Shell) -> None:
    assert fairway("jobs", "show", "nope").stderr == "fairway: there is no job 'nope'\n"
    assert fairway("workers", "show", "nope").stderr == "fairway: there is no worker 'nope'\n"


def test_the_job_that_has_the_key_is_waited_for_and_said_to_be_there(fairway: Shell) -> None:
    first = fairway.submit("--unique", "same", "--delay", "1s", "--", "true")
    done = fairway("submit", "--wait", "--unique", "same", "--", "true")
    assert done.stderr.startswith(f"job {first}, which was there already: it has the same key\n")
