"""Searches in PostgreSQL: its words for what stores/searching.py asks.

Arguments are read as `json`, which keeps a value as it was written, where `jsonb` would add spaces and write
numbers anew. Reading a part of it fails on what PostgreSQL's text cannot hold, and there is no way to try:
NUL is replaced beforehand, and what still could not be read counts as having no parts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from fairway.query import Query
from fairway.store import Page
from fairway.stores.conditions import ArgumentIs
from fairway.stores.postgres.sql import check_schema
from fairway.stores.rows import Row
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

#: From this version on, PostgreSQL can be asked whether it would take a text as JSON.
CAN_VALIDATE = 16


async def search(
    connection: asyncpg.Connection,
    schema: str,
    query: Query,
    now: int,
    sort: str,
    limit: int,
    cursor: str | None,
) -> Page:
    """Return one page and, up to a bound, how many there are in all. Called inside a transaction."""
    dialect = _dialect_of(connection, schema)
    page = page_clause(dialect, query, now, sort, limit, cursor)
    counting = count_clause(dialect, query, now)
    async with _bounded() as over:
        rows = await _fetch(connection, *page, over)
        total = find_total(rows, limit, cursor)
        if total is None:
            [[total]] = await _fetch(connection, *counting, over)
    return page_from(rows, sort, limit, total)


async def count(connection: asyncpg.Connection, schema: str, query: Query, now: int) -> int:
    """Count what matches, up to one more than the bound. Called inside a transaction."""
    counting = count_clause(_dialect_of(connection, schema), query, now)
    async with _bounded() as over:
        [[total]] = await _fetch(connection, *counting, over)
    return int(total)


class PostgresDialect(Dialect):
    """PostgreSQL's words, for the tables of one schema."""

    queue_key = 'queue COLLATE "C"'
    tags = "json_array_elements_text(coalesce(tags, '[]')::json) AS tag(value)"
    payload = "convert_from(payload, 'UTF8')"
    group = "(extras::json ->> 'group')"

    def __init__(self, schema: str, version: int) -> None:
        self.tables = (
            Table(f"{check_schema(schema)}.job", COLUMNS.replace("cause", "NULL::text"), ended=False),
            Table(f"{schema}.ended", COLUMNS, ended=True),
        )
        # Not by the view's state, which would look at the whole backlog for the few that run.
        self.running = f"(state = 1 AND id = ANY(ARRAY(SELECT unnest(jobs) FROM {schema}.begun)))"
        self._can_validate = version >= CAN_VALIDATE

    def glob(self, column: str, pattern: str) -> Clause:
        # LIKE gives up when a star reaches the end of the text, so no pattern makes it try everything.
        pattern = re.sub(r"([\\%_])", r"\\\1", pattern).replace("*", "%").replace("?", "_")
        return f"{column} LIKE ?", [pattern]

    def lower(self, column: str) -> str:
        return f'lower({column} COLLATE "C")'

    def has(self, column: str) -> str:
        return f"strpos({column}, ?) > 0"

    def error_part(self, part: str) -> str:
        body = _without_nul("convert_from(outcome, 'UTF8')")
        text = self.lower(f"coalesce({body}::json ->> '{part}', '')")
        return f"CASE WHEN state <> 2 AND {self._readable(body)} THEN {text} ELSE '' END"

    def argument(self, condition: ArgumentIs) -> Clause:
        body = _without_nul(self.payload)
        by_name = condition.position is None
        value = condition.name if by_name else condition.position
        arguments = f"({body}::json -> '{'kwargs' if by_name else 'args'}')"
        key = "?" if by_name else "?::integer"
        # JSON's null has no text of its own in SQL, but as JSON it is not NULL as a missing value is.
        text = f"coalesce({arguments} ->> {key}, ({arguments} -> {key})::text)"
        return f"CASE WHEN {self._readable(body)} THEN {text} END", [value, value]

    def _readable(self, body: str) -> str:
        if self._can_validate:
            return f"pg_input_is_valid({body}, 'jsonb')"
        # All we write is JSON; only half of a surrogate pair could hide in it.
        return rf"({body} LIKE '{{%}}' AND {body} !~ '\\u[dD][89a-fA-F]')"


def _without_nul(body: str) -> str:
    """Replace an escaped NUL by another escape, so that JSON stays JSON."""
    return rf"replace({body}, '\u0000', '\ufffd')"


def _dialect_of(connection: asyncpg.Connection, schema: str) -> PostgresDialect:
    return PostgresDialect(schema, connection.get_server_version().major)


async def _fetch(connection: asyncpg.Connection, text: str, values: Sequence[Any], over: float) -> list[Row]:
    left = max(over - asyncio.get_running_loop().time(), 0.001)
    return [tuple(row) for row in await connection.fetch(*_numbered(text, values), timeout=left)]


def _numbered(text: str, values: Sequence[Any]) -> list[Any]:
    """Write `?` as `$1::text` and so on; equal values share a number, as there can be 32,767 at most."""
    numbers: dict[Any, int] = {}
    kinds = [("bigint" if isinstance(value, int) else "text", value) for value in values]
    names = iter([f"${numbers.setdefault(one, len(numbers) + 1)}::{one[0]}" for one in kinds])
    return [re.sub(r"\?", lambda _: next(names), text), *(value for _, value in numbers)]


@asynccontextmanager
async def _bounded() -> AsyncIterator[float]:
    """Give the time at which the search is over; the server's own limit may come first."""
    try:
        yield asyncio.get_running_loop().time() + MOST_SECONDS
    except (asyncpg.QueryCanceledError, TimeoutError):
        raise stopped() from None
