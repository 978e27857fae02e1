"""A replay: jobs go through the real core on a virtual clock; nothing waits, nothing is written.

A queue for each user, or one fair queue with a flow for each. The clock jumps from one submit or end to the
next; at each moment the core hears what happened there and makes its plan, as it would in a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from bench.fairness.work import Job, Load, Run
from fairway.core import events as happened
from fairway.core.model import Arrival, Moment, Result, Rules, Shape, TaskInfo, Timers, WorkerSpec
from fairway.core.plan import Begun
from fairway.core.scheduler import Core

WALL = 1_800_000_000_000_000
RULES = Rules()
#: Sees the core after each moment of a replay: what looks at it all the time, for instance.
Look = Callable[[Core, Moment, list[Arrival]], None]


def replay(load: Load, way: str = "tree", look: Look | None = None) -> list[Run]:
    """Run all jobs of a load; *way* is `tree` (a queue for each user) or settings of one queue of flows."""
    core = Core(Timers(beat=1e12, lease=1e12))
    start = _moment(0.0)
    spec = WorkerSpec("w", "w", load.slots, frozenset({"command", "python"}), (TaskInfo("t"),))
    core.absorb(happened.Joined(spec, (), (), None, 0.0, {}, False), start)
    _set_up(core, load, way, start)
    runs: list[Run] = []
    jobs = {job.number: job for job in load.jobs}
    arrivals = {job.number: _arrival(job, way) for job in load.jobs}
    waiting: dict[int, Arrival] = {}
    ends: list[tuple[float, int]] = []
    for at, came in _moments(load, ends):
        now = _moment(at)
        if came:
            for job in came:
                waiting[job.number] = arrivals[job.number]
            core.absorb(happened.Submitted([arrivals[job.number] for job in came]), now)
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
            heappush(ends, (at + jobs[number].seconds, number))
        if look is not None:
            look(core, now, list(waiting.values()))
    return runs


def _moments(load: Load, ends: list[tuple[float, int]]) -> Iterator[tuple[float, list[Job]]]:
    """Yield each moment at which something happens, with the jobs that come then."""
    at, number = 0.0, 0
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
    shape = Shape("python", "t") if job.task else Shape("command")
    if way == "tree":
        return Arrival(job.number, job.user, None, 0, shape, place)
    return Arrival(job.number, "q", job.user, 0, shape, place)


def _set_up(core: Core, load: Load, way: str, now: Moment) -> None:
    """Give weights to queues or flows before anything comes."""
    if way == "tree":
        for user, weight in load.weights.items():
            core.absorb(happened.QueueAsked("ticket", user, {"weight": weight}, False), now)
    else:
        wanted = {"discipline": "sfq", "charge": way, "flow_weights": dict(load.weights) or None}
        core.absorb(happened.QueueAsked("ticket", "q", wanted, False), now)
