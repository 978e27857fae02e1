"""The attempts that a worker was given before a slot is free, in their order.

They are started as slots become free. One for which none is within a moment is handed back, so that another
worker can have it: what runs here takes longer than was expected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from fairway.wire.messages import Assignment
from fairway.worker.outbox import Key

PATIENCE_SECONDS = 0.1


class Shelf:
    """What is begun ahead. Owned by the agent."""

    def __init__(self, give_back: Callable[[Sequence[Key]], None]) -> None:
        self._give_back = give_back
        self._bundles: deque[tuple[float, list[Assignment]]] = deque()  # and when it must go
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._bundles)

    def put(self, bundle: list[Assignment]) -> None:
        """Keep a bundle for a moment."""
        loop = asyncio.get_running_loop()
        self._bundles.append((loop.time() + PATIENCE_SECONDS, bundle))
        if self._timer is None:
            self._timer = loop.call_later(PATIENCE_SECONDS, self._tidy)

    @property
    def first(self) -> list[Assignment]:
        """The next bundle; there must be one."""
        return self._bundles[0][1]

    def take(self) -> list[Assignment]:
        """Take the next bundle; there must be one."""
        return self._bundles.popleft()[1]

    def remove(self, key: Key) -> bool:
        """Take one attempt out; False if it is not here."""
        for number, (_, bundle) in enumerate(self._bundles):
            for index, assignment in enumerate(bundle):
                if assignment[:2] == key:
                    del bundle[index]
                    if not bundle:
                        del self._bundles[number]
                    return True
        return False

    def clear(self) -> list[Key]:
        """Take all out."""
        keys = [assignment[:2] for _, bundle in self._bundles for assignment in bundle]
        self._bundles.clear()
        return keys

    def _tidy(self) -> None:
        """Hand back what has waited for too long."""
        loop = asyncio.get_running_loop()
        keys: list[Key] = []
        while self._bundles and self._bundles[0][0] <= loop.time():
            keys += [assignment[:2] for assignment in self.take()]
        due = self._bundles[0][0] if self._bundles else None
        self._timer = None if due is None else loop.call_at(due, self._tidy)
        if keys:
            self._give_back(keys)
