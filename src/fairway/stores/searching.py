"""Turns a query into SQL over the hot and the ended jobs, for every store that speaks SQL.

Every value is a parameter, written `?`; only names from the stores' own files reach the SQL text. What two
databases say differently is in their `Dialect`. A search may read for `MOST_SECONDS`, then it is stopped: a
question must not keep a reader from everybody else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fairway.core.globs import is_glob
from fairway.core.lifecycle import State
from fairway.errors import Busy
from fairway.query import Query
from fairway.store import Page
from fairway.stores.conditions import (
    ArgumentIs,
    Compared,
    Condition,
    Created,
    ErrorHas,
    HasCause,
    HasId,
    HasTag,
    HasText,
    InGroup,
    InStates,
    TextIs,
    read_query,
)
from fairway.stores.paging import MOST_COUNTED, Sort, check_limit, read_cursor, read_sort, write_cursor
from fairway.stores.rows import BLOCKED, CODES, WAITING, Row, stored_from

MOST_SECONDS = 10.0
#: What a row of a search has, in the order in which `stored_from` reads it.
COLUMNS = (
    "id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries, "
    "crashes, losses, generation, cancelling, incarnation, worker, started_at, ended_at, rules, "
    "unique_key, outcome, payload, extras, cause"
)

Clause = tuple[str, list[Any]]


class Table(NamedTuple):
    """Where jobs stand; `columns` reads it in the order of COLUMNS."""

    name: str
    columns: str
    ended: bool


class Dialect(ABC):
    """What databases say differently. Each text is SQL; only an argument that is missing is NULL."""

    tables: Sequence[Table]
    #: Text that sorts by its bytes.
    queue_key = "queue"
    #: The hot job runs.
    running: str
    #: A source of rows called `tag`, with the column `value`.
    tags: str
    #: The payload as text.
    payload: str
    #: The group a job belongs to.
    group: str

    @abstractmethod
    def glob(self, column: str, pattern: str) -> Clause:
        """Say that the whole column matches a pattern of core/globs.py."""

    @abstractmethod
    def lower(self, column: str) -> str:
        """Write ASCII letters small, and no others."""

    @abstractmethod
    def has(self, column: str) -> str:
        """Say that the column has the next value in it."""

    @abstractmethod
    def error_part(self, part: str) -> str:
        """Read a part of the error object; nothing for a succeeded job, whose outcome is a bare value."""

    @abstractmethod
    def argument(self, condition: ArgumentIs) -> Clause:
        """Read an argument as a person would type it; NULL if there is none."""


def stopped() -> Busy:
    """Return what the asker of a search that takes too long is told."""
    return Busy(f"the search was stopped after {MOST_SECONDS:g} s; narrow it down")


def page_clause(
    dialect: Dialect, query: Query, now: int, sort: str, limit: int, cursor: str | None
) -> Clause:
    """Find one page and one row more, which says that there is another; the sort key comes first in a row."""
    order, position = read_sort(sort), read_cursor(cursor, sort)
    conditions = read_query(query, now)
    way = "DESC" if order.descending else "ASC"
    last = f"ORDER BY sort_key {way}, id {way} LIMIT {check_limit(limit) + 1}"
    texts: list[str] = []
    values: list[Any] = []
    for table in dialect.tables:
        key = _key(dialect, table, order)
        where, more = _where(dialect, table, conditions, now)
        if position is not None:
            where += f" AND ({key}, id) {'<' if order.descending else '>'} (?, ?)"
            more += [position.key, position.id]
        # Each table is cut to a page by itself, so that it may be read in the order of an index.
        inner = f"SELECT {key} AS sort_key, {table.columns} FROM {table.name} WHERE {where} {last}"
        texts.append(f"SELECT * FROM ({inner}) AS part")
        values += more
    return f"{' UNION ALL '.join(texts)} {last}", values


def count_clause(dialect: Dialect, query: Query, now: int) -> Clause:
    """Count what matches, up to one more than the bound."""
    conditions = read_query(query, now)
    texts: list[str] = []
    values: list[Any] = []
    for table in dialect.tables:
        where, more = _where(dialect, table, conditions, now)
        texts.append(f"SELECT 1 FROM {table.name} WHERE {where}")
        values += more
    return f"SELECT count(*) FROM ({' UNION ALL '.join(texts)} LIMIT {MOST_COUNTED + 1}) AS found", values


def find_total(rows: Sequence[Row], limit: int, cursor: str | None) -> int | None:
    """Return how many there are if a first page shows all: what is rare is then looked for once only."""
    return len(rows) if cursor is None and len(rows) <= limit else None


def page_from(rows: Sequence[Row], sort: str, limit: int, total: int) -> Page:
    """Read the rows of `page_clause`."""
    jobs = [stored_from(row[1:]) for row in rows[:limit]]
    after = write_cursor(sort, rows[limit - 1][0], jobs[-1].id) if len(rows) > limit else None
    return Page(jobs, after, total if total <= MOST_COUNTED else None)


def _key(dialect: Dialect, table: Table, order: Sort) -> str:
    keys = {
        "created_at": "id",
        "queue": dialect.queue_key,
        "started_at": "coalesce(started_at, 0)",
        "ended_at": "ended_at" if table.ended else "0",
    }
    return keys.get(order.column, order.column)


def _where(dialect: Dialect, table: Table, conditions: Iterable[tuple[Condition, bool]], now: int) -> Clause:
    texts: list[str] = ["TRUE"]
    values: list[Any] = []
    for condition, negated in conditions:
        text, more = _clause(dialect, table, condition, now)
        texts.append(f"NOT ({text})" if negated else f"({text})")
        values += more
    return " AND ".join(texts), values


def _clause(dialect: Dialect, table: Table, condition: Condition, now: int) -> Clause:
    """Say one condition in SQL; never NULL, so that NOT means not."""
    match condition:
        case InStates(states):
            return _ended_state(states) if table.ended else _hot_state(dialect, states, now)
        case Compared(column, op, numbers):
            return _any([(f"{column} {op} ?", [number]) for number in numbers])
        case Created(op, micros):
            return f"created_at {op} ?", [micros]
        case TextIs(column, patterns):
            return _alike(dialect, f"coalesce({column}, '')", patterns)
        case InGroup(patterns):
            return _alike(dialect, f"coalesce({dialect.group}, '')", patterns)
        case HasCause(causes):
            return _cause(causes) if table.ended else ("FALSE", [])
        case HasTag(patterns):
            text, values = _alike(dialect, "tag.value", patterns)
            return f"EXISTS (SELECT 1 FROM {dialect.tags} WHERE {text})", values
        case ErrorHas(patterns):
            return _error(dialect, patterns)
        case ArgumentIs():
            return _argument(dialect, condition)
        case HasId(ids):
            return _any([("id = ?", [number]) for number in ids])
        case HasText(texts):
            return _text(dialect, texts)


def _ended_state(states: frozenset[State]) -> Clause:
    codes = [str(CODES[state]) for state in states if state in CODES]
    if not codes:
        return "FALSE", []
    # Said in the words of the partial index `ended_badly`, else a database would not use it.
    badly = "" if State.SUCCEEDED in states else " AND state <> 2"
    return f"state IN ({', '.join(codes)}){badly}", []


def _hot_state(dialect: Dialect, states: frozenset[State], now: int) -> Clause:
    ways: list[Clause] = []
    if State.RUNNING in states:
        ways.append((dialect.running, []))
    if State.BLOCKED in states:
        ways.append((f"state = {BLOCKED}", []))
    for state, op in ((State.SCHEDULED, ">"), (State.QUEUED, "<=")):
        if state in states:
            ways.append((f"state = {WAITING} AND run_at {op} ?", [now]))
    return _any(ways)


def _cause(causes: Sequence[str]) -> Clause:
    # Said in the words of the partial index `ended_by_cause`, else a database would not use it.
    return f"cause IS NOT NULL AND cause IN ({', '.join('?' * len(causes))})", [*causes]


def _any(ways: Sequence[Clause]) -> Clause:
    text = " OR ".join(text for text, _ in ways) or "FALSE"
    return text, [value for _, values in ways for value in values]


def _alike(dialect: Dialect, column: str, patterns: Iterable[str]) -> Clause:
    """The column is one of *patterns*, or matches it."""
    return _any([dialect.glob(column, one) if is_glob(one) else (f"{column} = ?", [one]) for one in patterns])


def _error(dialect: Dialect, patterns: Sequence[str]) -> Clause:
    columns = [dialect.error_part(part) for part in ("reason", "type", "message")]
    ways = [
        dialect.glob(column, one) if is_glob(one) else (dialect.has(column), [one])
        for column in columns
        for one in patterns
    ]
    text, values = _any(ways)
    return f"state <> 2 AND outcome IS NOT NULL AND ({text})", values


def _argument(dialect: Dialect, condition: ArgumentIs) -> Clause:
    column, path = dialect.argument(condition)
    ways: list[Clause] = []
    for pattern in condition.patterns:
        text, values = _alike(dialect, column, [pattern])
        ways.append((f"coalesce({text}, FALSE)", path + values))
    return _any(ways)


def _text(dialect: Dialect, texts: Sequence[str]) -> Clause:
    columns = ["task", "queue", "coalesce(flow, '')", dialect.payload]
    parts = [*(dialect.lower(column) for column in columns), dialect.error_part("message")]
    return _any([(dialect.has(part), [text]) for text in texts for part in parts])
