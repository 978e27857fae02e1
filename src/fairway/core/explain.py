"""Why a job waits: the first thing that stands in its way, from the outside in. Changes nothing.

The jobs it waits for, its time, then its branch (paused, a full limit), then the workers (none that can),
then its line, then the slots. So the answer names what would have to change for the job to begin.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.core.blocked import Blocked
from fairway.core.flows import RanksFlows
from fairway.core.holders import held_by
from fairway.core.look import QueueLook, WorldLook
from fairway.core.matching import NOT_ON, why_not
from fairway.core.missing import what_is_missing
from fairway.core.model import SLOT, Arrival, Shape
from fairway.core.naming import show
from fairway.core.placement import Kept
from fairway.core.queue import Runs
from fairway.core.world import Worker

COUNTED = 1000  # jobs ahead that are counted one by one; of more it is said about how many there are


class Why(NamedTuple):
    """One true reason, the object it is about, and a sentence."""

    reason: str
    detail: str
    on: str | None = None


def explain(world: WorldLook, job: Arrival, now: int) -> Why | None:
    """Say why a waiting job waits; None if it does not wait."""
    if job.job in world.live:
        return None
    if job.job in world.tree.deadlines.over:
        return Why("expired", "its deadline has passed; it is about to end as failed")
    if job.job in world.aside:
        return Why("set_aside", "taking it in ended leaders by an internal error; `fairway doctor` says more")
    if job.job in world.blocked:
        return _for_others(world.blocked[job.job])
    if job.blocked:
        return Why("starting", "accepted; the leader is about to take it in")
    if job.place > now:
        return Why("not_due", f"due in {show_seconds((job.place - now) / 1e6)}")
    queue = world.tree.find(job.queue)
    if queue is None or not queue.own.holds(job):
        return Why("starting", "accepted; the leader is about to take it in")
    branch = _branch(queue, world.tree.mono)
    if branch is not None and branch.reason == "limit":
        return _with_holders(world, branch)
    return branch or _workers(world, job) or _line(world, queue, job, now)


def position(world: WorldLook, job: Arrival, now: int) -> int | None:
    """Count the due jobs ahead in the job's own queue; exact to 1,000, beyond that it may be a guess."""
    queue = world.tree.find(job.queue)
    if queue is None or job.place > now or job.job in world.live or job.blocked:
        return None
    return queue.ahead_of(job, now)


def limited_by(queue: QueueLook, mono: float) -> str | None:
    """Name what keeps a queue with waiting jobs from beginning more, if it is a setting."""
    why = _branch(queue, mono)
    return None if why is None else f"{why.reason} of '{why.on}'"


def show_seconds(seconds: float) -> str:
    """Write a duration for people."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def _for_others(job: Blocked) -> Why:
    first, others = show(job.first_open()), len(job.open) - 1
    more = "" if not others else " and 1 other" if others == 1 else f" and {others:,} others"
    return Why("blocked", f"waits for job {first}{more} to end", first)


def _branch(queue: QueueLook, mono: float) -> Why | None:
    above = [node for node in queue.path_up() if node.path]
    for node in above:
        if node.settings.moving is not None:
            to = node.settings.moving["to"]
            return Why("moving", f"queue '{node.path}' is being moved to '{to}'; it begins there", node.path)
        if node.settings.paused:
            return Why("paused", f"queue '{node.path}' is paused; resume it to go on", node.path)
    for node in above:
        if node.full:
            return Why("limit", _limit(node), node.path)
    for node in above:
        bucket = node.bucket
        if bucket is not None and not bucket.is_open(mono):
            wait = show_seconds(bucket.opens_at(mono) - mono)
            said = f"rate of '{node.path}' ({node.settings.rate}) is used up; the next start is in {wait}"
            return Why("rate", said, node.path)
    return None


def _limit(node: QueueLook) -> str:
    limit = node.settings.limit
    if limit == 0:
        return f"limit of '{node.path}' is 0: nothing may begin"
    return f"limit of '{node.path}' is full ({node.in_use} of {limit} running)"


def _with_holders(world: WorldLook, why: Why) -> Why:
    """Say of a full limit who holds it; only to whoever asks for a job, for the tree is shown as a whole."""
    queue = world.tree.find(why.on or "")
    holders = "" if queue is None else held_by(world, queue)
    return why._replace(detail=f"{why.detail}, {holders}") if holders else why


def _workers(world: WorldLook, job: Arrival) -> Why | None:
    present = [worker for worker in world.workers.values() if worker.connected]
    if not present:
        return Why("no_worker", "no worker is connected; start one with `fairway worker --join URL`")
    if job.shape.worker:
        return _pinned(job, present)
    attached = [worker for worker in present if worker.kind.attached(job.queue)]
    lacks = sorted({lack for worker in attached if (lack := why_not(worker.spec, job.shape))})
    fitting = _fitting(world, job)
    kept_from = [lack.removeprefix(NOT_ON) for lack in lacks if lack.startswith(NOT_ON)]
    if not fitting and kept_from:
        said = f"it is kept from every worker that could take it ({', '.join(kept_from[:3])})"
        return Why("no_worker", said, kept_from[0])
    if not fitting:
        return Why("no_worker", *what_is_missing([worker.spec for worker in present], job))
    names = ", ".join(sorted(worker.spec.name for worker in fitting)[:3])
    if all(worker.draining for worker in fitting):
        return Why("no_worker", f"every worker that could take it is draining ({names})")
    if all(worker.draining or worker.refusing for worker in fitting):
        return Why("no_worker", f"every worker that could take it is silent or gives work back ({names})")
    return None


def _pinned(job: Arrival, present: list[Worker]) -> Why | None:
    """Say what is wrong with the only worker that may take a job."""
    name = job.shape.worker
    found = [worker for worker in present if worker.spec.name == name]
    if not found:
        return Why("no_worker", f"pinned to '{name}', which is not there", name)
    if not any(worker.kind.attached(job.queue) for worker in found):
        return Why("no_worker", f"pinned to '{name}', which does not serve queue '{job.queue}'", name)
    lacks = [why_not(worker.spec, job.shape) for worker in found]
    if lack := next((lack for lack in lacks if lack), None) if all(lacks) else None:
        said = "is one it is kept from" if lack.startswith(NOT_ON) else f"lacks {lack}"
        return Why("no_worker", f"pinned to '{name}', which {said}", name)
    if all(worker.draining for worker in found):
        return Why("no_worker", f"pinned to '{name}', which is draining", name)
    if all(worker.draining or worker.refusing for worker in found):
        return Why("no_worker", f"pinned to '{name}', which is silent or gives work back", name)
    return None


def _line(world: WorldLook, queue: QueueLook, job: Arrival, now: int) -> Why:
    able = [worker for worker in _fitting(world, job) if not worker.draining]
    free = sum(_room(worker, job.shape) for worker in able if worker.takes_more)
    # What no worker here can run is passed over, and stands in nobody's way.
    ahead = queue.own.ahead(job, now, Runs(frozenset(worker.kind.whole for worker in able)))
    if ahead and ahead >= free:
        return _behind(queue, job, ahead, now)
    if not free and job.shape.worker:
        said = f"pinned to '{job.shape.worker}', which is full; it is the next of its queue"
        return Why("busy", said, job.shape.worker)
    if not free:
        slots = sum(worker.spec.slots for worker in able)
        return Why("busy", f"all {slots} slots that fit are taken; it is the next of its queue", queue.path)
    keepers = _keepers(world)
    if keepers and not _is_owed(queue) and all(Kept(world).holds(worker.kind.whole) for worker in able):
        names = ", ".join(f"'{keeper}'" for keeper in keepers[:3])
        lend = "does not lend" if len(keepers) == 1 else "do not lend"
        return Why("kept", f"the free slots are kept for {names}, which {lend} them", keepers[0])
    return Why("starting", "about to begin")


def _keepers(world: WorldLook) -> list[str]:
    """Name the queues that keep slots; what is kept for one below another is part of what that one keeps."""
    keeping = {queue for queue in world.tree.keeping if queue.held < queue.assured}
    return sorted(queue.path for queue in keeping if keeping.isdisjoint(list(queue.path_up())[1:]))


def _behind(queue: QueueLook, job: Arrival, ahead: int, now: int) -> Why:
    own = queue.own.ahead_in_flow(job, now) if isinstance(queue.own, RanksFlows) else 0
    if own:
        said = f"behind {_jobs(own)} of its flow '{job.flow or ''}', {_jobs(ahead)} of its queue"
        return Why("behind", said, job.flow)
    return Why("behind", f"behind {_jobs(ahead)} of its queue", queue.path)


def _jobs(count: int) -> str:
    return f"about {count:,} jobs" if count >= COUNTED else "1 job" if count == 1 else f"{count} jobs"


def _fitting(world: WorldLook, job: Arrival) -> list[Worker]:
    """Return the workers that are there, serve the job's queue and can run it."""
    return [
        worker
        for worker in world.workers.values()
        if worker.connected and worker.kind.attached(job.queue) and worker.kind.fits(job.shape)
    ]


def _room(worker: Worker, shape: Shape) -> int:
    """Return how many such jobs a worker has room for."""
    return worker.free // (SLOT // worker.spec.async_per_slot if worker.kind.is_async(shape) else SLOT)


def _is_owed(queue: QueueLook) -> bool:
    return any(node.held < node.assured and not node.settings.lend for node in queue.path_up())
