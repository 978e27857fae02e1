"""Answers that somebody waits for: each is given in time, or given up.

A timer for each of them would cost a submit more than the core does: one looks after all, once a second
while there are any.
"""

from __future__ import annotations

import asyncio
from typing import Any

LOOK_SECONDS = 1.0


class Promises:
    """The answers that an engine owes. Touched from one loop."""

    def __init__(self) -> None:
        self._open: list[tuple[float, asyncio.Future[Any]]] = []  # with when it is given up
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many answers are still waited for."""
        return sum(not answer.done() for _, answer in self._open)

    def make(self, seconds: float = float("inf")) -> asyncio.Future[Any]:
        """Make an answer; TimeoutError if nobody gave it within so long, or up to a second later."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._open.append((loop.time() + seconds, answer))
        if self._timer is None:
            self._timer = loop.call_later(LOOK_SECONDS, self._look)
        return answer

    def break_all(self, error: BaseException) -> None:
        """Give every answer up."""
        for _, answer in self._open:
            give_up(answer, error)
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Give up what is late, and forget what was given."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for until, answer in self._open:
            if until <= now:
                give_up(answer, TimeoutError("no answer was given in time"))
        self._open = [one for one in self._open if not one[1].done()]
        self._timer = loop.call_later(LOOK_SECONDS, self._look) if self._open else None


def give_up(answer: asyncio.Future[Any], error: BaseException) -> None:
    """Answer with an error, unless it was answered."""
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # whoever asked may be gone; that is no error of ours
