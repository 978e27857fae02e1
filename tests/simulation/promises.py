"""What queues are promised, judged by the rows and the settings alone: assured slots, priority, and rates.

A begin is surely a borrower's if nothing in its branch is assured anything. One must not begin while a job
that is just like it waits in a queue that nothing holds back, and that has less than it is assured or is of
a branch of higher priority. What begins in a plan only takes: who is owed a slot when all has begun was owed
it all the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from fairway.core.rates import parse_rate

Settings = Mapping[str, Any]


class Starts:
    """The starts of one queue since its rate was set."""

    def __init__(self, settings: Settings) -> None:
        self.rate = parse_rate(settings["rate"])
        self.burst = settings.get("burst") or max(1, int(self.rate))
        self._count = 0
        self._least = float("inf")

    def add(self, mono: float) -> bool:
        """Note a start; False if it is one more than burst + rate * seconds + 1 since any before it."""
        saved = self._count - self.rate * mono
        self._count += 1
        self._least = min(self._least, saved)
        return saved - self._least <= self.burst + 1e-6


class Promises:
    """The books on what the queues of one world are promised."""

    def __init__(self, queues: Callable[[], Mapping[str, bytes]]) -> None:
        self._queues = queues
        self._starts: dict[str, Starts] = {}

    def settings(self, path: str) -> Settings:
        """Return what is set for a queue."""
        return read(self._queues().get(path, b"{}"))

    def changed(self, paths: Iterable[str]) -> None:
        """Queues were set in this commit: a rate that was taken away and given again starts full."""
        for path in {*paths, *(self._starts.keys() - self._queues().keys())}:
            self._starts.pop(path, None)

    def start(self, path: str, mono: float) -> bool:
        """Note a start in a queue or below it; False if it is one too many."""
        settings = self.settings(path)
        if settings.get("rate") is None:
            self._starts.pop(path, None)
            return True
        if path not in self._starts:
            self._starts[path] = Starts(settings)
        return self._starts[path].add(mono)

    def is_open(self, path: str, running: Mapping[str, int]) -> bool:
        """Say whether nothing holds a queue back."""
        return all(self._has_room(self.settings(node), running[node]) for node in up(path))

    def _has_room(self, settings: Settings, running: int) -> bool:
        limit = settings.get("limit")
        held_back = settings.get("paused") or settings.get("rate") or settings.get("moving")
        return not held_back and (limit is None or running < limit)

    def some_keep(self) -> bool:
        """Say whether some queue keeps what it is assured for itself."""
        return any(self.settings(path).get("lend") is False for path in self._queues())

    def precedence(self, path: str, borrower: str, running: Mapping[str, int]) -> str | None:
        """Name why what waits in *path*, which is open, comes before a begin in *borrower*, if it does."""
        if borrower in up(path) or path in up(borrower):
            return None
        branch = next(node for node in reversed(up(borrower)) if node not in up(path))
        inside = [node for node in self._queues() if branch in up(node)]
        if any(self.settings(node).get("assured") for node in inside):
            return None  # it may be owed a slot itself
        if running[path] < (self.settings(path).get("assured") or 0):
            return "assured"
        its_branch = next(node for node in reversed(up(path)) if node not in up(borrower))
        return "priority" if self._priority(its_branch) > self._priority(branch) else None

    def _priority(self, path: str) -> int:
        return self.settings(path).get("priority") or 0


@lru_cache(1000)
def read(settings: bytes) -> Settings:
    """Return a queue's settings as they are stored."""
    found: Settings = json.loads(settings)
    return found


@lru_cache(1000)
def up(path: str) -> tuple[str, ...]:
    """Return a queue's path and those above it, without the root."""
    parts = path.split("/")
    return tuple("/".join(parts[:count]) for count in range(len(parts), 0, -1))
