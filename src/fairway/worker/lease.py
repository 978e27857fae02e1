"""The worker's own view of its lease: until when nobody else can be given what it runs.

The leader takes an attempt away when it has not heard it named for a whole lease, by its own clock. The
worker must have ended its code by then, on another clock that it never compares with the leader's. So it
counts from when it *sent* the last beat that it knows was heard and that named the attempt: the leader heard
it later than that. From this a margin is taken for the ending itself.

A new attempt is named by no beat yet. Its begin followed, in one stream, the answers we have, so the leader
counts it from later than any beat they answer.

One deadline stands for all: the earliest of all claims. Only attempts of `on_lease_lost: kill` are claimed
here; the others run on. Owned by the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fairway.worker.guardian import LOOK_SECONDS, read_clock
from fairway.worker.outbox import Key

MARGIN = 5  # a fifth of the usual lease is kept for ending code


@dataclass(slots=True)
class Claim:
    """One attempt's part of the lease."""

    first: int  # the first beat that names it
    until: float


class Lease:
    """What was sent, what of it was heard, and what depends on it."""

    def __init__(self, now: Callable[[], float] = read_clock) -> None:
        self.until = 0.0  # when the code of all claimed attempts must have ended
        self.claimed = asyncio.Event()
        self._now = now
        self._seconds = self._margin = 0.0
        self._sent: dict[int, float] = {}  # beats that may still be answered
        self._number = self._hello = 0
        self._newest = 0.0  # for attempts that begin now
        self._claims: dict[Key, Claim] = {}

    def last(self, seconds: float, usual: float) -> None:
        """A lease lasts so many seconds; *usual* is that of other attempts."""
        self._seconds, self._margin = seconds, usual / MARGIN

    def start_again(self) -> None:
        """A hello is about to be sent on a new connection: answers to older beats will not come."""
        self._sent.clear()
        self._hello = self.next_number()

    def next_number(self) -> int:
        """Number a beat that is about to be sent, and that names all we hold."""
        now = self._now()
        self._number += 1
        self._sent = {number: sent for number, sent in self._sent.items() if sent + self._seconds > now}
        self._sent[self._number] = now
        return self._number

    def hello_heard(self) -> None:
        """The hello counts as a beat."""
        self.heard(self._hello)

    def heard(self, number: int) -> None:
        """A beat was heard by a leader; what it named is ours for another lease."""
        sent = self._sent.get(number)
        if sent is None:
            return
        until = sent + self._seconds - self._margin
        self._newest = max(self._newest, until)
        for claim in self._claims.values():
            if claim.first <= number:
                claim.until = max(claim.until, until)
        self.until = min((claim.until for claim in self._claims.values()), default=self._newest)

    # --- attempts -----------------------------------------------------------------------------------
    def claim(self, key: Key) -> bool:
        """Let an attempt depend on the lease; False if there is none: it must not start."""
        if self._now() >= self._newest:
            return False
        if not self._claims:
            self.until = self._newest
        self._claims[key] = Claim(self._number + 1, self._newest)
        self.claimed.set()
        return True

    def holds(self, key: Key) -> bool:
        """Whether this attempt depends on the lease."""
        return key in self._claims

    def release(self, key: Key) -> None:
        """An attempt has ended."""
        if self._claims.pop(key, None) is not None and not self._claims:
            self.claimed.clear()

    def take_overdue(self) -> list[Key]:
        """Return and forget the attempts whose code must end now: none, or all."""
        if not self._claims or self._now() < self.until:
            return []
        keys = list(self._claims)
        self._claims.clear()
        self.claimed.clear()
        return keys

    async def wait(self) -> None:
        """Return when it is worth looking whether the lease is over."""
        await self.claimed.wait()
        # A timer alone would oversleep if the machine sleeps.
        await asyncio.sleep(max(0.0, min(LOOK_SECONDS, self.until - self._now())))
