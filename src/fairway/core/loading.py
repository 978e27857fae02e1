"""A new leader takes in the jobs that waited before it did, page by page, while it leads already.

To take in a million of them one by one took it eight seconds, in which it did little else. So jobs that stand
in one line come together and are put there at one stroke; but only where that surely is the same as one by
one: none of them is known already, and none in the line stands between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

from fairway.core import asks, blocked, notices
from fairway.core import events as happened
from fairway.core.model import Alike, Arrival, Moment, Shape
from fairway.core.plan import Drop, Unblock

if TYPE_CHECKING:
    from fairway.core.world import World


#: Jobs that are known, though in no line.
Elsewhere = Sequence[Set[int]]


def load(world: World, event: happened.Loaded, now: Moment) -> None:
    """Let jobs wait, or be blocked, that did so already; those that are known are passed over."""
    unblocked = _jobs_of(world.plan.batch.unblocks, world.plan.unblocked)
    decided = (*left_out(world), unblocked)  # maybe when they were taken in, just now
    for group, is_put in put_groups(world, event.alike, now, decided):
        if not is_put:
            for arrival in group.arrivals():
                _load_one(world, arrival, decided, now)
    for arrival in event.arrivals:
        _load_one(world, arrival, decided, now)
    blocked.hear(world, event.ended, now)


def put_groups(
    world: World, alike: Sequence[Alike], now: Moment, decided: Elsewhere = ()
) -> Iterator[tuple[Alike, bool]]:
    """Let jobs wait at one stroke: all flows that stand in one line, else each. Say of each group if it was.

    It is not when it is one job, or one of them may be known already: those of them that wait and run, that
    are blocked, whose deadline is over, and those that were *decided* on.
    """
    elsewhere = (*decided, world.live.keys(), world.blocked.keys(), world.tree.deadlines.over.keys())
    for groups in _by_flow(alike):
        all_put = len(groups) > 1 and _put_alike(world, groups, elsewhere, now)
        for group in groups:
            is_put = all_put or (len(group.jobs) > 1 and _put_alike(world, (group,), elsewhere, now))
            yield group, is_put


def _by_flow(alike: Sequence[Alike]) -> Iterable[Sequence[Alike]]:
    """Put groups together that differ in their flow only; each in the order of its line."""
    together: dict[tuple[str, int, Shape], list[Alike]] = {}
    for group in alike:
        together.setdefault((group.queue, group.priority, group.shape), []).append(group.in_order())
    return together.values()


def _put_alike(world: World, groups: Sequence[Alike], elsewhere: Elsewhere, now: Moment) -> bool:
    """Let jobs wait at one stroke that differ in their flow only; False if each has to be looked at."""
    path = groups[0].queue
    if world.tree.way_of(path) != path or not all(
        known.isdisjoint(one.jobs) for known in elsewhere if known for one in groups
    ):
        return False
    if not world.tree.put_alike(groups, now.wall):
        return False
    asks.make_known(world, path, now)
    return True


def _load_one(world: World, arrival: Arrival, decided: Elsewhere, now: Moment) -> None:
    if any(arrival.job in jobs for jobs in decided) or is_known(world, arrival):
        return
    notices.watch(world, arrival)
    if arrival.blocked:
        blocked.admit(world, arrival)
    else:
        world.tree.put(arrival, now.wall)
    asks.make_known(world, arrival.queue, now)


def left_out(world: World) -> tuple[Set[int], Set[int]]:
    """Return the jobs that are not let wait though the store has them: set aside, and ended by this plan."""
    return world.aside, _jobs_of(world.plan.batch.drops, world.plan.dropped)


def _jobs_of(records: Sequence[Drop | Unblock], known: set[int]) -> Set[int]:
    """Return the jobs of a plan's records. *known* are those of the first ones, and the others join them.

    Read anew for each job of an intake one by one, the drops of a page of doomed jobs took 5 s.
    """
    known.update(record.job for record in records[len(known) :])
    return known


def is_known(world: World, arrival: Arrival) -> bool:
    """A job may be seen twice while a new leader loads: in its arrival and in its row."""
    job = arrival.job
    if job in world.live or job in world.blocked or job in world.tree.deadlines.over:
        return True
    queue = world.tree.find(arrival.queue)
    if queue is not None and queue.own.holds(arrival):
        return True
    if not world.tree.moving:
        return False
    queue = world.tree.find(world.tree.way_of(arrival.queue))  # its row may have been read before it moved
    return queue is not None and queue.own.holds(arrival)
