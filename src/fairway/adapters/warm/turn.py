"""Attempts on their way through a warm child."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from fairway.adapters.output import Output
from fairway.wire.messages import Assignment

Key = tuple[int, int]


class Lane:
    """An attempt, or a bundle in its order: one after the other, the next when the one before has ended."""

    __slots__ = ("rest", "turn")

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self.rest = deque(assignments)  # not sent yet
        self.turn: Turn | None = None

    def take_back(self) -> list[Key]:
        """Return those that were not sent, which nobody will send now."""
        keys = [assignment[:2] for assignment in self.rest]
        self.rest.clear()
        return keys

    def drop(self, key: Key) -> bool:
        """Forget one that was not sent; says whether it was here."""
        for assignment in self.rest:
            if assignment[:2] == key:
                self.rest.remove(assignment)
                return True
        return False


class Turn:
    """An attempt whose code runs."""

    __slots__ = ("assignment", "began", "has_complained", "lane", "output", "stopped_as", "timers")

    def __init__(self, assignment: Assignment, lane: Lane, output: Output, began: float) -> None:
        self.assignment, self.lane, self.output, self.began = assignment, lane, output, began
        self.stopped_as: str | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.has_complained = False  # of a checkpoint

    def end(self) -> None:
        """Forget what was to be done about it."""
        for timer in self.timers:
            timer.cancel()
        self.output.close()
