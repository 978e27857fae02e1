"""Stacks that a child writes although its interpreter does not answer: the agent's end of a pipe.

What is asked for and what a blocked loop tells come through a pipe each: `faulthandler` writes them from two
threads, piece by piece, and in one pipe they would be mixed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from fairway.adapters.python.stacks import trim_dump

READ_BYTES = 64 * 1024
MOST_DUMP_BYTES = 256 * 1024
#: A dump of stacks has ended when nothing more came for so long.
QUIET_SECONDS = 0.1
LOOK_SECONDS = 1.0


class Dump:
    """A pipe into which faulthandler writes."""

    def __init__(self, fd: int, unasked: Callable[[str], None] | None = None) -> None:
        self._fd, self._unasked = fd, unasked
        self._loop = asyncio.get_running_loop()
        self._text = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._answers: list[asyncio.Future[str]] = []
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._on_readable)

    async def next(self) -> str:
        """Return the next dump; "" if none comes."""
        answer: asyncio.Future[str] = self._loop.create_future()
        self._answers.append(answer)
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return await answer
        except TimeoutError:
            return ""
        finally:
            with contextlib.suppress(ValueError):
                self._answers.remove(answer)

    def _on_readable(self) -> None:
        try:
            chunk = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._loop.remove_reader(self._fd)
            return
        self._text += chunk[: MOST_DUMP_BYTES - len(self._text)]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(QUIET_SECONDS, self._complete)

    def _complete(self) -> None:
        if b"\n  File" not in self._text:  # no more than a heading yet: its writer was held up
            return
        text, self._text = self._text.decode(errors="replace"), bytearray()
        answers, self._answers = self._answers, []
        for answer in answers:
            if not answer.done():
                answer.set_result(trim_dump(text))
        if self._unasked is not None:
            self._unasked(trim_dump(text))

    def close(self) -> None:
        """Stop reading."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            if self._timer is not None:
                self._timer.cancel()
            os.close(self._fd)
            self._fd = -1
