"""Output of running jobs on its way from the workers to the store. It does not go through the core.

Best effort and bounded: when the store is slower than the jobs talk, the newest pieces are dropped and
counted; a job never waits for its log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from fairway.errors import WorldError
from fairway.store import LogLine, Store

log = logging.getLogger("fairway.logbook")

MOST_CHARACTERS = 16 * 1024 * 1024


class Logbook:
    """Gathers pieces of output and writes them in batches. Owned by an engine."""

    def __init__(self, store: Store, wrote: Callable[[set[int]], None] = lambda jobs: None) -> None:
        """*wrote* is told which jobs have something new in the store."""
        self._store, self._wrote = store, wrote
        self._writing = 0
        self._rested = asyncio.Event()
        self._lines: list[LogLine] = []
        self._characters = 0
        self._filled = asyncio.Event()
        self.dropped = 0

    def keep(self, lines: list[LogLine]) -> None:
        """Take pieces in, as far as there is room."""
        for number, line in enumerate(lines):
            if self._characters + len(line.text) > MOST_CHARACTERS:
                self.dropped += len(lines) - number
                break
            self._characters += len(line.text)
            self._lines.append(line)
        self._filled.set()

    async def write_forever(self) -> None:
        """Write what has gathered, again and again."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            await self.flush()

    async def settle(self, timeout: float) -> None:
        """Wait until all that has come so far is written, or the time is over."""
        try:
            async with asyncio.timeout(timeout):
                while self._lines or self._writing:
                    self._rested.clear()
                    await self._rested.wait()
        except TimeoutError:
            return

    async def flush(self) -> None:
        """Write what has gathered."""
        lines, self._lines, self._characters = self._lines, [], 0
        if not lines:
            return
        self._writing += 1
        try:
            await self._store.add_log(lines)
            self._wrote({line.job for line in lines})
        except WorldError as error:
            self.dropped += len(lines)
            log.warning(
                "output of running jobs was not kept", extra={"pieces": len(lines), "why": str(error)}
            )
        finally:
            self._writing -= 1
            self._rested.set()
