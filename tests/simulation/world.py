"""The clock and the dice of a simulated world. Everything that happens is an entry on one heap.

Time passes only from entry to entry. The monotonic clock rises steadily; the wall clock is the same plus a
skew that a fault may change. All chance comes from one seeded generator, so a seed is a whole world: the
same seed gives the same trace, and the trace's hash proves it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from fairway.core.model import Moment

Act = Callable[[], None]

START_WALL = 1_800_000_000_000_000
TRACE_LINES = 40


class World:
    """A virtual clock, a heap of things to come and a seeded random generator."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self.seed = seed
        self.scale = scale  # how many times slower it is than others, in all that goes by the clock
        self.random = Random(seed)
        self.mono = 100.0
        self.skew = 0  # microseconds the wall clock is wrong by
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self._hash = hashlib.blake2b(digest_size=8)
        self._heap: list[tuple[float, int, Act]] = []
        self._count = 0

    @property
    def wall(self) -> int:
        """The wall time in microseconds."""
        return START_WALL + int(self.mono * 1e6) + self.skew

    def now(self) -> Moment:
        """Return now, on both clocks."""
        return Moment(self.wall, self.mono)

    def after(self, seconds: float, act: Act) -> None:
        """Let *act* happen in a while; equal times keep their order."""
        self._count += 1
        heappush(self._heap, (self.mono + seconds, self._count, act))

    def run(self, until: float, done: Callable[[], bool]) -> bool:
        """Let time pass until *done* says so; False if the clock came to *until* first."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.mono, _, act = heappop(heap)
            self.steps += 1
            act()
            if done():
                return True
        self.mono = until
        return done()

    def chance(self, probability: float) -> bool:
        """Throw a coin that falls this way with *probability*; free when it cannot."""
        return probability > 0 and self.random.random() < probability

    def between(self, low: float, high: float) -> float:
        """Draw a duration."""
        return low + (high - low) * self.random.random()

    def note(self, text: str) -> None:
        """Write a line of the trace."""
        line = f"{self.mono:.6f} {text}"
        self.trace.append(line)
        self._hash.update(line.encode())

    def trace_hash(self) -> str:
        """Return what two runs of one seed must have in common."""
        return self._hash.hexdigest()
