"""Workers that jobs name: a job pinned to one goes to nobody else, one kept from some never goes to those.

Workers that announce the same are one kind, and the tree asks kinds, not workers, what fits. So a worker that
a waiting job names must be a kind of its own as long as that job waits. It is singled out by the first plan
after the job came, before anything begins, and goes back to its like when nobody has named it for a while:
each change of kind is a look at every queue. Where nobody names a worker, nobody pays for this.
"""

from __future__ import annotations

from collections.abc import Collection

from fairway.core.model import Moment
from fairway.core.world import World

#: How often it is looked which workers nobody names any more.
LOOK_SECONDS = 60.0


def single_out(world: World, now: Moment) -> None:
    """See to it that every worker which a waiting job names is a kind of its own."""
    if world.tree.newly_named:
        fresh, world.tree.newly_named = world.tree.newly_named - world.singled, set()
        world.singled |= fresh
        _assign(world, fresh)
    if world.singled and now.mono >= world.singled_at + LOOK_SECONDS:
        world.singled_at = now.mono
        unnamed = world.singled - world.tree.named.keys()
        world.singled -= unnamed
        _assign(world, unnamed)


def _assign(world: World, names: Collection[str]) -> None:
    for worker in world.workers.values() if names else ():
        if worker.known and worker.spec.name in names:
            world.assign(worker, worker.spec)
