"""Answers queries by looking at every job: what a search means, without an index or a language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import eq, ge, gt, le, lt
from typing import Any

import msgspec

from fairway.core.globs import glob_match, is_glob
from fairway.core.lifecycle import State
from fairway.query import Query
from fairway.store import Page, StoredJob
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
    fold,
    read_query,
)
from fairway.stores.paging import MOST_COUNTED, check_limit, read_cursor, read_sort, write_cursor

_compare: dict[str, Callable[[Any, Any], bool]] = {"=": eq, ">": gt, ">=": ge, "<": lt, "<=": le}


def search(
    jobs: Iterable[StoredJob], query: Query, now: int, sort: str, limit: int, cursor: str | None
) -> Page:
    """Return one page of *jobs*, which are shown as of *now*."""
    order, position = read_sort(sort), read_cursor(cursor, sort)
    check_limit(limit)
    found = sorted(
        ((_key(job, order.column), job.id, job) for job in matching(jobs, query, now)),
        key=lambda entry: entry[:2],
        reverse=order.descending,
    )
    total = len(found)
    if position is not None:
        behind = lt if order.descending else gt
        found = [entry for entry in found if behind(entry[:2], (position.key, position.id))]
    page = found[:limit]
    more = write_cursor(sort, *page[-1][:2]) if len(found) > limit else None
    return Page([job for _, _, job in page], more, total if total <= MOST_COUNTED else None)


def matching(jobs: Iterable[StoredJob], query: Query, now: int) -> list[StoredJob]:
    """Return the jobs that fulfil every term."""
    conditions = read_query(query, now)
    return [job for job in jobs if all(_holds(job, one) is not negated for one, negated in conditions)]


def _key(job: StoredJob, column: str) -> Any:
    return job.id if column == "created_at" else getattr(job, column) or (0 if column != "queue" else "")


def _holds(job: StoredJob, condition: Condition) -> bool:
    match condition:
        case InStates(states):
            return job.state in states
        case Compared(column, op, numbers):
            return any(_compare[op](getattr(job, column), number) for number in numbers)
        case Created(op, micros):
            return _compare[op](job.created_at, micros)
        case TextIs(column, patterns):
            return _alike(getattr(job, column) or "", patterns)
        case InGroup(patterns):
            return _alike((job.extras.group if job.extras else None) or "", patterns)
        case HasCause(causes):
            return job.cause in causes
        case HasTag(patterns):
            return any(_alike(tag, patterns) for tag in job.tags)
        case ErrorHas(patterns):
            return any(_has(part, patterns) for part in _error_parts(job, "reason", "type", "message"))
        case ArgumentIs():
            value = _argument(job, condition)
            return value is not None and _alike(value, condition.patterns)
        case HasId(ids):
            return job.id in ids
        case HasText(texts):
            places = [job.task, job.queue, job.flow or "", job.payload.decode()]
            places += _error_parts(job, "message")
            return any(text in fold(place) for text in texts for place in places)


def _alike(text: str, patterns: Sequence[str]) -> bool:
    return any(glob_match(one, text) if is_glob(one) else one == text for one in patterns)


def _has(text: str, patterns: Sequence[str]) -> bool:
    text = fold(text)
    return any(glob_match(one, text) if is_glob(one) else one in text for one in patterns)


def _error_parts(job: StoredJob, *names: str) -> list[str]:
    """Return parts of the error object; a succeeded job has none, its outcome is a bare value."""
    error = _json(job.outcome) if job.outcome is not None and job.state is not State.SUCCEEDED else None
    return [str(error.get(name) or "") for name in names] if isinstance(error, dict) else []


def _argument(job: StoredJob, condition: ArgumentIs) -> str | None:
    payload = _json(job.payload)
    if not isinstance(payload, dict):
        return None
    try:
        if condition.position is not None:
            return _text(payload["args"][condition.position])
        return _text(payload["kwargs"][condition.name])
    except (KeyError, IndexError, TypeError):
        return None


def _text(value: Any) -> str:
    """Write a JSON value as a person would type it into a search."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
