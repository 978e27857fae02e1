"""Commands: steps, failures, output, time limits, and nothing left behind."""

from __future__ import annotations

import grp
import os
import pwd
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway import ids
from fairway.adapters import command_result, command_rights
from fairway.adapters.command import CommandAdapter
from fairway.adapters.command_payload import Work
from fairway.adapters.command_rights import NotAllowed, find_rights
from fairway.wire.messages import Note
from fairway.worker.warden import Warden
from tests.integration.worker_world import Recorder, command, eventually, is_gone


@pytest.fixture
async def adapter() -> AsyncIterator[CommandAdapter]:
    """A command adapter with a guardian of its own."""
    warden = Warden()
    warden.start()
    yield CommandAdapter(warden)
    await warden.close()


async def run(adapter: CommandAdapter, *steps: list[str], **options: Any) -> Recorder:
    """Run one command job to its end."""
    recorder = Recorder()
    await adapter.start(recorder)
    adapter.begin([command(1, *steps, **options)])
    await recorder.until_ended(1)
    return recorder


def said_by(recorder: Recorder) -> list[Note]:
    """Return what the program itself noted, without what it was seen to use."""
    return [note for note in recorder.notes if note.cpu_seconds is None]


async def check_work(adapter: CommandAdapter, script: str, kind: str, value: Any, **work: Any) -> None:
    """Run a script with more *work* around it, and expect its value, or the type of its error."""
    recorder = await run(adapter, ["sh", "-c", script], **work)
    found = recorder.value(1)
    assert (recorder.result(1).kind, found if kind == "ok" else found["type"]) == (kind, value)


async def check(adapter: CommandAdapter, *steps: list[str], kind: str, **body: Any) -> Recorder:
    """Run *steps* and expect a result of *kind* whose body has at least these entries."""
    recorder = await run(adapter, *steps)
    assert recorder.result(1).kind == kind
    assert recorder.value(1) | body == recorder.value(1)
    return recorder


async def test_a_command_that_exits_with_0_succeeds(adapter: CommandAdapter) -> None:
    recorder = await check(adapter, ["true"], kind="ok")
    assert recorder.value(1) == {"exit_code": 0, "signal": None}


async def test_a_command_knows_its_job(adapter: CommandAdapter) -> None:
    script = "echo $FAIRWAY_JOB $FAIRWAY_ATTEMPT $FAIRWAY_QUEUE $COLOUR; pwd"
    recorder = await run(adapter, ["sh", "-c", script], env={"COLOUR": "red"}, cwd="/")
    assert recorder.text("stdout") == f"{ids.show(1)} 1 acme/mail red\n/\n"


async def test_a_command_does_not_get_the_worker_s_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAIRWAY_TOKEN", "FAIRWAY_DATABASE", "FAIRWAY_WEBHOOK_SECRET", "FAIRWAY_COLOUR"):
        monkeypatch.setenv(name, "hunter2")
    warden = Warden()
    warden.start()
    script = "echo [$FAIRWAY_TOKEN] [$FAIRWAY_DATABASE] [$FAIRWAY_WEBHOOK_SECRET] [$FAIRWAY_COLOUR]"
    recorder = await run(CommandAdapter(warden), ["sh", "-c", script], env={"FAIRWAY_TOKEN": "its own"})
    assert recorder.text("stdout") == "[its own] [] [] [hunter2]\n"
    await warden.close()


async def test_the_first_step_that_fails_ends_the_job(adapter: CommandAdapter) -> None:
    steps = [["echo", "one"], ["sh", "-c", "echo why >&2; exit 3"], ["echo", "three"]]
    recorder = await check(
        adapter,
        *steps,
        kind="error",
        type="ExitCode",
        message="step 2 'sh' exited with 3",
        exit_code=3,
        signal=None,
        traceback="why\n",
    )
    assert recorder.text("stdout") == "one\n"


async def test_death_by_a_signal_is_told_by_its_name(adapter: CommandAdapter) -> None:
    await check(adapter, ["sh", "-c", "kill -SEGV $$"], kind="error", type="Signal", signal="SIGSEGV")


async def test_a_program_that_is_not_there_is_told(adapter: CommandAdapter) -> None:
    recorder = await check(adapter, ["no-such-program-here"], kind="error", type="CommandNotFound")
    message = recorder.value(1)["message"]
    assert "No such file" in message and message.endswith("/no-such-program-here'") and "b'" not in message


async def test_a_file_that_is_no_program_is_told(adapter: CommandAdapter) -> None:
    await check(adapter, ["/etc/hostname"], kind="error", type="CommandNotFound")


async def test_work_that_is_no_command_is_refused_for_good(adapter: CommandAdapter) -> None:
    recorder = Recorder()
    await adapter.start(recorder)
    adapter.begin([command(1)._replace(payload=b'{"work": {"run": "rm -rf"}}')])
    await recorder.until_ended(1)
    assert recorder.result(1).kind == "permanent"


async def test_output_is_bounded_and_the_job_runs_on(adapter: CommandAdapter) -> None:
    script = "head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo end >&2"
    recorder = await check(adapter, ["sh", "-c", script], kind="ok")
    assert len(recorder.text("stdout")) <= 1024 * 1024
    assert recorder.text("notice") == "[output beyond 1 MB is dropped]\n"
    assert [piece.number for piece in recorder.pieces] == list(range(1, len(recorder.pieces) + 1))


async def test_a_long_line_is_cut_and_bad_characters_are_replaced(adapter: CommandAdapter) -> None:
    script = r"head -c 300000 /dev/zero | tr '\0' 'x'; printf '\nb\377d\n'; printf last"
    recorder = await run(adapter, ["sh", "-c", script])
    long, bad, last = recorder.text("stdout").split("\n")
    assert (long, bad, last) == ("x" * 64 * 1024 + " [line cut]", "b�d", "last")


async def test_a_time_limit_kills_even_a_grandchild_that_ignores_sigterm(
    adapter: CommandAdapter, tmp_path: Path
) -> None:
    script = f"(trap '' TERM; echo $BASHPID > {tmp_path}/pid; while :; do sleep 1; done) & wait"
    recorder = await run(adapter, ["bash", "-c", script], timeout=0.3)
    assert recorder.result(1).kind == "timeout"
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: is_gone(pid))


async def test_a_command_that_ignores_sigterm_is_killed_after_its_grace(adapter: CommandAdapter) -> None:
    recorder = Recorder()
    await adapter.start(recorder)
    adapter.begin([command(1, ["bash", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"])])
    await recorder.until(lambda: recorder.pieces)
    assert adapter.started(1, 1)
    adapter.stop(1, 1, force=False)
    await recorder.until_ended(1)
    assert recorder.result(1).kind == "cancelled"
    assert recorder.result(1).seconds > 1.9


async def test_a_command_has_the_grace_of_its_job_and_is_asked_once(
    adapter: CommandAdapter, tmp_path: Path
) -> None:
    recorder, told = Recorder(), tmp_path / "told"
    await adapter.start(recorder)
    script = f"trap 'echo told >> {told}' TERM; echo up; while :; do sleep 0.05; done"
    adapter.begin([command(1, ["bash", "-c", script])._replace(grace=3.0)])
    await recorder.until(lambda: recorder.pieces)
    adapter.stop(1, 1, force=False)
    await eventually(told.exists)
    adapter.stop(1, 1, force=False)  # as with every beat until it has ended
    await recorder.until_ended(1)
    assert told.read_text() == "told\n"
    assert recorder.result(1).seconds > 2.9


async def test_what_a_command_leaves_behind_is_killed(adapter: CommandAdapter, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/same; setsid sleep 1000 & echo $! > {tmp_path}/own; exit 0"
    await check(adapter, ["sh", "-c", script], kind="ok")
    for name in ("same", "own"):
        pid = int((tmp_path / name).read_text())
        await eventually(lambda pid=pid: is_gone(pid))


async def test_closing_stops_what_runs_after_its_grace(adapter: CommandAdapter) -> None:
    recorder = Recorder()
    await adapter.start(recorder)
    adapter.begin([command(1, ["sleep", "1000"])])
    adapter.begin([command(2, ["true"])])
    await adapter.close(0.5)
    assert (recorder.result(1).kind, recorder.result(2).kind) == ("stopped", "ok")


# --- what it is given -----------------------------------------------------------------------------------
async def test_secrets_are_variables_and_overrule_nothing_of_ours(adapter: CommandAdapter) -> None:
    script = "echo $DB_PASSWORD $FAIRWAY_ATTEMPT"
    secrets = {"DB_PASSWORD": "hunter2", "FAIRWAY_ATTEMPT": "9"}
    recorder = await run(adapter, ["sh", "-c", script], secrets=secrets)
    assert recorder.text("stdout") == "hunter2 1\n"


@pytest.mark.parametrize(
    ("work", "read"),
    [({"stdin": "two\nlines"}, "two\nlines"), ({"input": {"a": [1, None]}}, '{"a":[1,null]}\n'), ({}, "")],
)
async def test_every_step_reads_the_input_from_its_beginning(
    adapter: CommandAdapter, work: dict[str, Any], read: str
) -> None:
    recorder = await run(adapter, ["cat"], ["cat"], **work)
    assert recorder.text("stdout") == read * 2


async def test_a_large_input_blocks_nobody(adapter: CommandAdapter) -> None:
    await check_work(adapter, "exit 0", "ok", {"exit_code": 0, "signal": None}, stdin="x" * 900_000)
    recorder = await run(adapter, ["wc", "-c"], stdin="x" * 900_000)
    assert recorder.text("stdout").strip() == "900000"


async def test_a_step_may_have_a_time_limit_of_its_own(adapter: CommandAdapter) -> None:
    steps: Any = [["true"], {"argv": ["sleep", "60"], "timeout": "200ms"}, ["echo", "never"]]
    recorder = await run(adapter, *steps, timeout=50)
    assert recorder.result(1).kind == "timeout"
    assert recorder.value(1)["message"] == "step 2 'sleep' was stopped after 0.2 s"
    assert recorder.text("stdout") == ""


# --- what its end means ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "codes", "kind"),
    [
        (0, {}, "ok"),
        (1, {}, "error"),
        (2, {"permanent": [2]}, "permanent"),
        (1, {"permanent": [2]}, "error"),
        (75, {"retry": [75]}, "error"),
        (1, {"retry": [75]}, "permanent"),
        (0, {"retry": [75]}, "ok"),
        (75, {"retry": [75], "permanent": [2], "ok": [0, 3]}, "error"),
        (2, {"retry": [75], "permanent": [2], "ok": [0, 3]}, "permanent"),
        (3, {"retry": [75], "permanent": [2], "ok": [0, 3]}, "ok"),
        (9, {"retry": [75], "permanent": [2], "ok": [0, 3]}, "error"),
    ],
)
async def test_an_exit_code_means_what_the_work_says(
    adapter: CommandAdapter, code: int, codes: dict[str, list[int]], kind: str
) -> None:
    recorder = await run(adapter, ["sh", "-c", f"exit {code}"], exit_codes=codes)
    assert (recorder.result(1).kind, recorder.value(1)["exit_code"]) == (kind, code)


async def test_a_step_that_ends_well_by_another_code_is_followed_by_the_next(adapter: CommandAdapter) -> None:
    recorder = await run(adapter, ["sh", "-c", "exit 3"], ["echo", "on"], exit_codes={"ok": [3]})
    assert (recorder.result(1).kind, recorder.text("stdout")) == ("ok", "on\n")


# --- its result -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("echo one; echo two", "two"),
        ("echo 5", 5),
        ("""echo '{"a": [1]}'; echo; echo""", {"a": [1]}),
        ("printf 'no newline'", "no newline"),
        ("echo NaN", "NaN"),
        ("head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo 7", 7),
    ],
)
async def test_the_last_line_is_the_result(adapter: CommandAdapter, script: str, value: Any) -> None:
    await check_work(adapter, script, "ok", value, result="last_line")


async def test_without_a_line_there_is_no_result(adapter: CommandAdapter) -> None:
    recorder = await run(adapter, ["true"], result="last_line")
    assert recorder.result(1).kind == "permanent" and "no line" in recorder.value(1)["message"]


@pytest.mark.parametrize(
    ("script", "kind", "value"),
    [
        ("""echo '{"rows": 3}' > out.json""", "ok", {"rows": 3}),
        ("true", "permanent", "BadResult"),
        ("echo no > out.json", "permanent", "BadResult"),
        ("echo NaN > out.json", "permanent", "BadResult"),
        ("mkdir out.json", "permanent", "BadResult"),
        ("mkfifo out.json", "permanent", "BadResult"),
        ("ln -s /etc/hostname out.json", "permanent", "BadResult"),
        ("head -c 2000000 /dev/zero > out.json", "permanent", "BadResult"),
        ("echo 1 > out.json; exit 4", "error", "ExitCode"),
    ],
)
async def test_a_file_is_the_result(
    adapter: CommandAdapter, tmp_path: Path, script: str, kind: str, value: Any
) -> None:
    await check_work(adapter, script, kind, value, result={"file": "out.json"}, cwd=str(tmp_path))


@pytest.mark.parametrize(
    ("script", "kind", "value"),
    [
        ("""echo '[1, 2]' > "$FAIRWAY_RESULT" """, "ok", [1, 2]),
        ("""echo 5 > "$FAIRWAY_RESULT.new"; mv "$FAIRWAY_RESULT.new" "$FAIRWAY_RESULT" """, "ok", 5),
        ("""rm "$FAIRWAY_RESULT" """, "ok", {"exit_code": 0, "signal": None}),
        ("""echo oops > "$FAIRWAY_RESULT" """, "permanent", "BadResult"),
        ("""rm "$FAIRWAY_RESULT"; mkdir "$FAIRWAY_RESULT" """, "permanent", "BadResult"),
    ],
)
async def test_a_program_may_write_its_result_to_a_file_of_its_own(
    adapter: CommandAdapter, script: str, kind: str, value: Any
) -> None:
    await check_work(adapter, script, kind, value)


async def test_the_file_of_a_result_is_gone_afterwards(adapter: CommandAdapter) -> None:
    recorder = await run(adapter, ["sh", "-c", "echo $FAIRWAY_RESULT; ls -l $FAIRWAY_RESULT"])
    path, listed = recorder.text("stdout").splitlines()
    assert listed.startswith("-rw-------")
    assert not os.path.exists(path)  # noqa: ASYNC240, PTH110


# --- what it says of itself -------------------------------------------------------------------------------
async def test_notes_are_passed_on_before_the_result(adapter: CommandAdapter) -> None:
    script = """
        echo '{"progress": 0.25, "text": "a quarter"}' >&$FAIRWAY_NOTES
        echo '{"checkpoint": {"page": 4}}' >&$FAIRWAY_NOTES
        printf '{"progress": 1}' >&$FAIRWAY_NOTES
        echo log
    """
    recorder = await run(adapter, ["bash", "-c", script])
    said = [(note.progress, note.text, note.checkpoint) for note in said_by(recorder)]
    assert said == [(0.25, "a quarter", None), (None, "", b'{"page": 4}'), (1.0, "", None)]
    assert recorder.text("stdout") == "log\n"


async def test_an_attempt_gets_the_checkpoint_of_an_earlier_one(adapter: CommandAdapter) -> None:
    recorder = Recorder()
    await adapter.start(recorder)
    steps = ["sh", "-c", "echo $FAIRWAY_CHECKPOINT"]
    adapter.begin([command(1, steps)._replace(checkpoint=b'{"page":4}')])
    await recorder.until_ended(1)
    assert recorder.text("stdout") == '{"page":4}\n'


@pytest.mark.parametrize(
    "line",
    ["nonsense", "[]", '{"progress": 2}', '{"progress": "half"}', '{"progress": NaN}', '{"text": 5}',
     '{"checkpoint": "' + "x" * 70_000 + '"}', "x" * 200_000, '{"checkpoint": 1e999}', '{"checkpoint": NaN}',
     '{"checkpoint": "\udcff"}', '{"checkpoint": "\\ud800"}', '{"checkpoint": ' + "[" * 65 + "]" * 65 + "}"],
    ids=lambda line: ascii(line[:30]),
)  # fmt: skip
async def test_notes_that_are_none_are_complained_of_once(
    adapter: CommandAdapter, tmp_path: Path, line: str
) -> None:
    text = f"{line}\n{line}\n" + '{"progress": 0.5}\n'
    (tmp_path / "lines").write_bytes(text.encode(errors="surrogateescape"))
    recorder = await run(adapter, ["bash", "-c", f"cat {tmp_path}/lines >&$FAIRWAY_NOTES"])
    assert recorder.result(1).kind == "ok"
    assert [note.progress for note in said_by(recorder)] == [0.5]
    assert recorder.text("notice").count("note") >= 1 and len(recorder.text("notice").splitlines()) == 1


# --- as whom, and how much ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("limits", "script", "said"),
    [
        ({"files": 64}, "ulimit -n; ulimit -Hn", "64\n64\n"),
        ({"memory_bytes": 512 * 1024 * 1024}, "ulimit -v", "524288\n"),
        ({"cpu_seconds": 5}, "ulimit -t; ulimit -Ht", "5\n7\n"),
        ({"processes": 100}, "ulimit -u", "100\n"),
    ],
)
async def test_limits_are_those_of_the_program(
    adapter: CommandAdapter, limits: dict[str, int], script: str, said: str
) -> None:
    recorder = await run(adapter, ["bash", "-c", script], limits=limits)
    assert recorder.text("stdout") == said


async def test_a_program_over_its_time_is_ended(adapter: CommandAdapter) -> None:
    recorder = await run(adapter, ["sh", "-c", "while :; do :; done"], limits={"cpu_seconds": 1})
    assert (recorder.result(1).kind, recorder.value(1)["signal"]) == ("error", "SIGXCPU")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ({"user": "nobody"}, "would have to run as root"),
        ({"group": "daemon"}, "would have to run as root"),
        ({"user": "no-such-user"}, "no user 'no-such-user'"),
        ({"group": "no-such-group"}, "no group 'no-such-group'"),
        ({"limits": {"files": 10**9}}, "above the worker's own"),
    ],
)
async def test_what_is_not_root_is_told_what_it_cannot(work: dict[str, Any], words: str) -> None:
    with pytest.raises(NotAllowed, match=words):
        await find_rights(Work(run=[["true"]], **work), euid=12345)


async def test_an_unknown_user_fails_for_good(adapter: CommandAdapter) -> None:
    await check_work(adapter, "true", "permanent", "NotAllowed", user="no-such-user")


async def test_users_that_nobody_can_look_up_now_are_no_fault_of_the_job(
    adapter: CommandAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_rights, "LOOK_UP_SECONDS", 0.0)
    recorder = await run(adapter, ["true"], user=str(os.geteuid()))
    assert recorder.returned == [(1, 1)] and not recorder.results


async def test_a_result_that_cannot_be_read_now_is_tried_again(
    adapter: CommandAdapter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command_result, "READ_SECONDS", 0.0)
    work = {"cwd": str(tmp_path), "result": {"file": "out.json"}}
    await check_work(adapter, "echo 7 > out.json", "error", "NotRead", **work)


async def test_a_worker_may_be_told_to_be_who_it_is(adapter: CommandAdapter) -> None:
    await check_work(adapter, "id -u", "ok", os.geteuid(), user=str(os.geteuid()), result="last_line")


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user may write to (pytest's own are closed to others), with a file of ours."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        Path(directory, "secret").write_text("5")
        yield Path(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
class TestAsRoot:
    """A worker that runs as root gives its rights away."""

    async def test_a_command_becomes_its_user_for_good(self, adapter: CommandAdapter) -> None:
        script = "id -un; id -gn; id -Gn; echo $HOME $USER; kill -0 1 2>&1 | grep -c permitted"
        recorder = await run(adapter, ["bash", "-c", script], user="nobody", cwd="/")
        nobody = pwd.getpwnam("nobody")
        name, group, groups, variables, refused = recorder.text("stdout").splitlines()
        assert (name, refused) == ("nobody", "1")
        assert group == grp.getgrgid(nobody.pw_gid).gr_name and "root" not in groups.split()
        assert variables == f"{nobody.pw_dir} nobody"

    async def test_a_group_alone_is_taken_on(self, adapter: CommandAdapter) -> None:
        recorder = await run(adapter, ["sh", "-c", "id -un; id -Gn"], group="daemon")
        assert recorder.text("stdout").splitlines() == ["root", "daemon"]

    async def test_another_user_writes_its_result_and_notes(self, adapter: CommandAdapter) -> None:
        script = """echo 7 > $FAIRWAY_RESULT; echo '{"progress": 1}' >&$FAIRWAY_NOTES; cat"""
        recorder = await run(adapter, ["bash", "-c", script], user="nobody", cwd="/", stdin="in")
        assert (recorder.value(1), recorder.text("stdout"), len(said_by(recorder))) == (7, "in", 1)

    @pytest.mark.parametrize("script", ["ln -s secret out.json", "ln secret out.json", "mv secret out.json"])
    async def test_another_user_gets_nothing_by_a_link(
        self, adapter: CommandAdapter, script: str, open_directory: Path
    ) -> None:
        """Whatever it does to a file of ours, that does not become its result."""
        work = {"user": "nobody", "cwd": str(open_directory), "result": {"file": "out.json"}}
        recorder = await run(adapter, ["sh", "-c", f"{script}; true"], **work)
        assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("permanent", "BadResult")

    async def test_another_users_processes_end_with_the_worker(self) -> None:
        warden, recorder = Warden(), Recorder()
        warden.start()
        adapter = CommandAdapter(warden)
        await adapter.start(recorder)
        adapter.begin([command(1, ["sh", "-c", "echo $$; sleep 1000"], user="nobody", cwd="/")])
        await recorder.until(lambda: recorder.pieces)
        assert warden.pid is not None
        os.kill(warden.pid, signal.SIGKILL)
        await eventually(lambda: is_gone(int(recorder.text("stdout"))))
        await warden.close()
