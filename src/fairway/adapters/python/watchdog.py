"""A watch over an async child's loop: where it is when it has not turned for a second is told to the agent.

The watch is faulthandler's: a thread in C, which needs no interpreter and so also sees code that holds it.
While anything runs the loop puts the watch off, four times a second; when it fails to, the stacks go to the
agent by a pipe of their own, and from there into the logs of the attempts that wait for the loop.
"""

from __future__ import annotations

import asyncio
import faulthandler
from collections.abc import Collection

TURN_SECONDS = 0.25
BLOCKED_SECONDS = 1.0


class Watchdog:
    """Owned by a loop."""

    def __init__(self, running: Collection[object], fd: int) -> None:
        self._running, self._fd = running, fd
        self._loop = asyncio.get_running_loop()
        self.is_watching = False

    def begin(self) -> None:
        """Something runs on the loop now."""
        self.is_watching = True
        self._put_off()

    def _put_off(self) -> None:
        faulthandler.dump_traceback_later(BLOCKED_SECONDS, file=self._fd)
        self._loop.call_later(TURN_SECONDS, self._turn)

    def _turn(self) -> None:
        if self._running:
            self._put_off()
        else:
            faulthandler.cancel_dump_traceback_later()
            self.is_watching = False
