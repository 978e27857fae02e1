"""A job goes through the real core on a virtual clock: nothing waits, nothing is written.

Ways: `tree` is a queue for each user; `jobs` and `seconds` are one fair queue with a flow for each user,
charged by one or the other; any other discipline is one queue that knows no users. The clock jumps from one
submit or end to the next; at each moment the core hears what happened and makes its plan, as in a leader.
Only what every version of the core has is used, so that two of them can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

from bench.fairness.work import Job, Load, Run
from fairway.core import events as happened
from fairway.core.model import (
    Arrival,
    Extras,
    Moment,
    Result,
    Rules,
    Shape,
    TaskInfo,
    Timers,
    WorkerSpec,
)
from fairway.core.plan import Begun
from fairway.core.scheduler import Core

WALL = 1_800_000_000_000_000
NEVER = 1_000_000_000_000_000  # microseconds from a submit, for deadlines that differ but do not pass
RULES = Rules()
#: The worker never misses a beat, and every job has a slot of its own, however short it is.
TIMERS = Timers(beat=1e12, lease=1e12, bundle_most=1)
FLOWS = ("jobs", "seconds")
#: Sees the core after each moment of a replay, with the jobs that wait then, by number.
Look = Callable[[Core, Moment, Mapping[int, Arrival]], None]


def replay(load: Load, way: str = "tree", look: Look | None = None) -> list[Run]:
    """Run all jobs of a load, in one of the ways."""
    core = Core(TIMERS)
    _set_up(core, load, way, _moment(0.0))
    runs: list[Run] = []
    jobs = {job.number: job for job in load.jobs}
    waiting: dict[int, Arrival] = {}
    ends: list[tuple[float, int]] = []
    for at, came in _moments(load, ends):
        now = _moment(at)
        if came:
            new = {job.number: _arrival(job, way) for job in came}
            waiting |= new
            core.absorb(happened.Submitted(list(new.values())), now)
        done = []
        while ends and ends[0][0] <= at:
            number = heappop(ends)[1]
            done.append(Result(number, 1, "ok", b"1", jobs[number].seconds))
        if done:
            core.absorb(happened.Reported("w", done, 0.5), now)
        begun = [number for begin in core.plan(now).batch.begins for number in begin.jobs]
        core.absorb(happened.Started([Begun(one, 1, 0, 0, 0, (), RULES, None, b"{}") for one in begun]), now)
        for number in begun:
            del waiting[number]
            runs.append(Run(jobs[number], at))
            heappush(ends, (runs[-1].end, number))
        if look is not None:
            look(core, now, waiting)
    return runs


def _moments(load: Load, ends: list[tuple[float, int]]) -> Iterator[tuple[float, list[Job]]]:
    """Yield each moment at which something happens, with the jobs that come then."""
    number = 0
    while number < len(load.jobs) or ends:
        upcoming = load.jobs[number].submit if number < len(load.jobs) else float("inf")
        at = min(upcoming, ends[0][0] if ends else float("inf"))
        came = []
        while number < len(load.jobs) and load.jobs[number].submit <= at:
            came.append(load.jobs[number])
            number += 1
        yield at, came


def _moment(at: float) -> Moment:
    return Moment(WALL + round(at * 1e6), 1000.0 + at)


def _arrival(job: Job, way: str) -> Arrival:
    place = WALL + round(job.submit * 1e6)
    shape = Shape("python", job.task) if job.task else Shape("command")
    if way == "tree":
        return Arrival(job.number, job.user, None, 0, shape, place)
    flow = job.user if way in FLOWS else None
    priority = job.number % 3 if way == "priority" else 0
    extras = Extras(deadline=place + NEVER + job.number * 7919 % 1009) if way == "deadline" else None
    return Arrival(job.number, "q", flow, priority, shape, place, None, extras)


def _set_up(core: Core, load: Load, way: str, now: Moment) -> None:
    """Let a worker join, and give weights to queues or flows, before anything comes."""
    tasks = tuple(TaskInfo(task) for task in sorted({job.task for job in load.jobs if job.task}))
    spec = WorkerSpec("w", "w", load.slots, frozenset({"command", "python"}), tasks)
    core.absorb(happened.Joined(spec, (), (), None, 0.0, {}, False), now)
    if way == "tree":
        for user, weight in load.weights.items():
            core.absorb(happened.QueueAsked("ticket", user, {"weight": weight}, False), now)
        return
    wanted: dict[str, Any] = {"discipline": way}
    if way in FLOWS:
        wanted = {"discipline": "sfq", "charge": way, "flow_weights": dict(load.weights) or None}
    core.absorb(happened.QueueAsked("ticket", "q", wanted, False), now)
