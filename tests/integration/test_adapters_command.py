"""Commands: steps, failures, output, time limits, and nothing left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairway import ids
from fairway.adapters.command import CommandAdapter
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
    assert "No such file" in recorder.value(1)["message"]


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
    assert (len(long), bad, last) == (64 * 1024, "b�d", "last")


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
