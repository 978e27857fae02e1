"""What the terms of a query mean, said once for all stores.

A term becomes a condition with its values parsed and checked; a store only has to say how it looks at
its own rows. Text is compared as it is; free text and errors without regard to the case of ASCII letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fairway.core.lifecycle import ENDED, WAITING, State
from fairway.errors import InvalidRequest
from fairway.ids import find_id
from fairway.names import check_glob
from fairway.query import Query, Term
from fairway.times import MICRO, parse_duration

NUMBERS = ("priority", "attempt", "tries", "crashes", "generation")
TEXTS = ("queue", "task", "flow", "worker", "adapter")
MOST_TERMS = 50
MOST_VALUES = 100

_groups: dict[str, frozenset[State]] = {
    "ended": ENDED,
    "waiting": WAITING,
    **{state.value: frozenset({state}) for state in State},
}
_argument = re.compile(r"(args|kwargs)\.([^\"\\\x00]{1,100})")


@dataclass(frozen=True, slots=True)
class InStates:
    """The state is one of these."""

    states: frozenset[State]


@dataclass(frozen=True, slots=True)
class Compared:
    """A number of the job compares so with one of these."""

    column: str
    op: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Created:
    """The job was created before or after: `created_at op micros`."""

    op: str
    micros: int


@dataclass(frozen=True, slots=True)
class TextIs:
    """A text of the job is, or matches, one of these."""

    column: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InGroup:
    """The job's group is, or matches, one of these."""

    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasCause:
    """It failed for one of these causes."""

    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasTag:
    """One of the job's tags is, or matches, one of these."""

    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErrorHas:
    """Reason, type or message of the last error has one of these in it, or matches it."""

    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArgumentIs:
    """An argument is, or matches, one of these: by position, or by name."""

    position: int | None
    name: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasId:
    """The id is one of these."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HasText:
    """Task, queue, flow, payload or error message has one of these in it."""

    texts: tuple[str, ...]


Condition = (
    InStates | Compared | Created | TextIs | InGroup | HasCause | HasTag | ErrorHas | ArgumentIs | HasId
    | HasText
)  # fmt: skip


def read_query(query: Query, now: int) -> list[tuple[Condition, bool]]:
    """Return each term as a condition and whether it is negated."""
    if len(query.terms) > MOST_TERMS:
        raise _bad(f"a query has at most {MOST_TERMS} terms")
    return [(read_term(term, now), term.negated) for term in query.terms]


def read_term(term: Term, now: int) -> Condition:
    """Parse and check one term."""
    if not 1 <= len(term.values) <= MOST_VALUES:
        raise _bad(f"{term.field or 'text'} needs 1 to {MOST_VALUES} values")
    if term.field in NUMBERS:
        return Compared(term.field, _op(term), tuple(_number(term, value) for value in term.values))
    if term.field == "age":
        return _created(term, now)
    if term.op != "=":
        raise _bad(f"{term.field or 'text'} cannot be compared with {term.op}")
    return _read_equal(term)


def fold(text: str) -> str:
    """Write ASCII letters small, as SQLite's lower() does."""
    return re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def _read_equal(term: Term) -> Condition:
    patterns = tuple(check_glob(value, term.field or "text") for value in term.values)
    if term.field == "state":
        return InStates(frozenset().union(*(_states(value) for value in patterns)))
    if term.field == "id":
        return HasId(tuple(number for value in patterns if (number := find_id(value)) is not None))
    if term.field in TEXTS:
        return TextIs(term.field, patterns)
    if term.field == "group":
        return InGroup(patterns)
    if term.field == "cause":
        return HasCause(patterns)
    if term.field == "tag":
        return HasTag(patterns)
    if term.field == "error":
        return ErrorHas(tuple(fold(value) for value in patterns))
    if term.field == "":
        return HasText(tuple(fold(value) for value in patterns))
    return _argument_is(term, patterns)


def _argument_is(term: Term, patterns: tuple[str, ...]) -> ArgumentIs:
    """`args.0` is by position; `args.to` and `kwargs.to` are by name."""
    found = _argument.fullmatch(term.field)
    if not found:
        raise _bad(f"there is no field {term.field[:40]!r} to search by")
    kind, name = found.groups()
    by_position = kind == "args" and name.isascii() and name.isdigit() and len(name) < 5
    return ArgumentIs(int(name) if by_position else None, name, patterns)


def _created(term: Term, now: int) -> Created:
    """Older than means created before; a bare `age:10m` means at least that old."""
    if len(term.values) != 1:
        raise _bad("age takes one duration")
    flipped = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "<="}
    if term.op not in flipped:
        raise _bad(f"age cannot be compared with {term.op[:5]!r}")
    return Created(flipped[term.op], now - int(parse_duration(term.values[0], "age") * MICRO))


def _states(value: str) -> Iterable[State]:
    if value not in _groups:
        raise _bad(f"there is no state {value[:40]!r}; there are {', '.join(sorted(_groups))}")
    return _groups[value]


def _op(term: Term) -> str:
    if term.op not in ("=", ">", ">=", "<", "<="):
        raise _bad(f"{term.field} cannot be compared with {term.op[:5]!r}")
    return term.op


def _number(term: Term, value: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", value):
        raise _bad(f"{term.field} {value[:40]!r} is not a whole number")
    return int(value)


def _bad(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, code="bad_query", field="q")
