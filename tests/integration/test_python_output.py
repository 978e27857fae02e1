"""What Python tasks write is the log of the attempt that wrote it: whole before its result, and bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from fairway.adapters.lines import CUT, MOST_BYTES, MOST_LINE_BYTES
from fairway.adapters.python import child as python_child
from fairway.adapters.python.adapter import PythonAdapter
from fairway.adapters.python.stacks import DUMP_SIGNAL
from fairway.wire.messages import Assignment
from fairway.worker.warden import Warden
from tests.integration.worker_world import PATIENCE_SECONDS, Recorder, call, eventually

APP = "tests.integration.speaking_tasks:app"
ROOT = Path(__file__).parent.parent.parent


class World:
    """An adapter with one slot, and what its attempts wrote."""

    def __init__(self, warden: Warden) -> None:
        self.recorder = Recorder()
        self.adapter = PythonAdapter(warden, [APP], slots=1)

    async def run(self, *assignments: Assignment) -> None:
        """Run these, as a bundle or side by side, to their ends."""
        before = len(self.recorder.results)
        if assignments[0].bundle:
            self.adapter.begin(assignments)
        else:
            for assignment in assignments:
                self.adapter.begin([assignment])
        await self.recorder.until_ended(before + len(assignments))

    def log(self, job: int, *streams: str) -> str:
        """Return what a job wrote, to all streams if none is named."""
        return "".join(
            piece.text
            for piece in self.recorder.pieces
            if piece.job == job and (not streams or piece.stream in streams)
        )


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    warden = Warden()
    world = World(warden)
    await world.adapter.start(world.recorder)
    yield world
    await warden.close()


async def test_prints_and_logging_are_the_jobs_log_when_its_result_comes(world: World) -> None:
    await world.run(call(1, "say_in_many_ways"))
    assert world.log(1, "stdout") == (
        "printed\nwithout a newline then bytes\nlone \\ud800 surrogate\nthe end"
    )
    assert world.log(1, "stderr") == "to stderr\nINFO shop: logged 7\n"
    numbers = [piece.number for piece in world.recorder.pieces]
    assert numbers == sorted(set(numbers))


async def test_a_line_is_seen_while_the_job_runs(world: World) -> None:
    world.adapter.begin([call(1, "say_then_sleep", "begun", 60)])
    await world.recorder.until(lambda: world.log(1) == "begun\n")
    assert not world.recorder.results


async def test_every_job_of_a_bundle_has_its_own_log(world: World) -> None:
    jobs = range(1, 301)
    await world.run(*(call(job, "say", f"I am {job}", bundle=1) for job in jobs))
    done = [job for job in jobs if (job, 1) in world.recorder.results]
    assert len(done) > 1 and all(world.log(job) == f"I am {job}\n" for job in done)


async def test_async_tasks_side_by_side_have_their_own_logs(world: World) -> None:
    await world.run(*(call(job, "asay", f"I am {job}", 20) for job in range(1, 51)))
    for job in range(1, 51):
        lines = [f"I am {job} {number}\n" for number in range(20)]
        assert world.log(job, "stdout") == "".join(lines) + f"I am {job} in a thread\n"
        assert world.log(job, "stderr") == f"WARNING shop: I am {job} logged\n"


async def test_threads_speak_for_the_job_that_uses_them(world: World) -> None:
    for job in (1, 2):
        await world.run(call(job, "say_in_threads", f"job {job}"))
        assert world.log(job) == f"job {job} in a thread\njob {job} in a pool\n"


async def test_a_thread_or_task_that_outlives_its_job_is_in_nobodys_log(world: World, tmp_path: Path) -> None:
    path = str(tmp_path / "wake")
    await world.run(call(1, "leave_a_thread", path))
    await world.run(call(2, "wake_the_thread", path))
    await world.run(call(3, "leave_a_task"))
    await world.run(call(4, "asay", "on", 1))
    await asyncio.sleep(0.5)
    assert (world.log(1), world.log(2), world.log(3)) == ("", "awake\n", "")


async def test_what_programs_and_forks_write_belongs_to_the_job_that_started_them(world: World) -> None:
    jobs = [call(job, "run_program", f"job{job}", bundle=1) for job in range(1, 6)]
    await world.run(*jobs, call(6, "fork_and_print", "forked", bundle=1))
    for job in range(1, 6):
        if (job, 1) in world.recorder.results:
            assert (world.log(job, "stdout"), world.log(job, "stderr")) == (f"job{job}\n", f"job{job}\n")
    if (6, 1) in world.recorder.returned:  # it would have kept others waiting: once more, alone
        await world.run(call(6, "fork_and_print", "forked")._replace(attempt=2))
    assert world.log(6) == "forked\n"


async def test_what_is_written_at_import_is_the_workers_own(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    await world.run(call(1, "nothing"))
    assert world.recorder.pieces == []


async def test_the_last_words_of_a_process_that_dies_are_kept(world: World) -> None:
    await world.run(call(1, "die_speaking"))
    assert world.recorder.result(1).kind == "crashed"
    assert world.log(1) == "last words\n"


async def test_a_job_that_prints_without_end_can_be_stopped_at_any_moment(world: World) -> None:
    """A stop that came in the midst of a frame would ruin the socket: the next job would not get through."""
    for job in range(1, 13):
        world.adapter.begin([call(job, "swallow_then_print")])
        await world.recorder.until(lambda job=job: world.log(job))
        world.adapter.stop(job, 1, force=False)
        await world.recorder.until(lambda job=job: (job, 1) in world.recorder.results)
        assert world.recorder.result(job).kind == "cancelled"
    await world.run(call(99, "say", "all is well"))
    assert world.log(99) == "all is well\n"


# --- bounds ---------------------------------------------------------------------------------------------
async def test_a_line_keeps_its_first_64_kilobytes(world: World) -> None:
    await world.run(call(1, "long_line"))
    assert world.log(1) == "y" * MOST_LINE_BYTES + CUT.decode() + "after it\n"


@pytest.mark.parametrize("megabytes", [50, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["lines", "program", "at once"])
async def test_a_job_that_prints_a_lot_keeps_a_megabyte_and_a_notice(
    world: World, how: str, megabytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.integration.worker_world.PATIENCE_SECONDS", 300)
    agent = psutil.Process()
    before = agent.memory_info().rss
    await world.run(call(1, "flood", megabytes, how))
    assert world.recorder.result(1).kind == "ok"
    expected = MOST_LINE_BYTES + len(CUT) if how == "at once" else MOST_BYTES
    assert len(world.log(1, "stdout")) in (expected, expected - 1)
    notices = world.log(1, "notice")
    assert notices == ("" if how == "at once" else "[output beyond 1 MB is dropped]\n")
    assert agent.memory_info().rss - before < 30_000_000
    await world.run(call(2, "say", "heard again"))
    assert world.log(2) == "heard again\n"


# --- where it is ----------------------------------------------------------------------------------------
async def look(world: World, assignment: Assignment, expected: str) -> str:
    """Begin a job, and look until it is where it is expected."""
    world.adapter.begin([assignment])
    await eventually(lambda: world.adapter.started(assignment.job, 1))
    seen = ""
    async with asyncio.timeout(20):
        while expected not in seen:
            seen = await world.adapter.look(assignment.job, 1) or ""
    return seen


async def test_a_def_tasks_stack_begins_with_the_task_and_has_its_threads(world: World) -> None:
    seen = await look(world, call(1, "deep_sleep", 60), "time.sleep")
    first, *rest = seen.splitlines()
    assert "speaking_tasks.py" in first and first.endswith("in deep_sleep")
    assert any(line.endswith("in sleep_below") for line in rest)
    assert "thread 'aside':" in rest and any(line.endswith("in wait_aside") for line in rest)
    assert "fairway/adapters" not in seen


async def test_a_task_that_holds_the_interpreter_is_seen_from_outside(world: World) -> None:
    seen = await look(world, call(1, "hold_interpreter", 10**10), "hold_interpreter")
    assert seen.startswith("seen from outside") and "fairway/adapters" not in seen
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(1)


async def test_several_may_look_at_one_child_at_once(world: World) -> None:
    await look(world, call(1, "deep_sleep", 60), "time.sleep")
    seen = await asyncio.gather(*(world.adapter.look(1, 1) for _ in range(5)))
    assert all(text and "time.sleep" in text and "from outside" not in text for text in seen)


async def test_an_async_tasks_stack_is_its_chain_of_awaits(world: World) -> None:
    world.adapter.begin([call(2, "await_below", 60)])
    seen = await look(world, call(1, "await_below", 60), "in pause_below")
    assert seen.splitlines()[0].endswith("in await_below") and seen.count("in pause_below") == 2
    assert "fairway/adapters" not in seen


async def test_a_task_on_a_blocked_loop_is_seen_too_and_the_block_is_in_its_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fairway"):
        seen = await look(world, call(1, "block", 60), "in block")
        await world.recorder.until(lambda: "has not turned" in world.log(1, "notice"))
    assert "in block" in world.log(1, "notice") and "in block" in seen
    assert "1 attempts wait" in caplog.text
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(1)


async def test_a_blocked_loop_is_told_although_others_look_at_the_same_moment(world: World) -> None:
    world.adapter.begin([call(1, "block", 60)])
    await eventually(lambda: world.adapter.started(1, 1))
    processes = psutil.Process().children(recursive=True)
    [child] = [one for one in processes if one.cmdline()[2:4] == [python_child.__name__, "async"]]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "has not turned" not in world.log(1, "notice"):
            child.send_signal(DUMP_SIGNAL)
            await asyncio.sleep(0.02)
    assert "in block" in world.log(1, "notice")
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(1)


async def test_what_does_not_run_has_no_stack(world: World) -> None:
    await world.run(call(1, "nothing"))
    assert await world.adapter.look(1, 1) is None
