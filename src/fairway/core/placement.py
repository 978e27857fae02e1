"""Who runs what: free slots are filled, the least loaded worker first, until nothing fits any more.

Short jobs of known length travel in bundles: up to 10 ms of estimated work is begun together for one slot.
Each job of a bundle was chosen in its turn and counts fully against every limit; its size is its part of
the slot.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from fairway.core.discipline import Offer
from fairway.core.model import SLOT, Moment, Shape
from fairway.core.plan import Begin
from fairway.core.tree import Queue
from fairway.core.world import Live, Worker, World


class Lot(NamedTuple):
    """Jobs that left a line together."""

    queue: Queue
    offer: Offer
    jobs: list[int]
    places: list[int]


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
        _begin_one(world, worker, queue, offer, SLOT // worker.spec.async_per_slot, now)
    elif _estimate(world, queue, offer.shape) > world.timers.bundle_budget:
        _begin_one(world, worker, queue, offer, SLOT, now)
    else:
        _begin_bundle(world, worker, queue, offer, now)
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


def _begin_one(world: World, worker: Worker, queue: Queue, offer: Offer, size: int, now: Moment) -> None:
    jobs, places = world.tree.take(queue, offer, 1, now.wall)
    _begin(world, worker, Lot(queue, offer, jobs, places), size, 0, now)
    worker.free -= size


def _begin_bundle(world: World, worker: Worker, queue: Queue, offer: Offer, now: Moment) -> None:
    """Fill one slot with jobs that are short together, each chosen in its turn.

    Inside the slot those of one line follow each other, so that what happens to them is told at once.
    """
    kind, tree = worker.kind, world.tree
    budget, room = world.timers.bundle_budget, world.timers.bundle_most
    lots: dict[tuple[Queue, Shape, int], Lot] = {}
    while True:
        seconds = _estimate(world, queue, offer.shape)
        fit = room if seconds * room <= budget else int(budget / seconds)
        if not fit:
            break
        jobs, places = tree.take(queue, offer, fit, now.wall)
        lot = lots.get((queue, offer.shape, offer.priority))
        if lot is None:
            lots[queue, offer.shape, offer.priority] = Lot(queue, offer, jobs, places)
        else:
            lot.jobs.extend(jobs)
            lot.places.extend(places)
        budget -= seconds * len(jobs)
        room -= len(jobs)
        found = tree.choose(kind.fits, kind.attached, now.wall) if room else None
        if found is None or kind.is_async(found[1].shape):
            break
        queue, offer = found
    _share_slot(world, worker, list(lots.values()), now)


def _share_slot(world: World, worker: Worker, lots: list[Lot], now: Moment) -> None:
    count = sum(len(lot.jobs) for lot in lots)
    bundle = 0
    if count > 1:
        bundle = world.bundles = world.bundles + 1
    part = SLOT // count
    for lot in lots:
        _begin(world, worker, lot, part, bundle, now)
        if bundle:
            world.plan.bundles.update(dict.fromkeys(lot.jobs, bundle))
    world.live[lots[0].jobs[0]].size += SLOT - part * count
    worker.free -= SLOT


def _estimate(world: World, queue: Queue, shape: Shape) -> float:
    """Return the expected seconds, or more than any budget if such a job may not be bundled."""
    if shape.once or not shape.task or world.tree.kills(queue):
        return float("inf")
    known = world.estimates.find(shape.task)
    return float("inf") if known is None else known


def _begin(world: World, worker: Worker, lot: Lot, size: int, bundle: int, now: Moment) -> None:
    queue, (_, shape, priority, *_), jobs, places = lot
    mono = now.mono
    begun = {
        job: Live(job, queue, shape, priority, place, worker, size, mono, bundle)
        for job, place in zip(jobs, places, strict=True)
    }
    if world.tree.kills(queue):
        for live in begun.values():
            live.kill = True
    world.live.update(begun)
    worker.live.update(begun)
    spec = worker.spec
    world.plan.batch.begins.append(Begin(jobs, spec.incarnation, spec.name, now.wall, queue.path, shape.task))
    world.counts.begun += len(jobs)
