"""The network: one link is one connection between one life of a worker and one leader.

A plain link is what TCP gives: ordered both ways until it breaks, and then everything under way is lost. A
link through a careless relay may also lose, double or reorder single messages without breaking; the
protocol must stand that too, if not quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fairway.wire.messages import FromWorker, Hello, ToWorker, Welcome

from .world import World

if TYPE_CHECKING:
    from .engine import Leader
    from .run import Simulation
    from .workers import Worker


class Link:
    """One connection. It knows its two ends; each end forgets it when it hears that it broke."""

    def __init__(self, simulation: Simulation, worker: Worker, leader: Leader) -> None:
        self.simulation = simulation
        self.world: World = simulation.world
        self.worker = worker
        self.life = worker.life
        self.incarnation = worker.incarnation
        self.leader = leader
        self.open = True
        leader.links.append(self)
        self._last = [0.0, 0.0]  # when the last message up and down arrives, to keep the order

    def up(self, message: FromWorker) -> None:
        """Send to the leader."""
        self._send(0, lambda: self.leader.receive(self, message), isinstance(message, Hello))

    def send(self, message: ToWorker) -> None:
        """Send to the worker: a link stands where the node has a port."""
        self._send(1, lambda: self.worker.receive(self, message), isinstance(message, Welcome))

    def close(self) -> None:
        """Break: what is under way is lost, and each end notices in its own time."""
        if not self.open:
            return
        self.open = False
        world = self.world
        world.after(world.between(0.0, 0.5), lambda: self.worker.disconnected(self))
        # The far end of a dead connection may believe in it for longer than a lease.
        patience = 15.0 * world.scale if world.chance(0.1) else 1.0
        world.after(world.between(0.0, patience), lambda: self.leader.disconnected(self))

    def _send(self, direction: int, deliver: Callable[[], None], opening: bool) -> None:
        simulation, world = self.simulation, self.world
        if not self.open:
            return None
        if world.chance(simulation.rate("reset")):
            world.note(f"link {self.incarnation}~{self.leader.term} breaks")
            self.close()
            return None
        if opening:  # a relay opens a connection only as a whole
            return self._deliver_later(direction, deliver)
        if world.chance(simulation.rate("lose")):
            world.note(f"link {self.incarnation}~{self.leader.term} loses a message")
            return None
        self._deliver_later(direction, deliver)
        if world.chance(simulation.rate("double")):
            self._deliver_later(direction, deliver)
        return None

    def _deliver_later(self, direction: int, deliver: Callable[[], None]) -> None:
        world = self.world
        slow = world.chance(self.simulation.rate("slow"))
        arrives = world.mono + world.between(0.0005, 4.0 if slow else 0.01)
        if not world.chance(self.simulation.rate("reorder")):
            arrives = max(arrives, self._last[direction])
            self._last[direction] = arrives
        world.after(arrives - world.mono, lambda: deliver() if self.open else None)
