"""Sending again: which calls may be repeated, how often, and after which pause."""

from __future__ import annotations

import random
import time

import msgspec

from fairway.client import problems
from fairway.errors import FairwayError, WorldError

#: How often a node is asked that has never answered: its address may be wrong.
TRIES = 5
#: One that has answered before comes back, be it after a restart: it is asked until the call's time is over.
PATIENT_TRIES = 1000
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


class Request(msgspec.Struct, frozen=True):
    """A request as it goes out, every time it is sent the same."""

    method: str
    target: str
    body: bytes | None
    headers: dict[str, str]

    @property
    def may_repeat(self) -> bool:
        """Sending it twice does no more than sending it once."""
        return self.method != "POST" or any(name.lower() == "idempotency-key" for name in self.headers)


class Repeat:
    """Decides whether a call that failed is sent again, and after which pause."""

    def __init__(self, request: Request, timeout: float) -> None:
        self._may_repeat, self._failures = request.may_repeat, 0
        self._deadline = time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def left(self) -> float:
        """Return the seconds left of the call's timeout."""
        return max(self._deadline - time.monotonic(), 0.001)

    def pause_after(self, error: WorldError, tries: int) -> float:
        """Return the seconds to wait before the next of *tries*, or raise *error* if there is none."""
        self._failures += 1
        passing = error.status in problems.PASSING
        pause = max(self._pause * random.uniform(0.5, 1.0), error.retry_after_seconds if passing else 0)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        is_last = self._failures >= tries or not self._may_repeat
        if is_last or not passing or pause >= self.left():
            raise error
        return pause


class Patience:
    """How long a follower of a stream puts up with a node that is away: for ever, if it was there before."""

    def __init__(self, tries: int) -> None:
        self._tries = max(tries, TRIES)
        self.renew()

    def renew(self) -> None:
        """Something came: start counting anew."""
        self._failures, self._pause = 0, FIRST_PAUSE

    def lose(self, error: FairwayError, met: bool) -> None:
        """The stream broke; raises *error* when it did so too often in a row and the node was never *met*."""
        self._failures += 1
        if self._failures >= self._tries and not met:
            raise error

    def pause(self) -> float:
        """Return the seconds to wait before connecting again."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1.0)
