"""One search grammar: what it reads, what it refuses, how it meets events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.plan import Event
from fairway.errors import InvalidRequest
from fairway.ids import show
from fairway.query import Query, Term, matches_event, parse, parse_for_events


def check(text: str, *terms: Term) -> None:
    """The text is read as these terms."""
    assert parse(text) == Query(terms)


def equal(field: str, *values: str, negated: bool = False) -> Term:
    return Term(field, "=", values, negated)


def test_nothing_matches_everything() -> None:
    check("")
    check("  \t ")


def test_terms_are_joined_by_and() -> None:
    check(
        "state:failed queue:acme/* args.to:*@x.org",
        equal("state", "failed"),
        equal("queue", "acme/*"),
        equal("args.to", "*@x.org"),
    )


def test_a_minus_negates() -> None:
    check("-queue:test -word", equal("queue", "test", negated=True), equal("", "word", negated=True))


def test_commas_mean_either() -> None:
    check("state:failed,unknown", equal("state", "failed", "unknown"))


def test_numbers_and_ages_are_compared() -> None:
    check(
        "priority:>3 priority:<=-2 age:>10m tries:0",
        Term("priority", ">", ("3",)),
        Term("priority", "<=", ("-2",)),
        Term("age", ">", ("10m",)),
        equal("tries", "0"),
    )


def test_quotes_keep_spaces_colons_and_commas_together() -> None:
    check('"free text" flow:"a b,c",d', equal("", "free text"), equal("flow", "a b,c", "d"))
    check('-"time: out" flow:a" "b', equal("", "time: out", negated=True), equal("flow", "a b"))
    check(r'"say \"hi\"" flow:a\,b', equal("", 'say "hi"'), equal("flow", "a,b"))


def test_a_comparison_without_a_field_is_text() -> None:
    check(">3", equal("", ">3"))


@pytest.mark.parametrize(
    "text",
    [
        "nosuch:1", "http://x", "state:", "state:gone", "state:failed,", "state:,failed", "queue:>3", "-",
        '"open', 'flow:"open', "priority:x", "priority:1.5", "priority:>", "age:10m", "age:>soon",
        "age:>1m,2m",
        "args.:x", "args:x", "kind:job.ended",
        "task:" + "*" * 9, "a\0b", "\ud800", "a\\", '""', "x" * 2001, "a " * 31, "flow:" + ",".join("a" * 51),
        "STATE:failed", "state:Failed", "priority:" + "9" * 19, "priority:*",
    ],
)  # fmt: skip
def test_what_it_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse(text)
    assert refusal.value.field == "q"


def test_an_unknown_field_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"known are .*state, queue, task"):
        parse("quue:x")


EVENT = Event("job.ended", 5, 7, "acme/emails", "failed", 2, "w3", "mail.send")


@pytest.mark.parametrize(
    "text",
    [
        "", "kind:job.ended", "kind:job.*", "state:failed", "state:ended", "state:failed,running",
        "-state:waiting", "queue:acme/*", "task:mail.*", "worker:w?", f"job:{show(7)}", f"id:{show(7)}",
        "emails", "mail send"[:4], "queue:acme/* state:ended -task:other", "-worker:w4", show(7)[-3:],
    ],
)  # fmt: skip
def test_events_that_match(text: str) -> None:
    assert matches_event(parse_for_events(text), EVENT)


@pytest.mark.parametrize(
    "text",
    [
        "kind:job.begun", "state:running", "state:waiting", "-state:ended", "queue:acme", "queue:other/*",
        "task:mail", "worker:w4", f"job:{show(8)}", "job:junk", "nothing", "state:failed queue:other",
    ],
)  # fmt: skip
def test_events_that_do_not(text: str) -> None:
    assert not matches_event(parse_for_events(text), EVENT)


def test_a_condition_on_what_an_event_lacks_is_not_met() -> None:
    bare = Event("leader.elected", 5)
    assert not matches_event(parse_for_events("queue:*"), bare)
    assert not matches_event(parse_for_events(f"job:{show(7)}"), bare)
    assert matches_event(parse_for_events("-queue:*"), bare)


@pytest.mark.parametrize("text", ["flow:u7", "age:>1m", "priority:1", "tag:gpu", "args.to:x"])
def test_events_are_not_searched_by_what_they_never_have(text: str) -> None:
    with pytest.raises(InvalidRequest, match="events cannot be searched"):
        parse_for_events(text)


def quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


values = st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text and text.count("*") <= 8)


@given(st.lists(values, min_size=1, max_size=5), st.booleans())
def test_any_value_can_be_quoted(texts: list[str], negated: bool) -> None:
    check(
        ("-" if negated else "") + "flow:" + ",".join(quoted(text) for text in texts),
        Term("flow", "=", tuple(texts), negated),
    )


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except InvalidRequest as refusal:
        assert refusal.field == "q"
