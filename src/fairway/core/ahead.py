"""Attempts that were begun before a slot was free: they wait at their worker, in their order.

They count against every limit and hold their units, so that turns go round as if they ran; but nobody is
charged for the time before they start. Nobody tells when that is: a worker starts the next one whenever a
slot becomes free there, and so it is taken to be here. If a result shows that one had its slot sooner, it is
charged for as long as it took. `job.begun` is told when it has started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fairway.core.lifecycle import State
from fairway.core.model import SLOT, Moment
from fairway.core.plan import News
from fairway.core.retries import MICRO

if TYPE_CHECKING:
    from fairway.core.queue import Queue
    from fairway.core.world import Live, Worker, World


def keep(world: World, worker: Worker, jobs: Iterable[int]) -> None:
    """Let what was begun for one slot wait until one is free."""
    turn = [world.live[job] for job in jobs]
    for live in turn:
        live.ahead = True
    worker.waiting.append(turn)
    _wait(world, worker, turn, 1)
    world.counts.begun_ahead += len(turn)


def start_next(world: World, worker: Worker, now: Moment) -> None:
    """Slots may have become free: those that wait start there, in their order."""
    while worker.waiting:
        turn = [live for live in worker.waiting[0] if live.ahead]
        if turn and (worker.free + worker.ahead < SLOT or not turn[0].attempt):
            return  # no slot is free; or its begin is not committed yet, so the worker does not know of it
        worker.waiting.popleft()
        if turn:
            start(world, turn, 0.0, now)


def start(world: World, turn: Sequence[Live], seconds: float, now: Moment) -> None:
    """Attempts that waited have had their slot for so long already: now they are told of."""
    worker = turn[0].worker
    _wait(world, worker, turn, -1, seconds)
    begun_at, started_at = now.mono - seconds, now.wall - round(seconds * MICRO)
    alike: dict[tuple[Queue, int, str], list[int]] = {}
    for live in turn:
        live.ahead, live.begun_at, live.started_at = False, begun_at, started_at
        alike.setdefault((live.queue, live.attempt, live.shape.task), []).append(live.job)
    for (queue, attempt, task), jobs in alike.items():
        name = worker.spec.name
        world.plan.batch.news.append(
            News("job.begun", started_at, jobs, queue.path, State.RUNNING, attempt, name, task)
        )


def start_below(world: World, queue: Queue, now: Moment) -> None:
    """A queue is about to change: what waits below it was begun before that, and counts as started.

    So nothing is told to begin in a queue that is paused by then, or above a limit that is lower.
    """
    for worker in world.workers.values():
        turn = [live for some in worker.waiting for live in some if live.ahead]
        below = [live for live in turn if live.attempt and queue in live.queue.path_up()]
        if below:
            start(world, below, 0.0, now)


def leave(world: World, live: Live) -> None:
    """An attempt is over before it started."""
    live.ahead = False
    _wait(world, live.worker, (live,), -1)


def _wait(world: World, worker: Worker, turn: Sequence[Live], sign: int, seconds: float = 0.0) -> None:
    units: dict[tuple[Queue, str | None], int] = {}
    for live in turn:
        key = live.queue, live.flow if live.queue.own.by_seconds else None
        units[key] = units.get(key, 0) + live.size
    for (queue, flow), size in units.items():
        world.tree.wait(queue, sign * size, flow, seconds)
    worker.ahead += sign * sum(units.values())
