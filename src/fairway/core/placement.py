"""Who runs what: free slots are filled, the least loaded worker first, until nothing fits any more.

Short jobs of known length travel in bundles: up to 10 ms of estimated work is begun together for one slot.
Each job of a bundle was chosen in its turn and counts fully against every limit; its size is its part of
the slot.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

from fairway.core.discipline import Offer
from fairway.core.model import SLOT, Moment, Shape
from fairway.core.plan import Begin
from fairway.core.tree import Queue
from fairway.core.world import Live, Worker, World


def fill(world: World, now: Moment) -> None:
    """Begin all that can begin now."""
    if not world.tree.root.open:
        return
    idle = [
        (_load(worker), worker.spec.name, worker.spec.incarnation)
        for worker in world.workers.values()
        if worker.connected and not worker.draining and not worker.refusing and worker.free > 0
    ]
    heapify(idle)
    while idle:
        worker = world.workers[idle[0][2]]
        if _begin_next(world, worker, now):
            heapreplace(idle, (_load(worker), worker.spec.name, worker.spec.incarnation))
        else:
            heappop(idle)


def _load(worker: Worker) -> float:
    return 1.0 - worker.free / (worker.spec.slots * SLOT)


def _begin_next(world: World, worker: Worker, now: Moment) -> bool:
    """Begin one job or one bundle on *worker*; False if nothing fits it now."""
    found = _choose(world, worker, now)
    if found is None:
        return False
    queue, offer = found
    if worker.kind.is_async(offer.shape):
        _begin(world, worker, queue, offer, SLOT // worker.spec.async_per_slot, now)
        return True
    members = [_begin(world, worker, queue, offer, SLOT, now)]
    budget = world.timers.bundle_budget - _estimate(world, offer.shape)
    if budget >= 0:
        _bundle(world, worker, members, budget, now)
    return True


def _choose(world: World, worker: Worker, now: Moment) -> tuple[Queue, Offer] | None:
    kind, tree = worker.kind, world.tree
    if worker.free >= SLOT:
        if kind.dry == tree.version:
            return None
        found = tree.choose(kind.fits, kind.attached, now.wall)
        if found is None:
            kind.dry = tree.version
        return found
    if worker.free < SLOT // worker.spec.async_per_slot or kind.dry_partly == tree.version:
        return None
    found = tree.choose(kind.fits_partly, kind.attached, now.wall)
    if found is None:
        kind.dry_partly = tree.version
    return found


def _bundle(world: World, worker: Worker, members: list[Live], budget: float, now: Moment) -> None:
    """Add jobs to the slot that *members* has begun to fill, each chosen in its turn."""
    kind, tree = worker.kind, world.tree
    while len(members) < world.timers.bundle_most:
        found = tree.choose(kind.fits, kind.attached, now.wall)
        if found is None:
            break
        queue, offer = found
        budget -= _estimate(world, offer.shape)
        if budget < 0 or kind.is_async(offer.shape):
            break
        members.append(_begin(world, worker, queue, offer, 0, now))
    if len(members) > 1:
        _share_slot(world, members)


def _share_slot(world: World, members: list[Live]) -> None:
    world.bundles += 1
    part = SLOT // len(members)
    for live in members:
        live.bundle, live.size = world.bundles, part
        world.plan.bundles[live.job] = world.bundles
    members[0].size += SLOT - part * len(members)


def _estimate(world: World, shape: Shape) -> float:
    """Return the expected seconds, or more than any budget if such a job may not be bundled."""
    if shape.once or not shape.task:
        return float("inf")
    known = world.estimates.find(shape.task)
    return float("inf") if known is None else known


def _begin(world: World, worker: Worker, queue: Queue, offer: Offer, size: int, now: Moment) -> Live:
    world.tree.take(queue, offer, now.wall)
    live = Live(offer.job, queue, offer.shape, offer.priority, offer.place, worker, size, now.mono)
    world.live[offer.job] = worker.live[offer.job] = live
    worker.free -= size
    spec, batch = worker.spec, world.plan.batch
    batch.begins.append(Begin(offer.job, spec.incarnation, spec.name, now.wall, queue.path, offer.shape.task))
    world.counts.begun += 1
    return live
