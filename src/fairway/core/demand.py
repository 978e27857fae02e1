"""Slots wanted, shape by shape: what waits and could begin if there were workers for it. For autoscalers.

What a pause, a full limit or a rate holds back is not demand, nor is what is pinned to one worker: more of
them would not begin it sooner. Under a limit with room for some only, each shape is given its part of that
room. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fairway.core.look import BucketLook, QueueLook, WorldLook
from fairway.core.model import SLOT, Moment, Shape
from fairway.core.rates import ENOUGH
from fairway.core.world import Worker

Kind = tuple[str, str, tuple[str, ...], tuple[str, ...]]  # adapter, task, tags, workers it is kept from
Wanted = Counter[Kind]

MOST_SHAPES = 1000


@dataclass(frozen=True, slots=True)
class ShapeDemand:
    """What is wanted of workers for jobs of one shape, and what there is."""

    adapter: str
    task: str
    tags: tuple[str, ...]
    jobs: int  # due, and held back by nothing but the lack of slots
    slots: float  # that these jobs would fill
    seconds: float | None  # that one is expected to run, where that is known
    running: int  # attempts
    slots_there: int  # on workers that can run such jobs
    slots_free: float
    away: tuple[str, ...] = ()  # workers that such jobs are kept from


@dataclass(frozen=True, slots=True)
class Demand:
    """Slots that there are, and demand by shape, most slots first; *more* shapes are left out."""

    slots: int
    free: float
    shapes: list[ShapeDemand]
    more: int = 0


def demand(world: WorldLook, now: Moment) -> Demand:
    """Say what is wanted and what there is."""
    workers = [worker for worker in world.workers.values() if worker.connected and not worker.draining]
    wanted = _wanted(world, world.tree.root, now)
    running = Counter(_kind(live.shape) for live in world.live.values())
    shapes = [_of_shape(world, kind, wanted[kind], running[kind], workers) for kind in wanted | running]
    shapes.sort(key=lambda one: (-one.slots, one.adapter, one.task, one.tags, one.away))
    free = sum(max(worker.free, 0) for worker in workers) / SLOT
    slots = sum(worker.spec.slots for worker in workers)
    return Demand(slots, round(free, 3), shapes[:MOST_SHAPES], max(len(shapes) - MOST_SHAPES, 0))


def _wanted(world: WorldLook, queue: QueueLook, now: Moment) -> Wanted:
    """Count what could begin at a queue and below it."""
    if queue.settings.paused or not queue.waiting:
        return Wanted()
    wanted = Wanted()
    for shape, count in queue.own.due_by_shape(now.wall).items():
        if not shape.worker:
            wanted[_kind(shape)] += count
    for child in queue.children.values():
        wanted.update(_wanted(world, child, now))
    return _bounded(wanted, _room(world, queue, now.mono))


def _room(world: WorldLook, queue: QueueLook, mono: float) -> int | None:
    """Return how many more attempts a queue's own settings allow; None: any number."""
    room = None if queue.settings.limit is None else max(queue.settings.limit - queue.in_use, 0)
    if queue.bucket is not None:
        begins = _begins(queue, queue.bucket, world.queue_estimates.find(queue.path) or 1.0, mono)
        room = begins if room is None else min(room, begins)
    return room


def _begins(queue: QueueLook, bucket: BucketLook, seconds: float, mono: float) -> int:
    """Return how many more run at once if they begin as tokens come and run for *seconds* each.

    Each token that is there begins one now. Those that come while these run begin one each, too, but the
    first of them in the slots of what runs already and ends meanwhile. A part of a token begins nothing.
    """
    coming = max(bucket.rate * seconds - queue.in_use, 0.0)
    return max(int(bucket.level(mono) + coming + 1.0 - ENOUGH), 0)


def _bounded(wanted: Wanted, room: int | None) -> Wanted:
    total = wanted.total()
    if room is None or total <= room:
        return wanted
    bounded = Wanted({kind: count * room // total for kind, count in wanted.items()})
    for kind, _ in wanted.most_common(room - bounded.total()):  # what was lost by rounding
        bounded[kind] += 1
    return +bounded


def _of_shape(world: WorldLook, kind: Kind, jobs: int, running: int, workers: list[Worker]) -> ShapeDemand:
    adapter, task, tags, away = kind
    shape = Shape(adapter, task, tags)
    fitting = [worker for worker in workers if worker.kind.fits(shape) and worker.spec.name not in away]
    seconds = world.estimates.find(task) if task else None
    return ShapeDemand(
        adapter,
        task,
        tags,
        jobs,
        round(jobs * _size(world, shape, seconds, fitting), 3),
        seconds,
        running,
        sum(worker.spec.slots for worker in fitting),
        round(sum(max(worker.free, 0) for worker in fitting) / SLOT, 3),
        away,
    )


def _size(world: WorldLook, shape: Shape, seconds: float | None, fitting: list[Worker]) -> float:
    """Return the part of a slot that one such job takes."""
    shared = [worker.spec.async_per_slot for worker in fitting if worker.kind.is_async(shape)]
    if shared:
        return 1 / max(shared)
    return 1.0 if seconds is None else min(seconds / world.timers.bundle_budget, 1.0)


def _kind(shape: Shape) -> Kind:
    return shape.adapter, shape.task, shape.tags, shape.away
