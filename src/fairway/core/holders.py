"""Who holds a queue's limit, in a few words: some of the jobs that run there, or else the queues below it.

Attempts are not kept by queue: where so many run that looking at each would take long, the queues below are
named with their counts, which the tree knows. So an answer costs no more than `MOST_LOOKED` glances.
"""

from __future__ import annotations

from heapq import nlargest
from itertools import islice

from fairway.core.look import QueueLook, WorldLook
from fairway.core.naming import show
from fairway.core.queue import Queue

MOST_LOOKED = 1000
MOST_NAMED = 3


def held_by(world: WorldLook, queue: QueueLook) -> str:
    """Name some of what runs in a queue and below it; empty if there is nothing to say."""
    named = _jobs(world, queue) if len(world.live) <= MOST_LOOKED else _queues(queue)
    others = queue.in_use - sum(named.values())
    more = "" if others <= 0 else " and 1 other" if others == 1 else f" and {others:,} others"
    return f"held by {', '.join(named)}{more}" if named else ""


def _jobs(world: WorldLook, queue: QueueLook) -> dict[str, int]:
    """Return the jobs that have run for longest, each counted once."""
    below = queue.path + "/"
    running = (
        live.job for live in world.live.values() if live.queue is queue or live.queue.path.startswith(below)
    )
    return {show(job): 1 for job in islice(running, MOST_NAMED)}


def _queues(queue: QueueLook) -> dict[str, int]:
    """Return the children with most attempts, in words, by how many these are; none if all are its own."""
    children = [member for member in islice(queue.busy_members(), MOST_LOOKED) if isinstance(member, Queue)]
    most = nlargest(MOST_NAMED, children, key=lambda child: child.in_use)
    return {f"{child.path} {child.in_use:,}": child.in_use for child in most if child.in_use}
