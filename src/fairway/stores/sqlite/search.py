"""Searches in SQLite: its words for what stores/searching.py asks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from fairway.query import Query
from fairway.store import Page
from fairway.stores.conditions import ArgumentIs
from fairway.stores.searching import (
    COLUMNS,
    MOST_SECONDS,
    Clause,
    Dialect,
    Table,
    count_clause,
    find_total,
    page_clause,
    page_from,
    stopped,
)
from fairway.stores.sqlite.connection import fetch


def search(
    connection: apsw.Connection, query: Query, now: int, sort: str, limit: int, cursor: str | None
) -> Page:
    """Return one page and, up to a bound, how many there are in all."""
    page = page_clause(_dialect, query, now, sort, limit, cursor)
    with _bounded(connection):
        rows = fetch(connection, *page)
        total = find_total(rows, limit, cursor)
        if total is None:
            total = _count(connection, query, now)
    return page_from(rows, sort, limit, total)


def count(connection: apsw.Connection, query: Query, now: int) -> int:
    """Count what matches, up to one more than the bound."""
    with _bounded(connection):
        return _count(connection, query, now)


class SqliteDialect(Dialect):
    """SQLite's words."""

    tables = (
        Table("hot", COLUMNS.replace("ended_at", "NULL").replace("cause", "NULL"), ended=False),
        Table("ended", COLUMNS.replace("cancelling", "0"), ended=True),
    )
    running = "id IN (SELECT id FROM live)"
    tags = "json_each(coalesce(tags, '[]')) AS tag"
    payload = "CAST(payload AS TEXT)"
    group = "json_extract(extras, '$.group')"

    def glob(self, column: str, pattern: str) -> Clause:
        # To SQLite a bracket opens a class of characters.
        return f"{column} GLOB ?", [pattern.replace("[", "[[]")]

    def lower(self, column: str) -> str:
        return f"lower({column})"

    def has(self, column: str) -> str:
        return f"instr({column}, ?) > 0"

    def error_part(self, part: str) -> str:
        body = "CAST(outcome AS TEXT)"
        return (
            f"CASE WHEN state <> 2 AND json_valid({body}) "
            f"THEN lower(coalesce(json_extract({body}, '$.{part}'), '')) ELSE '' END"
        )

    def argument(self, condition: ArgumentIs) -> Clause:
        if condition.position is not None:
            path = f"$.args[{condition.position}]"
        else:
            path = f'$.kwargs."{condition.name}"'
        body = self.payload
        # JSON's true, false and null have no text of their own in SQL.
        column = (
            f"CASE WHEN NOT json_valid({body}) THEN NULL "
            f"WHEN json_type({body}, ?) IN ('true', 'false', 'null') THEN json_type({body}, ?) "
            f"ELSE CAST(json_extract({body}, ?) AS TEXT) END"
        )
        return column, [path, path, path]


_dialect = SqliteDialect()


def _count(connection: apsw.Connection, query: Query, now: int) -> int:
    return int(fetch(connection, *count_clause(_dialect, query, now))[0][0])


@contextmanager
def _bounded(connection: apsw.Connection) -> Iterator[None]:
    over = time.monotonic() + MOST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > over, 100_000)
    try:
        yield
    except apsw.InterruptError:
        raise stopped() from None
    finally:
        connection.set_progress_handler(None)
