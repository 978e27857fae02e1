"""When queues have to be looked at again: a job becomes due, or a bucket has a token. Owned by the tree."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from fairway.core.queue import Queue


class Alarms:
    """Queues by wall time, for what becomes due, and by monotonic time, for tokens."""

    def __init__(self) -> None:
        self._timers: list[tuple[int, str]] = []
        self._armed: dict[str, int] = {}  # queue → the wall time its timer stands at
        self._openings: list[tuple[float, int, Queue]] = []

    def arm(self, path: str, when: int) -> None:
        """Look at a queue at *when*, unless it is looked at before."""
        standing = self._armed.get(path)
        if standing is None or when < standing:
            self._armed[path] = when
            heappush(self._timers, (when, path))

    def await_token(self, queue: Queue, mono: float) -> None:
        """Look at a queue when its bucket has a token again, if it has none."""
        bucket = queue.bucket
        if bucket is not None and not bucket.is_open(mono):
            heappush(self._openings, (bucket.opens_at(mono), queue.order, queue))

    def due(self, now: int) -> Iterator[str]:
        """Yield the queues whose time has come; those it arms meanwhile are among them."""
        while self._timers and self._timers[0][0] <= now:
            when, path = heappop(self._timers)
            if self._armed.get(path) == when:
                del self._armed[path]
                yield path

    def open(self, mono: float) -> Iterator[Queue]:
        """Yield the queues whose buckets should have a token again."""
        while self._openings and self._openings[0][0] <= mono:
            yield heappop(self._openings)[2]

    def next_due(self) -> int | None:
        """Return the wall time at which the next job becomes due that is not yet."""
        return self._timers[0][0] if self._timers else None

    def next_token(self) -> float | None:
        """Return the monotonic time at which the next bucket has a token again."""
        return self._openings[0][0] if self._openings else None
