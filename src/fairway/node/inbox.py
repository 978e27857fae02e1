"""What the engine has not looked at yet: bounded, filled from the loop, emptied whole.

While one commit is under way the next batch gathers here by itself: group commit.
Weights are jobs or attempts. When it is full, those who can wait do (a worker's stream, a submit, up to
their patience), so that pressure reaches the sender instead of the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from fairway.core.events import CoreEvent, Reported
from fairway.core.model import Arrival
from fairway.errors import Busy
from fairway.store import Accepted, Submission

MOST = 50_000


class Submit(NamedTuple):
    """Submissions of one call, on their way into the next commit."""

    submissions: Sequence[Submission]
    arrivals: Sequence[Arrival]
    answer: asyncio.Future[list[Accepted]]


class Inbox:
    """Events and submissions for the next plan. One engine takes from it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._weight = 0
        self._events: list[CoreEvent] = []
        self._submits: list[Submit] = []
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.closed = False

    def put(self, event: CoreEvent, weight: int = 1) -> None:
        """Add an event whether or not there is room: for what is small and must not wait."""
        if not self.closed:
            self._events.append(event)
            self._grew(weight)

    async def put_patiently(self, event: CoreEvent, weight: int) -> None:
        """Add an event when there is room: whoever sends them faster than we commit has to wait."""
        while not self._room.is_set():
            await self._room.wait()
        self.put(event, weight)

    async def submit(self, submit: Submit, patience: float) -> None:
        """Add submissions when there is room, or raise Busy after *patience* seconds."""
        if not self._room.is_set():
            await self._wait_for_room(patience)
        if not self.closed:
            self._submits.append(submit)
            self._grew(len(submit.arrivals))

    async def _wait_for_room(self, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                while not self._room.is_set():  # whoever woke before us may have filled it again
                    await self._room.wait()
        except TimeoutError:
            raise Busy(f"{self._most:,} jobs are waiting to be written; send more slowly") from None

    def ring(self) -> None:
        """Wake the engine although nothing was put in."""
        self._filled.set()

    async def wait(self, timeout: float) -> None:
        """Return when something is here, or the time is over."""
        if not self._filled.is_set():
            # Cheaper than to be cancelled: what comes on an idle node waits for the way out of here as well.
            timer = asyncio.get_running_loop().call_later(timeout, self._filled.set)
            try:
                await self._filled.wait()
            finally:
                timer.cancel()

    @property
    def has_only_reports(self) -> bool:
        """Whether there is something, and all of it tells of attempts that ended."""
        return bool(self._events) and not self._submits and all(type(one) is Reported for one in self._events)

    async def until_filled(self) -> None:
        """Return when something was put in."""
        await self._filled.wait()

    def take(self) -> tuple[list[CoreEvent], list[Submit]]:
        """Take everything."""
        taken = self._events, self._submits
        self._events, self._submits, self._weight = [], [], 0
        self._filled.clear()
        self._room.set()
        return taken

    def close(self) -> None:
        """The engine has ended: nobody waits for room any more, and what still comes is dropped."""
        self.closed = True
        self.take()

    def _grew(self, weight: int) -> None:
        self._weight += weight
        self._filled.set()
        if self._weight >= self._most:
            self._room.clear()
