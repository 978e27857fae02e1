"""Python tasks: values and failures, bundles, many at once, stops and deaths."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from fairway import ids
from fairway.adapters.python.adapter import PythonAdapter
from fairway.adapters.python.judge import judge_error
from fairway.adapters.python.link import CannotImport
from fairway.errors import RetryAfter
from fairway.times import LONGEST_SECONDS
from fairway.wire.messages import Assignment
from fairway.worker.warden import Warden
from tests.integration.worker_world import Recorder, call, eventually, is_gone

NOT_JSON = "Encoding objects of type object is unsupported"


class World:
    """An adapter, its guardian, and what it reported."""

    def __init__(self, warden: Warden, app: str = "adapter_tasks:app", per_slot: int = 1000) -> None:
        self.warden = warden
        self.recorder = Recorder()
        self.adapter = PythonAdapter(warden, [app], slots=2, async_per_slot=per_slot)

    async def run(self, *assignments: Assignment) -> Recorder:
        """Begin these and wait until all have ended."""
        self.begin(*assignments)
        await self.recorder.until_ended(len(assignments))
        return self.recorder

    def begin(self, *assignments: Assignment) -> None:
        """Begin a bundle, or single ones."""
        if assignments[0].bundle:
            self.adapter.begin(assignments)
        else:
            for assignment in assignments:
                self.adapter.begin([assignment])

    def children(self) -> list[int]:
        """Return the pids of the child processes."""
        assert self.warden.pid is not None
        return [process.pid for process in psutil.Process(self.warden.pid).children()]

    def has_started(self, job: int) -> Callable[[], bool]:
        """Return a question."""
        return lambda: self.adapter.started(job, 1)


@pytest.fixture
async def warden(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Warden]:
    """A guardian whose children find the tests' app."""
    monkeypatch.chdir(Path(__file__).parent)
    warden = Warden()
    yield warden
    await warden.close()


@pytest.fixture
async def world(warden: Warden) -> World:
    """An adapter that has started."""
    world = World(warden)
    await world.adapter.start(world.recorder)
    return world


# --- values and failures --------------------------------------------------------------------------------
async def test_the_adapter_announces_the_apps_tasks(warden: Warden) -> None:
    world = World(warden)
    tasks = {task.name: task for task in await world.adapter.start(world.recorder)}
    assert (tasks["add"].is_async, tasks["add"].signature) == (False, "(a: 'int', b: 'int') -> 'int'")
    assert tasks["nap"].is_async


async def test_an_app_that_cannot_be_imported_is_told_with_its_traceback(warden: Warden) -> None:
    world = World(warden, app="no_such_module:app")
    with pytest.raises(CannotImport, match="No module named 'no_such_module'"):
        await world.adapter.start(world.recorder)


@pytest.mark.parametrize(
    ("task", "args", "kind", "value"),
    [
        ("add", (2, 3), "ok", 5),
        ("fail", ("plain",), "error", {"type": "ValueError", "message": "bad plain"}),
        ("fail", ("permanent",), "permanent", {"type": "fairway.errors.PermanentFailure"}),
        ("fail", ("later",), "retry_after", {"type": "fairway.errors.RetryAfter"}),
        ("fail", ("exit",), "error", {"type": "SystemExit", "message": "3"}),
        ("fail", ("set",), "permanent", {"type": "ResultNotEncodable"}),
        (
            "fail",
            ("object",),
            "permanent",
            {"message": "fail returned an object, which is not JSON: " + NOT_JSON},
        ),
        ("fail", ("large",), "permanent", {"type": "ResultTooLarge"}),
        ("add", (1, 2, 3), "permanent", {"type": "BadArguments"}),
        ("nap", (), "permanent", {"type": "BadArguments"}),
        ("add", (1, "x"), "error", {"type": "TypeError"}),
        ("nothing", (), "error", {"message": "no task 'nothing' in adapter_tasks:app"}),
        ("who", (), "ok", [ids.show(1), 1, 1, "acme/mail", "who", False]),
        ("nap", (0,), "ok", ids.show(1)),
        ("nap", ("x",), "error", {"type": "TypeError"}),
    ],
)
async def test_what_a_task_does_is_what_is_reported(
    world: World, task: str, args: tuple[Any, ...], kind: str, value: Any
) -> None:
    recorder = await world.run(call(1, task, *args))
    found = recorder.value(1)
    assert recorder.result(1).kind == kind
    assert found | value == found if isinstance(value, dict) else found == value


async def test_a_traceback_begins_with_the_tasks_own_frame(world: World) -> None:
    recorder = await world.run(call(1, "fail", "plain"))
    first_frame = recorder.value(1)["traceback"].splitlines()[1]
    assert "adapter_tasks.py" in first_frame


async def test_retry_after_carries_its_seconds(world: World) -> None:
    recorder = await world.run(call(1, "fail", "later"))
    assert recorder.result(1).retry_after == 12.5


@pytest.mark.parametrize(
    ("seconds", "waits"),
    [
        (0, 0.0),
        (-5, 0.0),
        (1e300, LONGEST_SECONDS),
        (math.inf, LONGEST_SECONDS),
        (-math.inf, LONGEST_SECONDS),
        (math.nan, LONGEST_SECONDS),
        ("soon", LONGEST_SECONDS),
        (None, LONGEST_SECONDS),
        (10**400, LONGEST_SECONDS),
    ],
)
def test_no_wait_is_negative_or_endless(seconds: Any, waits: float) -> None:
    error = RetryAfter(1)
    error.seconds = seconds  # as a subclass might
    kind, _, retry_after = judge_error(error)
    assert (kind, retry_after) == ("retry_after", waits)


async def test_a_task_that_asks_for_an_endless_wait_gets_the_longest(world: World) -> None:
    recorder = await world.run(call(1, "fail", "never"), call(2, "nap_for_ever"))
    assert recorder.result(1).retry_after == recorder.result(2).retry_after == LONGEST_SECONDS


# --- many at once ---------------------------------------------------------------------------------------
async def test_a_thousand_async_sleeps_share_one_child(world: World) -> None:
    await eventually(lambda: len(world.children()) == 2)  # both slots are warmed up
    recorder = await world.run(*(call(job, "nap", 0.3) for job in range(1, 1001)))
    assert {result.kind for result in recorder.results.values()} == {"ok"}
    assert recorder.value(777) == ids.show(777)
    assert len(world.children()) == 3


async def test_async_jobs_beyond_a_childs_room_get_another(warden: Warden) -> None:
    world = World(warden, per_slot=2)
    await world.adapter.start(world.recorder)
    world.begin(*(call(job, "nap", 30) for job in range(1, 6)))
    await eventually(lambda: len(world.children()) == 5)  # two for `def` tasks, warm


async def test_a_job_never_waits_behind_a_running_one(world: World) -> None:
    world.begin(call(1, "sleep", 30))
    recorder = world.recorder
    world.begin(call(2, "add", 1, 1))
    await recorder.until_ended(1)
    assert recorder.value(2) == 2


# --- bundles --------------------------------------------------------------------------------------------
async def test_a_bundle_runs_in_its_order(world: World, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    jobs = [call(job, "note", str(path), str(job), bundle=1) for job in range(1, 201)]
    recorder = await world.run(*jobs)
    assert recorder.order == list(range(1, 201))
    assert path.read_text().split() == [str(job) for job in range(1, 201)]


async def test_what_waits_behind_a_slow_job_is_handed_back(world: World) -> None:
    jobs = [call(1, "add", 1, 1, bundle=1), call(2, "sleep", 0.6, bundle=1)]
    jobs += [call(job, "add", 1, 1, bundle=1) for job in range(3, 10)]
    recorder = await world.run(*jobs)
    assert recorder.order == [1, 2]
    assert recorder.returned == [(job, 1) for job in range(3, 10)]
    assert recorder.value(2) == "slept"


async def test_results_before_a_slow_job_do_not_wait_for_it(world: World) -> None:
    world.begin(call(1, "add", 1, 1, bundle=1), call(2, "sleep", 30, bundle=1))
    await world.recorder.until(lambda: (1, 1) in world.recorder.results)
    await eventually(world.has_started(2))
    assert (2, 1) not in world.recorder.results


async def test_jobs_behind_one_that_holds_the_gil_are_handed_back_meanwhile(world: World) -> None:
    world.begin(call(1, "hold_gil", 1.5, bundle=1), call(2, "add", 1, 1, bundle=1))
    await world.recorder.until(lambda: world.recorder.returned)
    assert world.recorder.returned == [(2, 1)]
    assert not world.recorder.results
    await world.recorder.until_ended(2)
    assert world.recorder.result(1).kind == "ok"


async def test_a_child_goes_on_after_a_bundle_was_cut(world: World) -> None:
    await world.run(call(1, "sleep", 0.3, bundle=1), call(2, "add", 1, 1, bundle=1))
    before = world.children()
    recorder = await world.run(call(3, "add", 1, 2, bundle=2), call(4, "add", 2, 2, bundle=2))
    await recorder.until_ended(4)
    assert (recorder.value(3), recorder.value(4)) == (3, 4)
    assert world.children() == before


async def test_a_job_that_kills_its_child_is_charged_alone(world: World) -> None:
    jobs = [call(job, "add", 1, 1, bundle=1) for job in range(1, 4)]
    jobs += [call(4, "die", "kill", bundle=1), call(5, "add", 1, 1, bundle=1)]
    recorder = await world.run(*jobs)
    assert recorder.result(4).kind == "crashed"
    assert "SIGKILL" in recorder.value(4)["message"]
    assert (5, 1) in recorder.returned
    assert {recorder.result(job).kind for job in recorder.order if job < 4} <= {"ok"}


async def test_a_child_killed_from_outside_crashes_the_job_it_was_at(world: World) -> None:
    world.begin(call(1, "sleep", 30, bundle=1), call(2, "add", 1, 1, bundle=1))
    await eventually(world.has_started(1))
    os.kill(world.children()[0], signal.SIGKILL)
    await world.recorder.until_ended(2)
    assert world.recorder.result(1).kind == "crashed"
    assert world.recorder.returned == [(2, 1)]


async def test_the_death_of_an_async_child_crashes_all_it_ran(world: World) -> None:
    pid = int((await world.run(call(1, "async_pid"))).value(1))
    world.begin(call(2, "nap", 30), call(3, "nap", 30))
    await eventually(world.has_started(3))
    os.kill(pid, signal.SIGKILL)
    await world.recorder.until_ended(3)
    assert world.recorder.result(2).kind == world.recorder.result(3).kind == "crashed"


async def test_the_exit_of_a_child_is_told_with_its_code(world: World) -> None:
    recorder = await world.run(call(1, "die", "exit"))
    assert "exited with 7" in recorder.value(1)["message"]


# --- stops ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["sleep", "nap"])
async def test_a_time_limit_ends_an_attempt_and_spares_its_child(world: World, task: str) -> None:
    await eventually(lambda: len(world.children()) == 2)
    await world.run(call(1, task, 0))
    before = world.children()
    world.begin(call(2, task, 30, timeout=0.2))
    await world.recorder.until_ended(2)
    assert world.recorder.result(2).kind == "timeout"
    assert world.children() == before


async def test_a_time_limit_counts_for_each_job_of_a_bundle(world: World) -> None:
    jobs = [call(job, "sleep", 0.06, timeout=0.3, bundle=1) for job in range(1, 8)]
    jobs += [call(8, "sleep", 30, timeout=0.3, bundle=1)]
    recorder = await world.run(*jobs)
    assert {recorder.result(job).kind for job in range(1, 8)} == {"ok"}
    assert recorder.result(8).kind == "timeout"


async def test_a_task_that_swallows_its_stop_is_killed(world: World) -> None:
    recorder = await world.run(call(1, "ignore_stops", timeout=0.1))
    assert recorder.result(1).kind == "timeout"
    assert "killed" in recorder.value(1)["message"]


async def test_a_cancelled_task_that_looks_may_end_by_itself(world: World) -> None:
    world.begin(call(1, "look_at_cancelled"))
    await eventually(world.has_started(1))
    world.adapter.stop(1, 1, force=False)
    await world.recorder.until_ended(1)
    assert (world.recorder.result(1).kind, world.recorder.value(1)) == ("ok", "asked")


async def test_a_cancelled_sleep_is_cancelled(world: World) -> None:
    world.begin(call(1, "sleep", 30))
    await eventually(world.has_started(1))
    world.adapter.stop(1, 1, force=False)
    await world.recorder.until_ended(1)
    assert world.recorder.result(1).kind == "cancelled"
    assert world.recorder.value(1)["type"] == "fairway.context.CancelRequested"


async def test_a_job_of_a_bundle_is_cancelled_before_it_begins(world: World) -> None:
    jobs = [call(1, "hold_gil", 0.5, bundle=1)] + [call(job, "add", 1, 1, bundle=1) for job in (2, 3)]
    world.begin(*jobs)
    await eventually(world.has_started(1))
    world.adapter.stop(3, 1, force=False)
    await world.recorder.until_ended(3)
    assert (world.recorder.result(1).kind, world.recorder.result(3).kind) == ("ok", "cancelled")
    assert world.recorder.returned == [(2, 1)]


async def test_force_kills_all_that_the_task_started(world: World, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    world.begin(call(1, "spawn_and_sleep", str(path)))
    await eventually(lambda: path.exists() and path.read_text())
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(1)
    assert world.recorder.result(1).kind == "cancelled"
    await eventually(lambda: is_gone(int(path.read_text())))


async def test_a_stopped_task_leaves_nothing_behind_although_its_child_lives_on(
    world: World, tmp_path: Path
) -> None:
    await eventually(lambda: len(world.children()) == 2)
    path, children = tmp_path / "pid", world.children()
    world.begin(call(1, "spawn_and_sleep", str(path), timeout=0.5))
    await world.recorder.until_ended(1)
    assert world.recorder.result(1).kind == "timeout"
    assert is_gone(int(path.read_text()))
    assert world.children() == children
    world.begin(call(2, "add", 1, 1))
    await world.recorder.until_ended(2)
    assert world.recorder.result(2).kind == "ok"


async def test_a_task_has_the_grace_of_its_job(world: World) -> None:
    recorder = await world.run(call(1, "ignore_stops", timeout=0.1)._replace(grace=0.0))
    assert recorder.result(1).kind == "timeout"
    world.begin(call(2, "ignore_stops")._replace(grace=600.0))
    await eventually(world.has_started(2))
    world.adapter.stop(2, 1, force=False)
    world.adapter.stop(2, 1, force=False)
    await asyncio.sleep(2.8)  # longer than a worker's own grace
    assert (2, 1) not in recorder.results
    world.adapter.stop(2, 1, force=True)
    await recorder.until_ended(2)
    assert recorder.result(2).kind == "cancelled"


async def test_killing_a_job_that_waits_spares_the_one_that_runs(world: World) -> None:
    world.begin(call(1, "sleep", 0.6, bundle=1), *(call(job, "add", 1, 1, bundle=1) for job in (2, 3)))
    await eventually(world.has_started(1))
    assert world.warden.pid is not None
    os.kill(world.warden.pid, signal.SIGSTOP)  # a guardian that is slow to answer
    world.adapter.stop(3, 1, force=True)
    await asyncio.sleep(0.1)  # nothing may be decided meanwhile
    os.kill(world.warden.pid, signal.SIGCONT)
    await world.recorder.until_ended(3)
    assert (world.recorder.result(1).kind, world.recorder.result(3).kind) == ("ok", "cancelled")
    assert world.recorder.returned == [(2, 1)]


async def test_killing_a_job_that_has_just_ended_spares_its_successor(world: World) -> None:
    world.begin(call(1, "add", 1, 1, bundle=1), call(2, "sleep", 0.5, bundle=1))
    async with asyncio.timeout(10):
        while not world.adapter.started(2, 1):  # noqa: ASYNC110  # and its result has not been sent for
            await asyncio.sleep(0)
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(2)
    assert (world.recorder.result(1).kind, world.recorder.result(2).kind) == ("ok", "ok")


async def test_killing_a_running_job_of_a_bundle_gives_back_the_rest(world: World) -> None:
    world.begin(call(1, "ignore_stops", bundle=1), call(2, "add", 1, 1, bundle=1))
    await eventually(world.has_started(1))
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(2)
    assert world.recorder.result(1).kind == "cancelled"
    assert world.recorder.returned == [(2, 1)]


async def test_companions_of_a_killed_async_attempt_are_not_blamed(world: World) -> None:
    world.begin(call(1, "block_loop", 60), call(2, "nap", 60))
    await eventually(world.has_started(2))
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(2)
    assert (world.recorder.result(1).kind, world.recorder.result(2).kind) == ("cancelled", "stopped")


async def test_what_runs_at_most_once_is_no_companion_of_what_can_begin_again(world: World) -> None:
    world.begin(call(1, "block_loop", 60), call(2, "nap", 60)._replace(once=True), call(3, "nap", 60))
    await eventually(lambda: world.has_started(2)() and world.has_started(3)())
    world.adapter.stop(1, 1, force=True)
    await world.recorder.until_ended(2)
    assert (world.recorder.result(1).kind, world.recorder.result(3).kind) == ("cancelled", "stopped")
    world.adapter.stop(2, 1, force=False)
    await world.recorder.until_ended(3)
    assert world.recorder.result(2).kind == "cancelled"


async def test_closing_hands_back_finishes_and_stops(world: World) -> None:
    world.begin(call(1, "sleep", 60))
    await eventually(world.has_started(1))
    await world.run(call(2, "add", 1, 1))
    world.begin(call(3, "sleep", 0.5, bundle=1), call(4, "add", 1, 1, bundle=1))
    await eventually(world.has_started(3))
    await world.adapter.close(1.0)
    assert (world.recorder.result(1).kind, world.recorder.result(3).kind) == ("stopped", "ok")
    assert world.recorder.returned == [(4, 1)]
    await eventually(lambda: not world.children())
