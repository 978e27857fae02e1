"""Sending again: which calls may be repeated, how often, and after which pause."""

from __future__ import annotations

import random
import time

import msgspec

from fairway.client import problems
from fairway.errors import FairwayError, WorldError

TRIES = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


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

    def __init__(self, request: Request, tries: int, timeout: float) -> None:
        self._tries_left = tries if request.may_repeat else 1
        self._deadline = time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def left(self) -> float:
        """Return the seconds left of the call's timeout."""
        return max(self._deadline - time.monotonic(), 0.001)

    def pause_after(self, error: WorldError) -> float:
        """Return the seconds to wait before the next try, or raise *error* if there is none."""
        self._tries_left -= 1
        passing = error.status in problems.PASSING
        pause = max(self._pause * random.uniform(0.5, 1.0), error.retry_after_seconds if passing else 0)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if self._tries_left < 1 or not passing or pause >= self.left():
            raise error
        return pause


class Patience:
    """How long a follower of a stream puts up with a node that is away."""

    def __init__(self, tries: int) -> None:
        self._tries = max(tries, TRIES)
        self.renew()

    def renew(self) -> None:
        """Something came: start counting anew."""
        self._failures, self._pause = 0, FIRST_PAUSE

    def lose(self, error: FairwayError) -> None:
        """The stream broke; raises *error* when it did so too often in a row."""
        self._failures += 1
        if self._failures >= self._tries:
            raise error

    def pause(self) -> float:
        """Return the seconds to wait before connecting again."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1.0)
