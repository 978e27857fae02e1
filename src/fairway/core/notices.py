"""Jobs of whose end somebody wants to be told by a call (`notify`): which of them end with a plan.

The leader keeps just their ids. What is to be told is put together by the store, in the commit that ends the
job, so that no leader can die between the two. When nobody is to be told, nothing is looked through.
"""

from __future__ import annotations

from fairway.core.model import Arrival
from fairway.core.world import World


def watch(world: World, arrival: Arrival) -> None:
    """Take note of a job that waits or runs, if somebody is to be told of its end."""
    if arrival.extras is not None and arrival.extras.notify is not None:
        world.watched.add(arrival.job)


def settle(world: World) -> None:
    """Name those that this plan ends."""
    batch, watched = world.plan.batch, world.watched
    for end in batch.ends:
        if not watched.isdisjoint(end.jobs):
            batch.notices += [job for job in end.jobs if job in watched]
    batch.notices += [drop.job for drop in batch.drops if drop.job in watched]
    watched.difference_update(batch.notices)
