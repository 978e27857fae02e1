"""The roll of what was begun together, for the next leader: a row for each group while one of it is live.

A row for each live job would cost as much as its begin and its end; an index on the state would be touched
by every begin. So the leader keeps in memory which group a live job belongs to, and takes a group's row away
with the last of them. What is left over when a leader dies is tidied up by the first commit of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairway.stores.postgres.connection import Connection
from fairway.stores.postgres.sql import inlined

Sql = Mapping[str, str]


class Roll:
    """One leader's groups of live jobs. Changes count once they are committed."""

    def __init__(self) -> None:
        self._term = 0
        self._group: dict[int, int] | None = None  # live job → its group; None before the roll was called
        self._left: dict[int, int] = {}  # group → how many of it are live
        self._number = 0
        self._ended: list[int] = []
        self._begun: list[int] = []

    def begin(self, term: int) -> None:
        """A new transaction begins."""
        if term != self._term:
            self._term, self._group = term, None  # somebody else may have led meanwhile
        self._ended, self._begun = [], []

    @property
    def is_ready(self) -> bool:
        """Whether the roll was called in this term."""
        return self._group is not None

    def draft(self, jobs: Sequence[int]) -> int | None:
        """Return the number of a new group, to be written by the caller; None if there is nothing in it."""
        self._begun = list(jobs)
        return self._number + 1 if jobs else None

    async def write(
        self,
        connection: Connection,
        sql: Sql,
        ended: Iterable[int],
        begun: Sequence[int],
        last_words: list[str],
    ) -> None:
        """Note what ended and what began, inside the transaction that does it or with its COMMIT."""
        if self._group is None:
            await self._call(connection, sql)
        self._ended = list(ended)
        over = self._emptied()
        if over:
            last_words.append(inlined(sql["delete_begun"], over))
        number = self.draft(begun)
        if number is not None:
            last_words.append(inlined(sql["save_begun"], number, self._begun))

    def committed(self) -> None:
        """The transaction was committed."""
        if self._group is None:
            return
        for job in self._ended:
            group = self._group.pop(job, None)
            if group is not None:
                self._left[group] -= 1
                if not self._left[group]:
                    del self._left[group]
        if self._begun:
            self._number += 1
            self._group.update(dict.fromkeys(self._begun, self._number))
            self._left[self._number] = len(self._begun)
        self._ended, self._begun = [], []

    def forget(self) -> None:
        """Nobody knows what was committed: the roll is called again."""
        self._group = None

    def _emptied(self) -> list[int]:
        """Return the groups of which the last live jobs end."""
        assert self._group is not None
        going: dict[int, int] = {}
        for job in self._ended:
            group = self._group.get(job)
            if group is not None:
                going[group] = going.get(group, 0) + 1
        return [group for group, count in going.items() if count == self._left[group]]

    async def _call(self, connection: Connection, sql: Sql) -> None:
        """See which of those on the roll still run, and write the roll anew."""
        rows = await connection.fetch(sql["read_begun"])
        named = [job for _, jobs in rows for job in jobs]
        running = [row[0] for row in await connection.fetch(sql["still_running"], named)] if named else []
        self._number = rows[-1][0] if rows else 0
        self._group, self._left = {}, {}
        if rows:
            await connection.execute(sql["delete_begun"], [number for number, _ in rows])
        if running:
            self._number += 1
            await connection.execute(sql["save_begun"], self._number, running)
            self._group = dict.fromkeys(running, self._number)
            self._left = {self._number: len(running)}
