"""The trouble of a world: each kind comes by itself at the seed's rate, until everything heals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run import Simulation


class Faults:
    """Injects what happens per second; what happens per message or commit is thrown where it happens."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.foremost = 0  # how far the wall clock was ahead at most, in microseconds
        kinds: dict[str, Callable[[], None]] = {
            "worker_crash": self._worker_crash,
            "worker_pause": self._worker_pause,
            "worker_drain": self._worker_drain,
            "leader_crash": self._leader_crash,
            "leader_freeze": self._leader_freeze,
            "coup": self._coup,
            "outage": self._outage,
            "wall_jump": self._wall_jump,
            "meddling": simulation.clients.meddle,
            "relocating": simulation.clients.relocate,
            "flooding": simulation.clients.flood,
        }
        for kind, inject in kinds.items():
            self._again(kind, inject)

    def _again(self, kind: str, inject: Callable[[], None]) -> None:
        rate = self.simulation.rate(kind)
        if rate > 0:
            seconds = self.world.random.expovariate(rate) * self.world.scale
            self.world.after(seconds, lambda: self._strike(kind, inject))

    def _strike(self, kind: str, inject: Callable[[], None]) -> None:
        if not self.simulation.healed:
            inject()
            self._again(kind, inject)

    def _seconds(self, low: float, high: float) -> float:
        return self.world.between(low, high) * self.world.scale

    def _worker_crash(self) -> None:
        worker = self.world.random.choice(self.simulation.workers)
        worker.crash(self._seconds(0.1, 12.0), self.world.chance(0.5))

    def _worker_pause(self) -> None:
        worker = self.world.random.choice(self.simulation.workers)
        worker.pause(self._seconds(0.5, 20.0))

    def _worker_drain(self) -> None:
        self.world.random.choice(self.simulation.workers).close()

    def _leader_crash(self) -> None:
        if leader := self.simulation.leader():
            leader.crash()

    def _leader_freeze(self) -> None:
        if leader := self.simulation.leader():
            leader.freeze(self._seconds(0.5, 15.0))

    def _coup(self) -> None:
        self.simulation.elect()

    def _outage(self) -> None:
        seconds = self._seconds(0.05, 6.0)
        self.world.note(f"store is down for {seconds:.2f}")
        self.simulation.down_until = self.world.mono + seconds

    def _wall_jump(self) -> None:
        # Small ones are not noticed by a leader that watches for its own lateness.
        most = 2.0 if self.world.chance(0.9) else 20.0
        seconds = self.world.between(-most, most)
        self.world.note(f"wall clock jumps {seconds:.2f}")
        self.world.skew += int(seconds * 1e6)
        self.foremost = max(self.foremost, self.world.skew)
