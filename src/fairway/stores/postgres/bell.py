"""The doorbell: LISTEN on a connection of its own, with a poll behind it, so that a lost ring costs a second.

Through PgBouncer nothing can be heard; then there is only the poll, twice as often. A leader that is rung at
again and again stops sleeping: it looks by itself many times a second, and nobody rings any more.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from fairway.errors import FairwayError
from fairway.stores.postgres.connection import TROUBLE, connect
from fairway.stores.postgres.sql import channel_of as channel_of

log = logging.getLogger("fairway.postgres")

POLL_SECONDS = 1.0
DEAF_SECONDS = 0.5
AWAKE_SECONDS = 0.02
#: Rung at so many times a second, the leader stays awake: then the looks cost less than the rings.
OFTEN = 200
RETRY_SECONDS = 1.0


class Bell:
    """Rung by notifications and by ourselves."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn, self._channel = dsn, channel_of(schema)
        self._rung = asyncio.Event()
        self._rings = 0
        self._looked_at = self._judged_at = 0.0
        self._hears = False
        self._listening: asyncio.Task[None] | None = None
        self.asleep = True

    def listen(self) -> None:
        """Answer the doorbell from now on."""
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    def stop(self) -> None:
        """Leave it to somebody else."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        self._hears = False

    def ring(self) -> None:
        """Wake whoever waits in this process."""
        self._rings += 1
        self._rung.set()

    def judge(self) -> bool:
        """Once a beat: say whether the leader shall sleep, by how often it was rung at."""
        now = asyncio.get_running_loop().time()
        seconds, self._judged_at = max(now - self._judged_at, 0.001), now
        rings, self._rings = self._rings, 0
        self.asleep = rings < OFTEN * seconds
        return self.asleep

    async def wait(self, timeout: float) -> bool:
        """Wait until it rings, or until it is time to look; False if neither came within *timeout*."""
        loop = asyncio.get_running_loop()
        period = AWAKE_SECONDS if not self.asleep else POLL_SECONDS if self._hears else DEAF_SECONDS
        left = self._looked_at + period - loop.time()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(timeout, left))):
                await self._rung.wait()
        if not self._rung.is_set() and loop.time() < self._looked_at + period - 0.001:
            return False
        self._rung.clear()
        self._looked_at = loop.time()
        return True

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (FairwayError, *TROUBLE) as error:
                log.info("nobody hears the doorbell just now: %s", error)
            self._hears = False
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen_once(self) -> None:
        connection = await connect(self._dsn)
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(self._channel, self._heard)
            self._hears = await is_direct(connection)
            self._rung.set()  # what came before we listened
            await ended.wait()
        finally:
            with suppress(Exception):
                await connection.close(timeout=1)

    def _heard(self, *_: Any) -> None:
        self.ring()


async def is_direct(connection: Any) -> bool:
    """Say whether there is no pooler in between: one gives a session a number of its own."""
    return bool(await connection.fetchval("SELECT pg_backend_pid()") == connection.get_server_pid())
