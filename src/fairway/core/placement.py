"""Who runs what: free slots are filled, the least loaded worker first, until nothing fits any more.

Short jobs of known length travel in bundles: up to 10 ms of estimated work is begun together for one slot.
That is one turn: the tree names a queue for a slot, and the slot is filled from it as far as it goes. Each
job of a bundle counts fully against every limit; its size is its part of the slot.

Between an end and the begin of what follows a slot would idle, for short jobs as long as they take. So what
is known to be short is begun ahead: it is at its worker already when a slot becomes free there. It counts
against every limit and as held at once, so turns go round as ever, and is charged for from its start on
(`ahead.py`). Nobody passes whose turn it is: if that is not short, nothing is begun ahead.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from itertools import repeat
from math import ceil
from typing import NamedTuple

from fairway.core.ahead import keep
from fairway.core.discipline import Offer, Served
from fairway.core.look import QueueLook, WorldLook
from fairway.core.matching import View
from fairway.core.model import SLOT, Moment, Shape
from fairway.core.plan import Begin
from fairway.core.queue import Queue
from fairway.core.world import MOST_AHEAD, Live, Worker, World

#: A report and a commit may take so many times as long as they mostly do, and so much longer: no slot idles.
LAG_TIMES, LAG_SECONDS = 2.0, 0.010
#: For longer nothing shall have to wait for its slot; after 100 ms it would be handed back.
WAIT_SECONDS = 0.050
#: Of one more job so much fits into a bundle if the rest of it does: two jobs of 5.2 ms are some 10 ms, too.
NEARLY = 0.1


class Lot(NamedTuple):
    """Jobs that left a line together."""

    queue: Queue
    offer: Offer
    served: Served


def fill(world: World, now: Moment) -> None:
    """Begin all that can begin now."""
    ahead = world.timers.ahead_most > 0.0
    idle = [
        (_load(worker), worker.spec.name, worker.spec.incarnation)
        for worker in world.workers.values()
        if worker.takes_more or (ahead and worker.looks_ahead(now.mono))
    ]
    heapify(idle)
    kept = Kept(world) if world.tree.keeping else None
    dry: set[View] = set()  # nothing fits such workers any more: a fill only takes
    while idle:
        worker = world.workers[idle[0][2]]
        if _begin_next(world, worker, kept, dry, now):
            heapreplace(idle, (_load(worker), worker.spec.name, worker.spec.incarnation))
        else:
            heappop(idle)


def _load(worker: Worker) -> float:
    return 1.0 - worker.free / (worker.spec.slots * SLOT)


def _begin_next(world: World, worker: Worker, kept: Kept | None, dry: set[View], now: Moment) -> bool:
    """Begin one job or one bundle on *worker*; False if nothing fits it now."""
    found = _choose(world, worker, kept, dry, now) if worker.takes_more else None
    if found is None:
        return kept is None and _begin_ahead(world, worker, dry, now)
    queue, offer = found
    slots = worker.free // SLOT
    if worker.kind.is_async(offer.shape):
        _begin_one(world, worker, queue, offer, SLOT // worker.spec.async_per_slot, False, now)
    else:
        _fill_slot(world, worker, queue, offer, _estimate(world, queue, offer.shape), now)
    if kept is not None:
        kept.taken(worker, slots - worker.free // SLOT)
    return True


def _begin_ahead(world: World, worker: Worker, dry: set[View], now: Moment) -> bool:
    """Begin what is short before a slot is free for it; False if there is no such turn, or enough of it."""
    whole, timers = worker.kind.whole, world.timers
    if whole in dry or not timers.ahead_most or not worker.looks_ahead(now.mono):
        return False
    found = world.tree.choose(whole, now.wall)
    if found is None:
        dry.add(whole)
        return False
    queue, offer = found
    seconds = _estimate(world, queue, offer.shape)
    if seconds > timers.ahead_most or worker.kind.is_async(offer.shape):
        return False
    turn = max(seconds, timers.bundle_budget)
    wanted, most = ceil((LAG_TIMES * worker.lag + LAG_SECONDS) / turn), int(WAIT_SECONDS / turn)
    if not worker.looks_ahead(now.mono, max(min(wanted, most, MOST_AHEAD), 1)):
        return False
    begins = world.plan.batch.begins
    first = len(begins)
    _fill_slot(world, worker, queue, offer, seconds, now)
    begins[first:] = [begin._replace(ahead=True) for begin in begins[first:]]
    keep(world, worker, [job for begin in begins[first:] for job in begin.jobs])
    return True


def _fill_slot(world: World, worker: Worker, queue: Queue, offer: Offer, seconds: float, now: Moment) -> None:
    """Begin what one slot takes: a job, or several that are expected to take *seconds* each."""
    if seconds > world.timers.bundle_budget:
        _begin_one(world, worker, queue, offer, SLOT, seconds <= world.timers.ahead_most, now)
    else:
        _begin_bundle(world, worker, queue, offer, now)


def _choose(
    world: World, worker: Worker, kept: Kept | None, dry: set[View], now: Moment
) -> tuple[Queue, Offer] | None:
    """Name the next job for a worker: for a whole slot, or for the part of one that is left."""
    kind, wall = worker.kind, now.wall
    part = kind.part if worker.free % SLOT >= SLOT // worker.spec.async_per_slot else None
    found: tuple[Queue, Offer] | None = None
    if worker.free >= SLOT and kind.whole not in dry:
        if kept is None or not kept.holds(kind.whole):
            found = world.tree.choose(kind.whole, wall)
            if found is None:
                dry.add(kind.whole)
        else:
            found = world.tree.choose_kept(kind.whole, wall)
    if found is None and part is not None and part not in dry:
        found = world.tree.choose(part, wall)
        if found is None:
            dry.add(part)
    return found


class Kept:
    """The slots that queues which do not lend theirs keep free, while one plan is made."""

    def __init__(self, world: WorldLook) -> None:
        self._keeping = world.tree.keeping
        able = [worker for worker in world.workers.values() if worker.takes_more]
        self._free = {
            queue: sum(worker.free // SLOT for worker in able if serves_below(worker.kind.whole, queue))
            for queue in self._keeping
        }

    def taken(self, worker: Worker, slots: int) -> None:
        """Slots of a worker are not free any more."""
        for queue in self._free:
            if slots and serves_below(worker.kind.whole, queue):
                self._free[queue] -= slots

    def holds(self, view: View) -> bool:
        """Say whether the free slots that such workers have are no more than what is kept."""
        keeping = [
            queue for queue in self._keeping if queue.held < queue.assured and serves_below(view, queue)
        ]
        outer = [queue for queue in keeping if not any(one in keeping for one in list(queue.path_up())[1:])]
        kept = sum(-(-(queue.assured - queue.held) // SLOT) for queue in outer)
        return any(self._free[queue] <= kept for queue in outer)


def serves_below(view: View, queue: QueueLook) -> bool:
    """Say whether such workers serve a queue, or one below it."""
    return view.attached(queue.path) or any(serves_below(view, child) for child in queue.children.values())


def _begin_one(
    world: World, worker: Worker, queue: Queue, offer: Offer, size: int, brief: bool, now: Moment
) -> None:
    served = world.tree.take(queue, offer, 1, size, now.wall)
    _begin(world, worker, Lot(queue, offer, served), size, 0, now)
    worker.free -= size
    if brief:
        world.live[offer.job].brief = True
        worker.brief += size


def _begin_bundle(world: World, worker: Worker, queue: Queue, offer: Offer, now: Moment) -> None:
    """Fill one slot with jobs that are short together."""
    view, tree, timers = worker.kind.whole, world.tree, world.timers
    left = SLOT
    lots: list[tuple[Lot, int]] = []
    while True:
        seconds = _estimate(world, queue, offer.shape)
        if seconds > timers.bundle_budget:
            break
        most = timers.bundle_most
        if seconds * most > timers.bundle_budget:
            most = int(timers.bundle_budget / seconds + NEARLY)
        part = SLOT // most
        if left < part:
            break
        served = tree.take(queue, offer, left // part, part, now.wall)
        lots.append((Lot(queue, offer, served), part))
        left -= len(served.jobs) * part
        found = tree.choose(view, now.wall) if left and not tree.keeping else None
        if found is None or worker.kind.is_async(found[1].shape):
            break
        queue, offer = found
    _share_slot(world, worker, lots, left, now)


def _share_slot(world: World, worker: Worker, lots: list[tuple[Lot, int]], left: int, now: Moment) -> None:
    """Begin the jobs of one slot together; what they leave of it is held by the first."""
    bundle = 0
    if len(lots) > 1 or len(lots[0][0].served.jobs) > 1:
        bundle = world.bundles = world.bundles + 1
    for lot, part in lots:
        _begin(world, worker, lot, part, bundle, now)
        if bundle:
            world.plan.bundles.update(dict.fromkeys(lot.served.jobs, bundle))
    first = world.live[lots[0][0].served.jobs[0]]
    first.size += left
    first.brief = True
    world.tree.hold(first.queue, 0, left, first.flow)
    worker.free -= SLOT
    worker.brief += SLOT


def _estimate(world: World, queue: Queue, shape: Shape) -> float:
    """Return the expected seconds, or more than any budget if such a job may not be bundled."""
    if shape.once or not shape.task or world.tree.kills(queue) or world.tree.is_rated(queue):
        return float("inf")
    known = world.estimates.find(shape.task)
    return float("inf") if known is None else known


def _begin(world: World, worker: Worker, lot: Lot, size: int, bundle: int, now: Moment) -> None:
    queue, (_, shape, priority, flow, *_), (jobs, places, _, flows) = lot
    mono = now.mono
    begun = {
        job: Live(job, queue, shape, priority, place, worker, size, mono, bundle, its_flow)
        for job, place, its_flow in zip(jobs, places, flows or repeat(flow, len(jobs)), strict=True)
    }
    if world.tree.deadlines:
        for job, extras in world.tree.deadlines.begin(jobs):
            begun[job].extras = extras
    if world.tree.kills(queue):
        for live in begun.values():
            live.kill = True
    world.live.update(begun)
    worker.live.update(begun)
    spec = worker.spec
    world.plan.batch.begins.append(Begin(jobs, spec.incarnation, spec.name, now.wall, queue.path, shape.task))
    world.counts.begun += len(jobs)
    world.advice.began(queue, jobs, places, flow, flows, now)
