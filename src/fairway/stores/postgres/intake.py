"""Which arrivals the leader has not taken in: found by their transactions, since ids say nothing of commits.

The cursor is the snapshot of the last read: what it did not show has come since. Of what came the leader may
have been told as it rang. A job is taken in once all the same: its arrival goes with the commit that takes it
in, before the next read, and what is told of a transaction that a read has shown, or that was told of before,
counts for nothing. At least every `ANEW_SECONDS` all of it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import itemgetter

from fairway.store import Taken
from fairway.stores.postgres import at_once
from fairway.stores.postgres.bell import Bell
from fairway.stores.postgres.words import Word
from fairway.stores.rows import Row, taken_from

ANEW_SECONDS = 5.0

Look = Callable[..., Awaitable[list[Row]]]


class Intake:
    """What one leader has seen of the arrivals."""

    def __init__(self, look: Look, bell: Bell) -> None:
        self._look, self._bell = look, bell
        self._cursor: str | None = None
        self._end, self._running = 0, frozenset[int]()  # of it: transactions from here on, and those before
        self._named: set[int] = set()  # transactions that were told of since
        self._cut = False  # the last read did not show all there is
        self._looked_at = 0.0
        self._expects_few = True  # as it was the last time

    async def take(self, after: int, most: int, by_words: bool) -> list[Taken]:
        """Return what came; see `Store.take_arrivals`.

        What was taken is deleted by the commit that follows, so a read that was cut short by *most* is
        simply made again from the same snapshot.
        """
        looked = asyncio.get_running_loop().time()
        # Now and then all of it is read: after a fail-over numbers of transactions may come a second time.
        anew = after == 0 or self._cursor is None or looked > self._looked_at + ANEW_SECONDS
        words = self._bell.take_words()
        if words and by_words and not anew and not self._cut:
            new = {word.transaction: word.taken for word in words if self._is_new(word)}
            if new:
                self._named.update(new)
                return list(new.values())
        if anew:
            rows = await self._look("first_arrivals", most)
            self._looked_at = looked
        else:
            if self._expects_few and most > at_once.FEW**2:
                few = await self._look("few_arrivals", self._cursor, at_once.FEW + 1)
                if at_once.are_few(few):
                    if few:
                        self._seen(few[0][0])
                    ordered = sorted((row for row in few if row[2] is not None), key=itemgetter(1, 14))
                    return taken_from(row[1:14] for row in ordered)
            rows = await self._look("next_arrivals", most, self._cursor)
        self._expects_few = len(rows) <= at_once.FEW
        self._cut = len(rows) >= most
        if not self._cut:
            self._seen(rows[0][0])
        elif anew:
            self._cursor = None
        return taken_from(row[1:] for row in rows if row[2] is not None)

    def _seen(self, snapshot: str) -> None:
        self._cursor = snapshot
        _, end, running = snapshot.split(":")
        self._end, self._running = int(end), frozenset(map(int, running.split(",") if running else ()))
        self._named.clear()

    def _is_new(self, word: Word) -> bool:
        """Say whether neither a read nor a word has told of it."""
        transaction = word.transaction
        seen = transaction < self._end and transaction not in self._running
        return not seen and transaction not in self._named
