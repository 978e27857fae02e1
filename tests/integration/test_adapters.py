"""Every adapter runs the same suite. To add one: a name in KINDS, and its assignments by what they do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairway.adapter import Adapter
from fairway.adapters.command import CommandAdapter
from fairway.adapters.http import HttpAdapter
from fairway.adapters.python.adapter import PythonAdapter
from fairway.wire.messages import Assignment
from fairway.worker.guardian import read_clock
from fairway.worker.warden import Ended, Warden
from tests.integration.warm_children import WARM_KINDS, make_adapter
from tests.integration.web import Web, web_server
from tests.integration.worker_world import (
    PATIENCE_SECONDS,
    Recorder,
    call,
    command,
    eventually,
    few_descriptors,
    open_descriptors,
    request,
)

PYTHON = ["adapter_tasks:app"]


class Kind(NamedTuple):
    """An adapter, and assignments for it; each takes a job's number."""

    make: Callable[[Warden], Adapter]
    succeed: Callable[[int], Assignment]
    fail: Callable[[int], Assignment]
    last: Callable[[int], Assignment]  # for a minute
    resist: Callable[[int], Assignment]  # the same, and not to be stopped by asking
    speaks: bool = False  # the last two say a word once they run
    guarded: bool = True  # its attempts are processes of the guardian's
    spares: Sequence[int] = range(24)  # descriptors to be left over, one try each


#: Where requests go: a server that the stage has started.
WEB = Web()


def warm(name: str, **more: Any) -> Kind:
    """Return the kind of an adapter whose children speak the warm protocol."""
    call = WARM_KINDS[name].call
    return Kind(
        lambda warden: make_adapter(name, warden),
        succeed=lambda job: call(job, "add", 1, 1),
        fail=lambda job: call(job, "fail", "plain"),
        last=lambda job: call(job, "sleep", 60),
        resist=lambda job: call(job, "spin", 60),
        speaks=True,
        **more,
    )


KINDS = {
    "command": Kind(
        CommandAdapter,
        succeed=lambda job: command(job, ["true"]),
        fail=lambda job: command(job, ["false"]),
        last=lambda job: command(job, ["sh", "-c", "echo up; exec sleep 60"]),
        resist=lambda job: command(job, ["sh", "-c", "trap '' TERM; echo up; sleep 60"]),
        speaks=True,
    ),
    "python": Kind(
        lambda warden: PythonAdapter(warden, PYTHON, slots=2),
        succeed=lambda job: call(job, "add", 1, 1),
        fail=lambda job: call(job, "fail", "plain"),
        last=lambda job: call(job, "sleep", 60),
        resist=lambda job: call(job, "ignore_stops"),
    ),
    "python-async": Kind(
        lambda warden: PythonAdapter(warden, PYTHON, slots=2, async_per_slot=1),
        succeed=lambda job: call(job, "nap", 0),
        fail=lambda job: call(job, "nap", "x"),
        last=lambda job: call(job, "nap", 60),
        resist=lambda job: call(job, "block_loop", 60),
    ),
    "http": Kind(
        lambda _: HttpAdapter(allow_private=True),
        succeed=lambda job: request(job, WEB.url("/echo")),
        fail=lambda job: request(job, WEB.url("/status/500")),
        last=lambda job: request(job, WEB.url("/slow"), method="POST", json={"job": job}),
        resist=lambda job: request(job, WEB.url("/slow")),
        guarded=False,
    ),
    "warm": warm("warm"),
    "node": warm("node"),
    "rails": warm("rails", spares=(0, 7, 13)),  # which takes its time to boot
}

MARKS = {"rails": pytest.mark.timeout(400), "node": pytest.mark.timeout(400)}  # may have to be installed


class Stage:
    """An adapter that has started, its guardian, and what it reported."""

    def __init__(self, kind: Kind, warden: Warden) -> None:
        self.kind, self.warden = kind, warden
        self.adapter = kind.make(warden)
        self.recorder = Recorder()

    async def begin(self, assignment: Assignment) -> None:
        """Begin an attempt and wait until its code runs."""
        self.adapter.begin([assignment])
        await eventually(lambda: self.runs(assignment.job))

    def runs(self, job: int) -> bool:
        """Whether the code of a job's attempt surely runs."""
        spoke = not self.kind.speaks or any(piece.job == job for piece in self.recorder.pieces)
        return spoke and self.adapter.started(job, 1)

    async def end_of(self, job: int) -> str:
        """Wait until a job's attempt has ended; return how."""
        await self.recorder.until(lambda: (job, 1) in self.recorder.results)
        return self.recorder.result(job).kind

    def signal_guardian(self, number: int) -> None:
        """Send a signal to the guardian."""
        assert self.warden.pid is not None
        os.kill(self.warden.pid, number)


@asynccontextmanager
async def raised(kind: Kind) -> AsyncIterator[Stage]:
    """A stage with an adapter of this kind."""
    warden = Warden()
    warden.start()
    async with web_server() as web:
        WEB.port, WEB.asked = web.port, web.asked
        stage = Stage(kind, warden)
        await stage.adapter.start(stage.recorder)
        yield stage
        await warden.close()


def chosen(names: Iterable[str]) -> list[Any]:
    """Return kinds as parameters of tests."""
    return [pytest.param(name, marks=MARKS.get(name, ())) for name in names]


@pytest.fixture(params=chosen(KINDS))
async def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.chdir(Path(__file__).parent)
    async with raised(KINDS[request.param]) as stage:
        yield stage


#: For tests about the guardian.
guarded = pytest.mark.parametrize(
    "stage", chosen(name for name in KINDS if KINDS[name].guarded), indirect=True
)


async def test_what_goes_well_is_ok_and_what_does_not_is_an_error(stage: Stage) -> None:
    stage.adapter.begin([stage.kind.succeed(1)])
    stage.adapter.begin([stage.kind.fail(2)])
    assert (await stage.end_of(1), await stage.end_of(2)) == ("ok", "error")
    assert {"type", "message", "traceback"} <= set(stage.recorder.value(2))


async def test_an_attempt_has_started_while_it_runs_and_no_other_has(stage: Stage) -> None:
    await stage.begin(stage.kind.last(1))
    assert not stage.adapter.started(1, 2)
    assert not stage.adapter.started(2, 1)
    stage.adapter.stop(1, 1, force=True)
    await stage.end_of(1)
    assert not stage.adapter.started(1, 1)


@pytest.mark.parametrize("force", [False, True])
async def test_a_stopped_attempt_ends_as_what_it_was_stopped_for(stage: Stage, force: bool) -> None:
    await stage.begin(stage.kind.last(1))
    stage.adapter.stop(1, 1, force, "cancelled")
    stage.adapter.stop(9, 9, force)  # nobody's
    assert await stage.end_of(1) == "cancelled"


async def test_what_the_worker_stops_before_it_began_is_given_back(stage: Stage) -> None:
    """It may be begun elsewhere even if that may happen only once; what people stop has ended."""
    await stage.begin(stage.kind.last(1))
    await stage.begin(stage.kind.last(2))
    for job, kind in ((3, "stopped"), (4, "cancelled")):  # no child is idle, and a new one not ready
        stage.adapter.begin([stage.kind.last(job)._replace(once=True)])
        stage.adapter.stop(job, 1, force=False, kind=kind)
    assert await stage.end_of(4) == "cancelled"
    await stage.recorder.until(lambda: stage.recorder.returned or (3, 1) in stage.recorder.results)
    assert stage.recorder.returned == [(3, 1)] and stage.recorder.results.keys() == {(4, 1)}


async def test_force_ends_an_attempt_that_resists(stage: Stage) -> None:
    await stage.begin(stage.kind.resist(1))
    stage.adapter.stop(1, 1, force=True)
    assert await stage.end_of(1) == "cancelled"


async def test_an_attempt_that_resists_asking_is_ended_after_a_grace(stage: Stage) -> None:
    await stage.begin(stage.kind.resist(1))
    stage.adapter.stop(1, 1, force=False)
    assert await stage.end_of(1) == "cancelled"


async def test_a_time_limit_ends_an_attempt(stage: Stage) -> None:
    stage.adapter.begin([stage.kind.last(1)._replace(timeout=0.2)])
    assert await stage.end_of(1) == "timeout"


async def test_the_adapter_goes_on_after_a_forced_stop(stage: Stage) -> None:
    await stage.begin(stage.kind.last(1))
    stage.adapter.stop(1, 1, force=True)
    await stage.end_of(1)
    stage.adapter.begin([stage.kind.succeed(2)])
    assert await stage.end_of(2) == "ok"


async def test_closing_stops_what_runs_after_its_grace(stage: Stage) -> None:
    await stage.begin(stage.kind.last(1))
    await stage.adapter.close(0.1)
    assert await stage.end_of(1) == "stopped"


@guarded
async def test_a_lost_guardian_crashes_what_ran_and_gives_back_what_had_not_begun(stage: Stage) -> None:
    await stage.begin(stage.kind.last(1))
    await eventually(lambda: not stage.warden.starting)  # its output may come before the word that it runs
    stage.signal_guardian(signal.SIGSTOP)
    stage.adapter.begin([stage.kind.last(2)])  # which needs a process that nobody will start
    if stage.adapter.name == "command":  # which asks a moment later, and then the next guardian
        await eventually(lambda: stage.warden.starting)
    stage.signal_guardian(signal.SIGKILL)
    assert await stage.end_of(1) == "crashed"
    await stage.recorder.until(lambda: stage.recorder.returned)
    assert stage.recorder.returned == [(2, 1)]
    stage.adapter.begin([stage.kind.succeed(3)])
    assert await stage.end_of(3) == "ok"


@guarded
async def test_an_attempt_ends_with_the_lease_if_it_must_and_else_runs_on(stage: Stage) -> None:
    stage.warden.renew(read_clock() + 600)
    await stage.begin(stage.kind.last(1))
    await stage.begin(stage.kind.resist(2)._replace(kill=True))
    stage.warden.renew(0.0)
    assert await stage.end_of(2) == "stopped"
    assert stage.runs(1) and set(stage.recorder.results) == {(2, 1)}


@guarded
async def test_without_a_lease_what_must_end_with_it_does_not_begin(stage: Stage) -> None:
    await stage.begin(stage.kind.last(1))
    if stage.adapter.name == "python":
        await stage.begin(stage.kind.last(2))  # no child is warm any more
    stage.adapter.begin([stage.kind.last(3)._replace(kill=True)])
    await stage.recorder.until(lambda: ended(stage, 3))
    assert stage.recorder.returned == [(3, 1)]


@guarded
async def test_what_ended_is_bound_to_the_lease_no_more(stage: Stage) -> None:
    stage.warden.renew(read_clock() + 600)
    stage.adapter.begin([stage.kind.succeed(1)._replace(kill=True)])
    assert await stage.end_of(1) == "ok"
    await stage.begin(stage.kind.last(2))
    stage.warden.renew(0.0)
    guarded = asyncio.Event()
    stage.warden.spawn(["true"], lambda happening: isinstance(happening, Ended) and guarded.set())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await guarded.wait()  # the guardian has seen to the lease
    stage.adapter.stop(2, 1, force=True)
    assert await stage.end_of(2) == "cancelled"


async def test_without_descriptors_nothing_hangs_and_nothing_leaks(stage: Stage) -> None:
    """However few are left: an attempt is refused at once, or it has an end; then all goes on."""
    await stage.begin(stage.kind.last(1))  # so that the next one needs a process of its own
    await eventually(lambda: stage.kind.guarded or WEB.asked)
    before = open_descriptors()
    jobs = range(100, 100 + len(stage.kind.spares))
    for job, spare in zip(jobs, stage.kind.spares, strict=True):
        with few_descriptors(spare):
            try:
                stage.adapter.begin([stage.kind.last(job)])
                await eventually(lambda job=job: ended(stage, job) or stage.runs(job))
            except OSError:
                stage.recorder.handed_back([(job, 1)])  # as the agent does
        stage.adapter.stop(job, 1, force=True)
        await stage.recorder.until(lambda job=job: ended(stage, job))
    await eventually(lambda: open_descriptors() <= before)
    kinds = {result.kind for result in stage.recorder.results.values()}
    assert kinds <= {"crashed", "cancelled"}
    assert stage.recorder.result(jobs[-1]).kind == "cancelled"  # the last had enough
    assert stage.recorder.returned or "crashed" in kinds
    stage.adapter.begin([stage.kind.succeed(2)])
    assert await stage.end_of(2) == "ok"


def ended(stage: Stage, job: int) -> bool:
    """Whether a job's attempt has ended or came back."""
    return (job, 1) in stage.recorder.results or (job, 1) in stage.recorder.returned
