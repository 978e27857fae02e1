"""The doorbell: LISTEN, with a poll behind it, so that a lost ring costs a second or, among others, a few.

It is heard on the connection by which the leader then looks who came: the server's process for it is awake
already, which saves a twentieth of what an idle cluster takes to begin a job. Each look sees to it that
somebody listens. Through PgBouncer nothing can be heard; then there is only the poll, twice as often. A
leader that is rung at again and again stops sleeping: it looks by itself many times a second, and nobody
rings.

Who rings for one plain job says so on a channel of this leader's own (`words.py`). Transactions of users,
bulk calls and older clients just ring.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any

from fairway.stores.postgres.connection import Connection
from fairway.stores.postgres.sql import channel_of
from fairway.stores.postgres.words import Word, word_from

log = logging.getLogger("fairway.postgres")

POLL_SECONDS = 1.0
DEAF_SECONDS = 0.5
AWAKE_SECONDS = 0.02
#: Rung at so many times a second, the leader stays awake: then the looks cost less than the rings.
OFTEN = 200
#: So many are remembered until the leader takes them in; if there are more, it looks.
MOST_WORDS = 100


class Bell:
    """Rung by notifications and by ourselves."""

    def __init__(self, schema: str) -> None:
        self._channel = channel_of(schema)
        self.own_channel: str | None = None  # of this reign: nobody else can guess it
        self._words: list[Word] = []
        self._wordless = False  # it rang, and nobody said why
        self._dozing = False  # whether it is known yet that we sleep cannot be said
        self._rung = asyncio.Event()
        self._rings = 0
        self._looked_at = self._judged_at = 0.0
        self._ears: set[Connection] = set()
        self._deaf = False  # and said so
        self._answer: Callable[[], None] | None = None
        self.asleep = True

    @property
    def hears(self) -> bool:
        """Whether somebody listens now."""
        return bool(self._ears)

    def draw_channel(self) -> str:
        """Draw the name of a channel of our own, for one reign: from now on new connections listen there."""
        self.own_channel = f"fairway_{secrets.token_hex(16)}"
        return self.own_channel

    async def listen_on(self, connection: Connection) -> None:
        """Hear what rings on a new connection, as long as that lives."""
        connection.add_termination_listener(self._ears.discard)
        await connection.add_listener(self._channel, self._heard)
        if self.own_channel is not None:
            await connection.add_listener(self.own_channel, self._was_told)
        self._ears.add(connection)
        self._deaf = False
        self._rung.set()  # what came before we listened

    def complain(self, error: Exception) -> None:
        """Nothing came from where we listen: say so, once until it is mended; the poll goes on."""
        if not self._deaf:
            log.info("nobody hears the doorbell just now", extra={"why": str(error) or "no answer"})
        self._deaf = True

    def ring(self, word: Word | None = None) -> None:
        """Call or wake whoever waits in this process."""
        self._rings += 1
        if word is None or len(self._words) >= MOST_WORDS:
            self._wordless = True
        else:
            self._words.append(word)
        if self._answer is not None:
            self._looked_at = asyncio.get_running_loop().time()
            self._answer()
        else:
            self._rung.set()

    def take_words(self) -> list[Word]:
        """Return what was said since the last time; nothing if it also rang for other reasons."""
        words, wordless = self._words, self._wordless
        self._words, self._wordless = [], False
        return [] if wordless or self._dozing else words

    def judge(self) -> bool:
        """Once a beat: say whether the leader shall sleep, by how often it was rung at."""
        now = asyncio.get_running_loop().time()
        seconds, self._judged_at = max(now - self._judged_at, 0.001), now
        rings, self._rings = self._rings, 0
        awake, self.asleep = not self.asleep, rings < OFTEN * seconds
        self._dozing |= awake and self.asleep
        if not self.asleep:  # nobody rings from now on, and whoever waits does so for as long as if they did
            self._rung.set()
        return self.asleep

    def beaten(self) -> None:
        """The beat is written that says what was judged.

        Who came while it said that we are awake did not ring, so who is named next may not be the first.
        """
        self._wordless |= self._dozing
        self._dozing = False

    async def wait(self, timeout: float, answer: Callable[[], None] | None = None) -> bool:
        """Wait until it rings, or until it is time to look; False if neither came within *timeout*.

        With *answer* that is called as it rings, and the wait goes on: one task less that must wake first.
        """
        loop = asyncio.get_running_loop()
        period = AWAKE_SECONDS if not self.asleep else POLL_SECONDS if self._ears else DEAF_SECONDS
        left = self._looked_at + period - loop.time()
        self._answer = answer
        try:
            async with asyncio.timeout(max(0.0, min(timeout, left))):
                await self._rung.wait()
        except TimeoutError:
            pass
        finally:
            self._answer = None
        if not self._rung.is_set() and loop.time() < self._looked_at + period - 0.001:
            return False
        self._rung.clear()
        self._looked_at = loop.time()
        self._wordless = True
        return True

    def _heard(self, *_: Any) -> None:
        self.ring()

    def _was_told(self, connection: Connection, pid: int, channel: str, said: str) -> None:
        self.ring(word_from(said))


async def is_direct(connection: Any) -> bool:
    """Say whether there is no pooler in between: one gives a session a number of its own."""
    return bool(await connection.fetchval("SELECT pg_backend_pid()") == connection.get_server_pid())
