"""`fairway jobs` and `fairway submit` against a stand-in that answers as the API does."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from fairway.cli.describing import what
from fairway.cli.progress import progress_line, showing_progress
from fairway.client.http import Transport
from tests.cli.stand_in import StandIn, job, operation

ID = job()["id"]
ENDED = {"started_at": "2026-01-01T00:00:01Z", "ended_at": "2026-01-01T00:00:03Z"}
SUCCEEDED = job(state="succeeded", outcome={"ok": True, "value": {"exit_code": 0}}, **ENDED)
FAILED = job(
    state="failed",
    outcome={
        "ok": False,
        "reason": "permanent",
        "error": {"type": "ValueError", "message": "bad\x1b[2J", "traceback": "Traceback:\n  line\x07"},
    },
    **ENDED,
)
FULL = {"reason": "limit", "detail": "limit of 'acme' is full (1 of 1)", "on": "acme"}


def test_show_says_first_why_a_job_waits(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", job(waiting=FULL, position=2))
    lines = node.run("jobs", "show", ID).stdout.splitlines()
    assert lines[0] == "waits: limit of 'acme' is full (1 of 1)"
    assert "does      echo 'hello world'" in lines
    assert "position  2 due jobs ahead of it" in lines


def test_show_names_the_group_and_the_jobs_it_comes_after(node: StandIn) -> None:
    after = [f"012345678900{number}" for number in range(7)]
    node.answer(f"GET /v1/jobs/{ID}", job(state="blocked", group="night-7", after=after, if_failed="run"))
    lines = node.run("jobs", "show", ID).stdout.splitlines()
    assert "group     night-7" in lines
    assert f"after     {', '.join(after[:5])} and 2 more, however they end" in lines


PROGRESS = {
    "fraction": 0.4, "text": "half\x1b[2J", "at": "2026-01-01T00:00:02Z", "rate_per_second": 0.012,
    "seconds_left": 50.0, "done_at": "2026-01-01T00:00:52Z",
}  # fmt: skip


def test_show_says_how_far_a_job_is_and_what_it_used(node: StandIn) -> None:
    usage = {"cpu_seconds": 1.25, "memory_bytes": 48_400_000}
    left = {"checkpoint_at": "2026-01-01T00:00:02Z"}
    node.answer(f"GET /v1/jobs/{ID}", job(state="running", progress=PROGRESS, usage=usage, **left))
    lines = node.run("jobs", "show", ID).stdout.splitlines()
    assert "progress    [########------------] 40 %, 1.2 % a second, 50 s left: half\\x1b[2J" in lines
    assert "used        1.2 s of CPU, 48 MB of memory" in lines
    assert any(line.startswith("checkpoint  ") and "2026-01-01T00:00:02Z" in line for line in lines)


@pytest.mark.parametrize(
    ("fraction", "bar"),
    [
        (0.0, "[--------------------] 0 %"),
        (0.999, "[###################-] 100 %"),
        (1, "[####################] 100 %"),
    ],
)
def test_a_bar_is_as_full_as_the_work(fraction: float, bar: str) -> None:
    told = {"fraction": fraction, "text": "", "rate_per_second": None, "seconds_left": None}
    assert progress_line({"progress": told}) == bar
    assert progress_line({"progress": None}) is None


def test_a_bar_moves_on_a_terminal_while_somebody_waits(
    node: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.answer(f"GET /v1/jobs/{ID}", job(state="running", progress=PROGRESS))
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    transport = Transport(node.url, None)
    with showing_progress(transport, ID):
        until = time.monotonic() + 20
        while "50 s left, half\\x1b[2J" not in shown.getvalue() and time.monotonic() < until:
            time.sleep(0.02)
    assert "40%" in shown.getvalue() and "50 s left, half\\x1b[2J" in shown.getvalue()


def test_show_says_when_a_job_will_start(node: StandIn) -> None:
    long_ago = "2020-01-01T00:00:00Z"
    eta = {"starts_at": long_ago, "p50": [long_ago] * 2, "p90": [long_ago] * 2, "basis": "2 ahead of it"}
    node.answer(f"GET /v1/jobs/{ID}", job(waiting=FULL, position=2, eta=eta))
    (line,) = [line for line in node.run("jobs", "show", ID).stdout.splitlines() if line.startswith("starts")]
    assert re.fullmatch(r"starts    \S+ d ago \(9 in 10: \S+ d ago to \S+ d ago\), 2 ahead of it", line)


def test_show_ends_with_the_traceback_and_obeys_nothing_in_it(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", FAILED)
    shown = node.run("jobs", "show", ID).stdout
    assert "outcome   failed in 2 s (permanent): ValueError: bad\\x1b[2J\n" in shown
    assert shown.endswith("\n\nTraceback:\n  line\\x07\n")
    assert "(2026-01-01T00:00:03Z)" in shown


def test_json_is_the_answer_itself_wherever_it_is_asked_for(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", FAILED)
    for line in (
        ["--json", "jobs", "show", ID],
        ["jobs", "--json", "show", ID],
        ["jobs", "show", ID, "--json"],
    ):
        assert json.loads(node.run(*line).stdout) == FAILED


def test_an_option_beats_the_environment(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"jobs": [], "next": None, "total": 0})
    assert node.run("--url", "http://127.0.0.1:1", "jobs", "list").exit_code == 1
    assert node.run("--url", "http://127.0.0.1:1", "jobs", "list", "--url", node.url).exit_code == 0


def test_list_joins_pages_up_to_its_limit(node: StandIn) -> None:
    first = {"jobs": [job(id=f"{n:013d}") for n in range(200)], "next": "c1", "total": 500}
    second = {"jobs": [job(id=f"{n:013d}") for n in range(200, 250)], "next": "c2", "total": 500}
    node.answer("GET /v1/jobs", first, second)
    result = node.run("jobs", "list", "queue:acme/*", "state:queued", "--limit", "250", "--json")
    assert len(json.loads(result.stdout)["jobs"]) == 250
    assert [asked.params["limit"] for asked in node.asked] == ["200", "50"]
    assert node.asked[1].params["cursor"] == "c1"
    assert node.asked[0].params["q"] == "queue:acme/* state:queued"


def test_list_shows_one_line_for_each_job(node: StandIn) -> None:
    long = job(work={"adapter": "command", "run": [["echo", "a\nb"]]}, waiting=FULL)
    node.answer("GET /v1/jobs", {"jobs": [long, FAILED], "next": None, "total": 2})
    lines = node.run("jobs", "list").stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["id", "state", "queue", "does", "attempt", "created", "note"]
    assert "limit of 'acme' is full" in lines[1]


def test_a_refusal_is_one_line(node: StandIn) -> None:
    result = node.run("jobs", "show", "0000000000000")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "fairway: nothing at /v1/jobs/0000000000000\n"


def test_what_the_node_finds_invalid_was_called_wrong(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"code": "invalid", "detail": "no field 'x'", "field": "q"}, status=422)
    assert node.run("jobs", "list", "x:y").exit_code == 2


def test_wait_asks_again_until_the_job_ended(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", job(state="running"), job(state="running"), SUCCEEDED)
    result = node.run("jobs", "wait", ID)
    assert (result.exit_code, result.stdout) == (0, f"{ID}  succeeded in 2 s\n")
    assert len(node.asked) == 3
    assert node.asked[0].params["wait"] == "20.000s"


def test_wait_fails_with_its_job_and_when_the_time_is_over(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", FAILED)
    assert node.run("jobs", "wait", ID).exit_code == 1
    node.answer(f"GET /v1/jobs/{ID}", job())
    result = node.run("jobs", "wait", ID, "--timeout", "0")
    assert (result.exit_code, "still queued" in result.stderr) == (1, True)


def test_cancel_acts_on_ids_and_tells_of_refusals(node: StandIn) -> None:
    other = "06abcdefghjk0"
    node.answer(f"DELETE /v1/jobs/{ID}", job(state="cancelled"))
    node.answer(f"DELETE /v1/jobs/{other}", {"code": "conflict", "detail": "it has ended"}, status=409)
    result = node.run("jobs", "cancel", ID, other)
    assert result.exit_code == 1
    assert result.stdout == f"{ID}  cancelled\n"
    assert result.stderr == f"{other} was not cancelled: it has ended\n"


def test_kill_cancels_by_force(node: StandIn) -> None:
    node.answer(f"DELETE /v1/jobs/{ID}", job(state="running", cancelling=True), job(state="cancelled"))
    assert node.run("jobs", "kill", ID).stdout == f"{ID}  being killed\n"
    assert node.run("jobs", "cancel", "--force", ID).stdout == f"{ID}  killed\n"
    assert [asked.params for asked in node.asked] == [{"force": "true"}, {"force": "true"}]


def test_cancel_does_not_kill(node: StandIn) -> None:
    node.answer(f"DELETE /v1/jobs/{ID}", job(state="running", cancelling=True))
    assert node.run("jobs", "cancel", ID).stdout == f"{ID}  asked to stop\n"
    assert node.asked[0].params == {}


def test_move_sends_what_shall_change_and_nothing_else(node: StandIn) -> None:
    node.answer(f"PATCH /v1/jobs/{ID}", job(queue="acme/late"))
    assert node.run("jobs", "move", ID, "--queue", "acme/late").stdout == f"{ID}  moved\n"
    assert node.asked[-1].body == {"queue": "acme/late"}
    node.run("jobs", "move", ID, "--flow", "u7", "--priority", "0", "--delay", "5m")
    assert node.asked[-1].body == {"flow": "u7", "priority": 0, "delay": 300.0}


def test_move_takes_a_queue_behind_the_ids(node: StandIn) -> None:
    node.answer(f"PATCH /v1/jobs/{ID}", job(queue="acme/late"))
    assert node.run("jobs", "move", ID, "acme/late").stdout == f"{ID}  moved\n"
    assert node.asked[-1].body == {"queue": "acme/late"}
    node.run("jobs", "move", ID, "--worker", "w3")
    assert node.asked[-1].body == {"worker": "w3"}


@pytest.mark.parametrize(
    ("words", "verb", "body", "done"),
    [
        (("relocate", "--to", "w3"), "relocate", {"to": "w3"}, "relocated"),
        (("relocate", "--away"), "relocate", {"away": True}, "relocated"),
        (("prefer",), "prefer", {}, "put in front"),
        (("requeue",), "requeue", {}, "put at the end"),
    ],
)
def test_jobs_are_sent_elsewhere(
    node: StandIn, words: tuple[str, ...], verb: str, body: dict[str, object], done: str
) -> None:
    node.answer(f"POST /v1/jobs/{ID}/{verb}", job())
    assert node.run("jobs", *words, ID).stdout == f"{ID}  {done}\n"
    assert node.asked[-1].body == body
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": None, "total": 1})
    node.answer("POST /v1/jobs/actions", operation(state="done", done=1), status=202)
    result = node.run("jobs", *words, "--all-matching", "--yes", "worker:w1")
    asked = node.asked[-1].body
    assert (result.exit_code, result.stdout) == (0, f"1 job {done}\n")
    assert asked == {"q": asked["q"], "action": verb, **body} and asked["q"].startswith("worker:w1 state:")


def test_move_takes_the_waiting_jobs_of_a_query(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": None, "total": 1})
    node.answer("POST /v1/jobs/actions", operation(state="done", done=1), status=202)
    result = node.run("jobs", "move", "--all-matching", "--yes", "queue:acme/*", "--queue", "b")
    query = "queue:acme/* state:blocked,scheduled,queued"
    assert (result.exit_code, node.asked[0].params["q"]) == (0, query)
    assert node.asked[-1].body == {"q": query, "action": "move", "changes": {"queue": "b"}}


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (("cancel",), "blocked,scheduled,queued,running"),
        (("cancel", "--force"), "blocked,scheduled,queued,running"),
        (("kill",), "blocked,scheduled,queued,running"),
        (("relocate", "--to", "w3"), "blocked,scheduled,queued,running"),
        (("relocate", "--away"), "scheduled,queued,running"),  # what is blocked has run nowhere
        (("prefer",), "scheduled,queued"),  # what is blocked stands in no line
        (("requeue",), "queued,running"),
    ],
)
def test_a_query_takes_the_states_that_the_node_allows(
    node: StandIn, words: tuple[str, ...], states: str
) -> None:
    node.answer("GET /v1/jobs", {"jobs": [], "next": None, "total": 0})
    assert node.run("jobs", *words, "--all-matching", "queue:acme").exit_code == 0
    assert node.asked[0].params["q"] == f"queue:acme state:{states}"


def test_a_query_is_counted_and_asked_about_first(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": "c", "total": 312})
    result = node.run("jobs", "retry", "--all-matching", "queue:acme/*", input="n\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("retry 312 failed or unknown jobs that match queue:acme/*? ")
    assert [asked.method for asked in node.asked] == ["GET"]


def test_one_job_is_asked_about_as_one(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": None, "total": 1})
    result = node.run("jobs", "cancel", "--all-matching", "queue:acme", input="n\n")
    assert result.stderr.startswith("cancel 1 job that matches queue:acme? ")
    result = node.run("jobs", "retry", "--all-matching", "state:failed", input="n\n")
    assert result.stderr.startswith("retry 1 job that matches state:failed? ")


def test_nothing_to_do_is_said_in_the_words_of_the_query(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"jobs": [], "next": None, "total": 0})
    result = node.run("jobs", "cancel", "--all-matching", "queue:acme", "age:>1h")
    assert result.exit_code == 0
    assert result.stderr == (
        "nothing to cancel: no blocked, scheduled, queued or running job matches queue:acme age:>1h\n"
    )


def test_nothing_to_do_is_one_document_too(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"jobs": [], "next": None, "total": 0})
    result = node.run("jobs", "cancel", "queue:nothing", "--all-matching", "--yes", "--json")
    document = json.loads(result.stdout)
    assert (document["count"], document["done"], document["action"]) == (0, 0, "cancel")


@pytest.mark.parametrize(("total", "says"), [(312, "1 of 312 jobs shown;"), (None, "1 job shown, there are")])
def test_a_list_that_is_cut_says_so(node: StandIn, total: int | None, says: str) -> None:
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": "c", "total": total})
    assert node.run("jobs", "list", "--limit", "1").stderr.startswith(says)


def test_without_anybody_to_answer_nothing_is_done(node: StandIn) -> None:
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": None, "total": 1})
    result = node.run("jobs", "retry", "--all-matching", "queue:acme/*", input="")
    assert (result.exit_code, "--yes" in result.stderr) == (2, True)


def test_submit_prints_the_id_and_sends_what_was_asked(node: StandIn) -> None:
    node.answer("POST /v1/jobs", job(), status=201)
    options = "--queue acme/emails --flow u7 --priority 3 --delay 5m --attempts 2 --timeout 30s --tag gpu*"
    more = "--unique k --delivery at_least_once --concurrency 1 --deadline 1h -- sh -c --json"
    company = f"--after {ID} --after 0123456789abc --if-failed run --group night-7"
    result = node.run("submit", *options.split(), *company.split(), *more.split())
    assert (result.exit_code, result.stdout) == (0, f"{ID}\n")
    assert node.asked[0].body == {
        "queue": "acme/emails",
        "flow": "u7",
        "priority": 3,
        "delay": 300.0,
        "max_attempts": 2,
        "timeout": 30.0,
        "tags": ["gpu*"],
        "unique": "k",
        "delivery": "at_least_once",
        "concurrency": 1,
        "deadline": 3600.0,
        "after": [ID, "0123456789abc"],
        "if_failed": "run",
        "group": "night-7",
        "work": {"adapter": "command", "run": [["sh", "-c", "--json"]]},
    }


def test_submit_sends_a_task_or_a_file_overruled_by_options(node: StandIn, tmp_path: Path) -> None:
    node.answer("POST /v1/jobs", job(), status=201)
    node.run("submit", "--task", "shop.send", "--args", '["a"]', "--kwargs", '{"n": 1}')
    assert node.asked[-1].body == {"task": "shop.send", "args": ["a"], "kwargs": {"n": 1}}
    file = tmp_path / "work.json"
    file.write_text('{"queue": "a", "priority": 1, "work": {"adapter": "command", "run": [["true"]]}}')
    node.run("submit", "--file", str(file), "--queue", "b")
    assert node.asked[-1].body == {"queue": "b", "priority": 1, "work": json.loads(file.read_text())["work"]}
    file.write_text('{"adapter": "command", "run": [["true"]]}')
    node.run("submit", "--file", str(file))
    assert node.asked[-1].body == {"work": {"adapter": "command", "run": [["true"]]}}


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ({"adapter": "command", "run": [["echo", "a b"], ["ls"]]}, "echo 'a b' ; ls"),
        ({"adapter": "command", "run": [{"argv": ["make"], "timeout": 5}, ["ls"]]}, "make ; ls"),
        ({"adapter": "http", "url": "https://example.org"}, "GET https://example.org"),
        ({"adapter": "http", "method": "PUT", "url": "https://example.org"}, "PUT https://example.org"),
        ({"adapter": "command", "run": "odd"}, '{"adapter": "command", "run": "odd"}'),
    ],
)
def test_work_is_shown_in_one_line(work: dict[str, Any], words: str) -> None:
    assert what({"work": work}) == words


def test_submit_reads_yaml(node: StandIn, tmp_path: Path) -> None:
    node.answer("POST /v1/jobs", job(), status=201)
    file = tmp_path / "work.yaml"
    file.write_text(
        "queue: a\nwork:\n  adapter: command\n  run:\n  - [make, -j4]\n"
        "  env: {WHEN: 2026-01-31, COUNT: '3'}\n"
    )
    assert node.run("submit", "--file", str(file)).exit_code == 0
    work = {"adapter": "command", "run": [["make", "-j4"]], "env": {"WHEN": "2026-01-31", "COUNT": "3"}}
    assert node.asked[-1].body == {"queue": "a", "work": work}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "anchor or alias in line 1"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "anchor or alias"),
        ("work: !!python/object/apply:os.system ['true']\n", "has a tag in line 1"),
        ("work: !secret x\n", "has a tag in line 1"),
        ("a: 1\na: 2\n", "the key 'a' twice"),
        ("1: x\n", "not text; quote it"),
        ("on: x\n", "not text; quote it"),
        ("<<: {a: 1}\n", "not text; quote it"),
        ("a: .inf\n", "not finite"),
        ("[" * 5000, "nested deeper"),
        ("a: b: c\n", "is not YAML"),
        ("a: 1\n---\nb: 2\n", "is not YAML"),
        ("a: \x00\n", "is not YAML"),
        ("- a\n", "holds no job"),
        ("", "holds no job"),
    ],
)
def test_yaml_that_is_not_plain_is_refused(node: StandIn, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "work.yml"
    file.write_text(text)
    said = node.run("submit", "--file", str(file))
    assert (said.exit_code, node.asked) == (2, [])
    assert words in " ".join(said.stderr.split())


def test_submit_sends_what_was_said_of_keys(node: StandIn) -> None:
    node.answer("POST /v1/jobs", job(), status=201)
    node.run("submit", "--unique-payload", "--unique-for", "1h", "--replace", "--task", "shop.send")
    assert node.asked[-1].body == {"task": "shop.send", "unique": True, "unique_for": 3600.0, "replace": True}
    result = node.run("submit", "--unique-payload", "--unique", "k", "--task", "shop.send")
    assert result.exit_code == 2 and "exclude each other" in result.stderr


def test_a_task_that_was_waited_for_prints_its_value(node: StandIn) -> None:
    task: dict[str, Any] = {"task": "shop.send", "args": [], "kwargs": {}, "work": None}
    node.answer("POST /v1/jobs", job(**task), status=201)
    node.answer(f"GET /v1/jobs/{ID}", {**SUCCEEDED, **task, "outcome": {"ok": True, "value": [1, "ü"]}})
    result = node.run("submit", "--wait", "--task", "shop.send")
    assert (result.exit_code, result.stdout) == (0, '[1, "\\u00fc"]\n')
    assert result.stderr == f"job {ID}\nsucceeded in 2 s\n"


LOG = b"""id: 1.0
event: log
data: {"at": "2026-01-01T00:00:01Z", "stream": "stdout", "text": "out\\u001b[1m\\n"}

: waiting

id: 1.1
event: log
data: {"at": "2026-01-01T00:00:01Z", "stream": "stderr", "text": "err\\n"}

id: 1.2
event: log
data: {"at": "2026-01-01T00:00:01Z", "stream": "notice", "text": "[dropped]\\n"}

event: end
data: {}

"""


def test_a_command_that_was_waited_for_writes_as_if_it_ran_here(node: StandIn) -> None:
    node.answer("POST /v1/jobs", job(), status=201)
    node.answer(f"GET /v1/jobs/{ID}/log", LOG)
    node.answer(f"GET /v1/jobs/{ID}", FAILED)
    result = node.run("submit", "--wait", "--", "true")
    assert (result.exit_code, result.stdout) == (1, "out\x1b[1m\n")
    assert result.stderr.splitlines()[:3] == [f"job {ID}", "err", "[dropped]"]
    assert result.stderr.splitlines()[3].startswith("failed in 2 s (permanent)")


def test_a_log_is_obeyed_by_no_terminal_unless_asked_for_raw(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}/log", LOG)
    assert node.run("jobs", "log", "-f", ID).stdout == "out\\x1b[1m\n"
    assert node.run("jobs", "log", "-f", "--raw", ID).stdout == "out\x1b[1m\n"
    node.answer(f"GET /v1/jobs/{ID}/log", "all\x1b\n")
    assert node.run("jobs", "log", ID).stdout == "all\\x1b\n"


def test_a_log_as_json_is_one_document(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", job(state="succeeded", attempt=1))
    node.answer(f"GET /v1/jobs/{ID}/log", "one\n\ntwo\x1b\n")
    for line in (["jobs", "log", ID, "--json"], ["jobs", "log", "-f", ID, "--json"]):
        assert json.loads(node.run(*line).stdout) == {"id": ID, "lines": ["one", "", "two\x1b"]}
    node.answer(f"GET /v1/jobs/{ID}/log", "")
    assert json.loads(node.run("jobs", "log", ID, "--json").stdout) == {"id": ID, "lines": []}


def test_an_attempt_that_there_was_not_has_no_log(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", job(state="succeeded", attempt=2))
    for follow in ([], ["-f"]):
        result = node.run("jobs", "log", ID, "--attempt", "9", *follow)
        assert result.stderr == f"fairway: job {ID} has no attempt 9: it had 2 attempts so far\n"
        assert result.exit_code == 1


def test_an_attempt_that_may_still_come_can_be_followed(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", job(state="scheduled", attempt=1))
    node.answer(f"GET /v1/jobs/{ID}/log", LOG)
    assert node.run("jobs", "log", "-f", "--attempt", "2", ID).exit_code == 0


@pytest.mark.parametrize(("option", "state"), [("--succeeded", "succeeded"), ("--failed", "failed")])
def test_a_person_says_how_an_unknown_job_went(node: StandIn, option: str, state: str) -> None:
    node.answer(f"POST /v1/jobs/{ID}/resolve", job(state=state))
    assert node.run("jobs", "resolve", ID, option).stdout == f"{ID}  {state}\n"
    assert node.asked[-1].body == {"succeeded": state == "succeeded"}
    assert json.loads(node.run("jobs", "resolve", ID, option, "--json").stdout)["state"] == state


def test_an_unknown_job_says_what_to_do(node: StandIn) -> None:
    node.answer(f"GET /v1/jobs/{ID}", job(state="unknown"))
    last = node.run("jobs", "show", ID).stdout.splitlines()[-1]
    assert f"fairway jobs resolve {ID} --succeeded (or --failed)" in last
    assert last.endswith(f"fairway jobs retry {ID}")


@pytest.mark.parametrize(
    ("status", "says"), [(200, ", which was there already: it has the same key"), (201, "")]
)
def test_who_waits_for_a_job_that_was_there_is_told(node: StandIn, status: int, says: str) -> None:
    node.answer("POST /v1/jobs", job(unique="k"), status=status)
    node.answer(f"GET /v1/jobs/{ID}/log", LOG)
    node.answer(f"GET /v1/jobs/{ID}", job(state="succeeded", unique="k"))
    result = node.run("submit", "--wait", "--unique", "k", "--", "true")
    assert result.stderr.splitlines()[0] == f"job {ID}{says}"
