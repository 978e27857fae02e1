"""The one search grammar of lists, events, API and CLI.

    state:failed queue:acme/* task:send flow:u7 group:night-7 tag:gpu worker:w3 error:timeout
    args.to:*@x.org priority:>3 age:>10m -queue:test "free text"

Terms are joined by *and*; a leading `-` negates; `field:a,b` means either; `*` and `?` are globs. Parsed
once at the edge into a `Query`; a store turns it into its own language, `matches_event` reads events.

What `parse` lets through, a store can rely on: fields are known ones, `state` values are states or `ended`
or `waiting`, values of the number fields are whole numbers, those of `age` durations, and only these two
kinds take comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fairway.core.globs import glob_match
from fairway.core.lifecycle import ENDED, WAITING, State
from fairway.core.plan import Event
from fairway.errors import InvalidRequest
from fairway.ids import find_id, show
from fairway.names import MOST_STARS, check_characters
from fairway.times import parse_duration

MOST_CHARACTERS = 2000
MOST_TERMS = 30
MOST_VALUES = 50

#: Fields that take whole numbers and comparisons.
NUMBER_FIELDS = ("priority", "attempt", "tries", "crashes", "generation")
#: What a job can be asked for, beside args.NAME and kwargs.NAME. `age` is the time since it was created.
JOB_FIELDS = (
    "id", "state", "queue", "task", "flow", "group", "tag", "worker", "error", "cause", "adapter",
    *NUMBER_FIELDS, "age",
)  # fmt: skip
#: What a group of failures can be asked for.
FAILURE_FIELDS = ("id", "task", "type", "frame", "muted")
#: What an event can be asked for.
EVENT_FIELDS = ("kind", "id", "state", "queue", "task", "worker")

_STATES = {*(str(state) for state in State), "ended", "waiting"}
_word = re.compile(r'(?:[^\s"\\]|\\.|"(?:[^"\\]|\\.)*")+', re.DOTALL)
_head = re.compile(r"(-?)(?:([A-Za-z_][A-Za-z0-9_.-]*):)?(>=|<=|>|<)?", re.ASCII)
_value = re.compile(r'(?:[^",\\]|\\.|"(?:[^"\\]|\\.)*")*', re.DOTALL)
_piece = re.compile(r'"((?:[^"\\]|\\.)*)"|\\(.)|([^"\\]+)', re.DOTALL)
_argument = re.compile(r"(?:kw)?args\.[A-Za-z0-9_.-]{1,100}", re.ASCII)
_whole = re.compile(r"-?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. `field` is "" for free text. `op` is one of = > >= < <= (globs are op =)."""

    field: str
    op: str
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions that must all hold; none at all matches everything."""

    terms: tuple[Term, ...] = ()


def parse(text: str) -> Query:
    """Read a query over jobs, or say which term is wrong and what would be right."""
    return _parse(text, _check_job_field)


def parse_for_events(text: str) -> Query:
    """Read a query over events, which know other fields than jobs."""
    return _parse(text, _check_event_field)


def parse_for_failures(text: str) -> Query:
    """Read a query over groups of failures."""
    return _parse(text, _check_failure_field)


def matches_failure(query: Query, texts: Mapping[str, str]) -> bool:
    """Say whether a group meets every condition. *texts* are its fields, and `message`."""
    return all(_failure_holds(term, texts) != term.negated for term in query.terms)


def matches_event(query: Query, event: Event) -> bool:
    """Say whether an event meets every condition; one that needs what the event lacks is not met."""
    return all(_holds(term, event) != term.negated for term in query.terms)


def _parse(text: str, check_field: Callable[[str], None]) -> Query:
    if len(text) > MOST_CHARACTERS:
        raise _wrong(f"the query has {len(text)} characters; at most {MOST_CHARACTERS} are allowed")
    check_characters(text, "q")
    terms = tuple(_term(word, check_field) for word in _words(text))
    if len(terms) > MOST_TERMS:
        raise _wrong(f"the query has {len(terms)} terms; at most {MOST_TERMS} are allowed")
    return Query(terms)


def _words(text: str) -> Iterator[str]:
    """Split at spaces outside quotes."""
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _word.match(text, position)
        if not match:
            raise _wrong("a quote or a backslash at the end has no partner; close the quote")
        yield match[0]
        position = match.end()


def _term(word: str, check_field: Callable[[str], None]) -> Term:
    match = _head.match(word)
    assert match  # every part of it is optional
    negated, field, op = bool(match[1]), match[2] or "", match[3]
    if not field:  # a comparison without a field is just text
        return Term("", "=", (_plain(word[len(match[1]) :], word),), negated)
    field = "id" if field == "job" else field
    check_field(field)
    values = tuple(_values(word[match.end() :], word))
    for value in values:
        _check_value(field, op, value)
    if field == "age" and len(values) > 1:
        raise _wrong("age takes one duration")
    return Term(field, op or "=", values, negated)


def _values(text: str, word: str) -> Iterator[str]:
    """Split at commas outside quotes."""
    position, count = 0, 0
    while position <= len(text):
        match = _value.match(text, position)
        assert match  # the word was matched with the same alternatives
        count += 1
        if count > MOST_VALUES:
            raise _wrong(f"{word[:40]!a} has more than {MOST_VALUES} values")
        yield _plain(match[0], word)
        position = match.end() + 1


def _plain(text: str, word: str) -> str:
    """Take quotes and backslashes away."""
    plain = "".join(
        re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) or escaped or bare
        for quoted, escaped, bare in _piece.findall(text)
    )
    if not plain:
        raise _wrong(f"{word[:40]!a} has an empty value; leave the term out or give it one")
    if plain.count("*") > MOST_STARS:
        raise _wrong(f"{word[:40]!a} has more than {MOST_STARS} stars")
    return plain


def _check_job_field(field: str) -> None:
    if field not in JOB_FIELDS and not _argument.fullmatch(field):
        known = ", ".join(JOB_FIELDS)
        raise _wrong(
            f"there is no field {field[:40]!a}; known are {known}, args.NAME and kwargs.NAME;"
            ' put text with a colon into "quotes"'
        )


def _check_failure_field(field: str) -> None:
    if field not in FAILURE_FIELDS:
        known = ", ".join(FAILURE_FIELDS)
        raise _wrong(f"failures cannot be searched by {field[:40]!a}; known are {known}")


def _failure_holds(term: Term, texts: Mapping[str, str]) -> bool:
    if term.field == "":
        return any(value.lower() in text.lower() for value in term.values for text in texts.values())
    return any(glob_match(value, texts[term.field]) for value in term.values)


def _check_event_field(field: str) -> None:
    if field not in EVENT_FIELDS:
        known = ", ".join(EVENT_FIELDS)
        raise _wrong(f"events cannot be searched by {field[:40]!a}; known are {known}")


def _check_value(field: str, op: str | None, value: str) -> None:
    if op and field not in NUMBER_FIELDS and field != "age":
        raise _wrong(f"{field} cannot be compared with {op}; only numbers and age can")
    if field == "muted" and value not in ("true", "false"):
        raise _wrong(f"muted is true or false, not {value[:40]!a}")
    if field == "state" and value not in _STATES:
        raise _wrong(f"there is no state {value[:40]!a}; known are {', '.join(sorted(_STATES))}")
    if field in NUMBER_FIELDS and not _whole.fullmatch(value):
        raise _wrong(f"{field} takes whole numbers, such as {field}:>3, not {value[:40]!a}")
    if field == "age":
        if not op:
            raise _wrong("age needs a comparison, such as age:>10m")
        parse_duration(value, "q")


def _holds(term: Term, event: Event) -> bool:
    if term.field == "":
        return any(_contains(value, event) for value in term.values)
    return any(_equals(term.field, value, event) for value in term.values)


def _equals(field: str, value: str, event: Event) -> bool:
    if field == "state":
        return _is_state(value, event.state)
    if field == "id":
        return event.job is not None and find_id(value) == event.job
    found: str | None = getattr(event, field)
    return found is not None and glob_match(value, found)


def _is_state(wanted: str, state: str | None) -> bool:
    if wanted == "ended":
        return state in ENDED
    if wanted == "waiting":
        return state in WAITING
    return state == wanted


def _contains(text: str, event: Event) -> bool:
    job = None if event.job is None else show(event.job)
    found = (event.kind, event.queue, event.task, event.worker, job)
    return any(text in one for one in found if one is not None)


def _wrong(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, code="bad_query", field="q")
