"""Sorting and cursors: a page ends at a key and an id, and the next one begins behind them.

A cursor is opaque outside; it comes back from strangers, so it is checked to be one we could have made.
`created_at` sorts by id: ids begin with the time at which they were drawn, and the primary keys are in
that order already.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec

from fairway.errors import InvalidRequest

SORTS = ("created_at", "run_at", "priority", "started_at", "ended_at", "queue")
MOST_COUNTED = 10_000
MOST_ROWS = 1_000

_biggest = (1 << 63) - 1


class Sort(NamedTuple):
    """A column and a direction; ties go by id in the same direction."""

    column: str
    descending: bool


class Position(NamedTuple):
    """The last job of a page. `sort` is the text it was sorted by: a cursor fits no other order."""

    sort: str
    key: int | str
    id: int


_decoder = msgspec.json.Decoder(Position)


def read_sort(text: str) -> Sort:
    """Read `-created_at` and the like."""
    column = text[1:] if text[:1] in ("-", "+") else text
    if column not in SORTS:
        raise InvalidRequest(
            f"cannot sort by {text[:40]!r}; by {', '.join(SORTS)}", code="bad_sort", field="sort"
        )
    return Sort(column, text.startswith("-"))


def check_limit(limit: int) -> int:
    """Return *limit* if a page may be so long."""
    if not 1 <= limit <= MOST_ROWS:
        raise InvalidRequest(f"limit must be 1 to {MOST_ROWS}", field="limit")
    return limit


def write_cursor(sort: str, key: int | str, job: int) -> str:
    """Write down where a page ended."""
    return (
        base64.urlsafe_b64encode(msgspec.json.encode(Position(sort.lstrip("+"), key, job)))
        .decode()
        .rstrip("=")
    )


def read_cursor(text: str | None, sort: str) -> Position | None:
    """Read a cursor of ours; anything else is refused."""
    if text is None:
        return None
    position = _decode(text)
    right_kind = isinstance(position.key, str) == (read_sort(sort).column == "queue")
    fits = "\0" not in position.key if isinstance(position.key, str) else abs(position.key) <= _biggest
    if not (right_kind and fits and position.sort == sort.lstrip("+") and 0 <= position.id <= _biggest):
        raise _bad()
    return position


def _decode(text: str) -> Position:
    if not (text.isascii() and len(text) <= 2000):
        raise _bad()
    try:
        return _decoder.decode(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise _bad() from None


def _bad() -> InvalidRequest:
    return InvalidRequest("the cursor is not one this search gave out", code="bad_cursor", field="cursor")
