"""Writes the news of each commit under the next number, without a gap.

Only a leader tells, so it counts in memory once it has read where its predecessor stopped; the primary key
stands behind it. A short text goes out together with the COMMIT: one round trip less in every small commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairway.core.plan import News
from fairway.stores.postgres.connection import Connection
from fairway.stores.postgres.sql import inlined

SHORT = 64_000

_pack = msgspec.msgpack.Encoder().encode


class Scribe:
    """One leader's count of what was told. After a commit that failed: `forget`."""

    def __init__(self) -> None:
        self._term = 0
        self._last: tuple[int, int] | None = None  # number, bytes written in all
        self._next: tuple[int, int] | None = None
        self.last_words: list[str] = []  # to be sent with the COMMIT

    def begin(self, term: int) -> None:
        """A new transaction begins."""
        if term != self._term:
            self._term, self._last = term, None  # somebody else may have led meanwhile
        self._next = None
        self.last_words.clear()

    @property
    def is_ready(self) -> bool:
        """Whether we know where we are."""
        return self._last is not None

    def draft(self, news: Sequence[News]) -> tuple[int, int, bytes]:
        """Return number, bytes in all and text of the next event; we must know where we are."""
        assert self._last is not None
        body = _pack(news)
        self._next = (self._last[0] + 1, self._last[1] + len(body))
        return *self._next, body

    async def write(
        self, connection: Connection, sql: Mapping[str, str], news: Sequence[News], now: int
    ) -> int | None:
        """Write the news as one row, now or with the COMMIT; return its number."""
        if not news:
            return None
        if self._last is None:
            [(number, written)] = await connection.fetch(sql["last_event"])
            self._last = (number, written)
        number, written, body = self.draft(news)
        if len(body) > SHORT:
            await connection.execute(sql["save_events"], number, now, written, body)
        else:
            self.last_words.append(inlined(sql["save_events"], number, now, written, body))
        return number

    def committed(self) -> None:
        """The transaction was committed."""
        self._last = self._next or self._last

    def forget(self) -> None:
        """Nobody knows what was committed."""
        self._last = self._next = None
