"""Turns a query into SQL over the hot and the ended jobs.

Every value is a parameter; only names from this file reach the SQL text. A search may read for
`MOST_SECONDS`, then it is stopped: a question must not keep a reader from everybody else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from fairway.core.globs import is_glob
from fairway.core.lifecycle import State
from fairway.errors import Busy
from fairway.query import Query
from fairway.store import Page, StoredJob
from fairway.stores.conditions import (
    ArgumentIs,
    Compared,
    Condition,
    Created,
    ErrorHas,
    HasId,
    HasTag,
    HasText,
    InStates,
    TextIs,
    read_query,
)
from fairway.stores.paging import MOST_COUNTED, Position, check_limit, read_cursor, read_sort, write_cursor
from fairway.stores.sqlite.connection import fetch
from fairway.stores.sqlite.rows import CODES, RUNNING, WAITING, stored_from

MOST_SECONDS = 10.0

_columns = (
    "id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries, "
    "crashes, losses, generation, {cancelling}, incarnation, worker, started_at, {ended_at}, rules, "
    "unique_key, outcome, payload"
)
_keys = {
    "created_at": "id",
    "run_at": "run_at",
    "priority": "priority",
    "queue": "queue",
    "started_at": "coalesce(started_at, 0)",
    "ended_at": "ended_at",
}
_tables = {
    "job": _columns.format(cancelling="cancelling", ended_at="NULL"),
    "ended": _columns.format(cancelling="0", ended_at="ended_at"),
}
_codes = {State(name): code for name, code in CODES.items()} | {State.RUNNING: RUNNING}

Clause = tuple[str, list[Any]]


def search(
    connection: apsw.Connection, query: Query, now: int, sort: str, limit: int, cursor: str | None
) -> Page:
    """Return one page and, up to a bound, how many there are in all."""
    order, position = read_sort(sort), read_cursor(cursor, sort)
    conditions = read_query(query, now)
    way = "DESC" if order.descending else "ASC"
    branches = [
        _branch(table, _keys[order.column], order.descending, conditions, position, now) for table in _tables
    ]
    text = " UNION ALL ".join(sql for sql, _ in branches)
    values = [value for _, values in branches for value in values]
    with _bounded(connection):
        sql = f"{text} ORDER BY sort_key {way}, id {way} LIMIT {check_limit(limit) + 1}"
        rows = fetch(connection, sql, values)
        total = _count(connection, conditions, now)
    return _page(rows, sort, limit, total)


def count(connection: apsw.Connection, query: Query, now: int) -> int:
    """Count what matches, up to one more than the bound."""
    with _bounded(connection):
        return _count(connection, read_query(query, now), now)


def _page(rows: list[tuple[Any, ...]], sort: str, limit: int, total: int) -> Page:
    jobs: list[StoredJob] = [stored_from(row[1:]) for row in rows[:limit]]
    more = len(rows) > limit
    after = write_cursor(sort, rows[limit - 1][0], jobs[-1].id) if more else None
    return Page(jobs, after, total if total <= MOST_COUNTED else None)


def _count(connection: apsw.Connection, conditions: Sequence[tuple[Condition, bool]], now: int) -> int:
    wheres = [(table, *_where(table, conditions, now)) for table in _tables]
    text = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {sql}" for table, sql, _ in wheres)
    values = [value for _, _, values in wheres for value in values]
    found = fetch(connection, f"SELECT count(*) FROM ({text} LIMIT {MOST_COUNTED + 1})", values)
    return int(found[0][0])


def _branch(
    table: str,
    key: str,
    descending: bool,
    conditions: Sequence[tuple[Condition, bool]],
    position: Position | None,
    now: int,
) -> Clause:
    where, values = _where(table, conditions, now)
    key = "0" if (table, key) == ("job", "ended_at") else key
    if position is not None:
        where += f" AND ({key}, id) {'<' if descending else '>'} (?, ?)"
        values += [position.key, position.id]
    return f"SELECT {key} AS sort_key, {_tables[table]} FROM {table} WHERE {where}", values


def _where(table: str, conditions: Sequence[tuple[Condition, bool]], now: int) -> Clause:
    texts, values = ["1"], []
    for condition, negated in conditions:
        text, more = _clause(table, condition, now)
        texts.append(f"NOT ({text})" if negated else f"({text})")
        values += more
    return " AND ".join(texts), values


def _clause(table: str, condition: Condition, now: int) -> Clause:
    """Say one condition in SQL; never NULL, so that NOT means not."""
    match condition:
        case InStates(states):
            return _state(table, states, now)
        case Compared(column, op, numbers):
            return _either(f"{column} {op} ?", numbers)
        case Created(op, micros):
            return f"created_at {op} ?", [micros]
        case TextIs(column, patterns):
            return _alike(f"coalesce({column}, '')", patterns)
        case HasTag(patterns):
            text, values = _alike("tag.value", patterns)
            return f"EXISTS (SELECT 1 FROM json_each(coalesce(tags, '[]')) AS tag WHERE {text})", values
        case ErrorHas(patterns):
            return _error(patterns)
        case ArgumentIs():
            return _argument(condition)
        case HasId(ids):
            return f"id IN ({', '.join('?' * len(ids))})", list(ids)
        case HasText(texts):
            return _text(texts)


def _state(table: str, states: frozenset[State], now: int) -> Clause:
    if table == "ended":
        codes = [_codes[state] for state in states if state in _codes and state is not State.RUNNING]
        # Said in the words of the partial index `ended_badly`, else SQLite would not use it.
        badly = "" if State.SUCCEEDED in states else " AND state <> 2"
        return f"state IN ({', '.join(map(str, codes))}){badly}", []
    ways, values = ["0"], []
    if State.RUNNING in states:
        ways.append(f"state = {RUNNING}")
    for state, op in ((State.SCHEDULED, ">"), (State.QUEUED, "<=")):
        if state in states:
            ways.append(f"state = {WAITING} AND run_at {op} ?")
            values.append(now)
    return " OR ".join(ways), values


def _either(text: str, values: Sequence[Any]) -> Clause:
    return " OR ".join([text] * len(values)), list(values)


def _alike(column: str, patterns: Sequence[str]) -> Clause:
    """The column is one of *patterns*, or matches it."""
    texts = [f"{column} GLOB ?" if is_glob(pattern) else f"{column} = ?" for pattern in patterns]
    return " OR ".join(texts), [_glob(pattern) if is_glob(pattern) else pattern for pattern in patterns]


def _glob(pattern: str) -> str:
    return pattern.replace("[", "[[]")  # to SQLite a bracket opens a class of characters


def _error(patterns: Sequence[str]) -> Clause:
    texts, values = [], []
    for part in ("reason", "type", "message"):
        column = _outcome_part(part)
        for pattern in patterns:
            texts.append(f"{column} GLOB ?" if is_glob(pattern) else f"instr({column}, ?) > 0")
            values.append(_glob(pattern) if is_glob(pattern) else pattern)
    return f"state <> 2 AND outcome IS NOT NULL AND ({' OR '.join(texts)})", values


def _outcome_part(part: str) -> str:
    """Read a part of the error object; nothing for a succeeded job, whose outcome is a bare value."""
    body = "CAST(outcome AS TEXT)"
    return (
        f"CASE WHEN state <> 2 AND json_valid({body}) "
        f"THEN lower(coalesce(json_extract({body}, '$.{part}'), '')) ELSE '' END"
    )


def _argument(condition: ArgumentIs) -> Clause:
    if condition.position is not None:
        path = f"$.args[{condition.position}]"
    else:
        path = f'$.kwargs."{condition.name}"'
    body = "CAST(payload AS TEXT)"
    # JSON's true, false and null have no text of their own in SQL.
    column = (
        f"CASE WHEN NOT json_valid({body}) THEN NULL "
        f"WHEN json_type({body}, ?) IN ('true', 'false', 'null') THEN json_type({body}, ?) "
        f"ELSE CAST(json_extract({body}, ?) AS TEXT) END"
    )
    ways, values = [], []
    for pattern in condition.patterns:
        text, more = _alike(column, [pattern])
        ways.append(f"coalesce({text}, 0)")
        values += [path, path, path, *more]
    return " OR ".join(ways), values


def _text(texts: Sequence[str]) -> Clause:
    columns = ["task", "queue", "coalesce(flow, '')", "CAST(payload AS TEXT)"]
    ways = [f"instr(lower({column}), ?) > 0" for column in columns]
    ways.append(f"instr({_outcome_part('message')}, ?) > 0")
    return " OR ".join(ways * len(texts)), [text for text in texts for _ in ways]


@contextmanager
def _bounded(connection: apsw.Connection) -> Iterator[None]:
    over = time.monotonic() + MOST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > over, 100_000)
    try:
        yield
    except apsw.InterruptError:
        raise Busy(f"the search was stopped after {MOST_SECONDS:g} s; narrow it down") from None
    finally:
        connection.set_progress_handler(None)
