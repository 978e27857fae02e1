"""Globs mean one thing everywhere, and no pattern is slow."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.globs import glob_match


def check(pattern: str, *, takes: str = "", leaves: str = "") -> None:
    """The pattern matches each word of *takes* and none of *leaves*."""
    assert [word for word in takes.split() if not glob_match(pattern, word)] == []
    assert [word for word in leaves.split() if glob_match(pattern, word)] == []


def test_a_plain_pattern_matches_itself_alone() -> None:
    check("acme", takes="acme", leaves="acm acme/a Acme xacme")


def test_a_star_below_a_queue_matches_everything_below_it_and_not_the_queue() -> None:
    check("acme/*", takes="acme/a acme/a/b acme/", leaves="acme acmes/a acme2")


@pytest.mark.parametrize("pattern", ["*", "**", "***"])
def test_stars_alone_match_everything(pattern: str) -> None:
    check(pattern, takes="a a/b a/b/c")
    assert glob_match(pattern, "")


def test_a_question_mark_is_one_character() -> None:
    check("gpu?", takes="gpu1 gpux", leaves="gpu gpu12")


def test_brackets_and_backslashes_stand_for_themselves() -> None:
    check("[a]*", takes="[a] [a]b", leaves="a ab")
    assert glob_match("a\\*", "a\\b")


pieces = st.text(alphabet="ab*?/é", max_size=12)


@given(pieces, st.text(alphabet="ab/é", max_size=14))
def test_it_agrees_with_another_matcher(pattern: str, text: str) -> None:
    assert glob_match(pattern, text) == fnmatch.fnmatchcase(text, pattern)


def test_a_hostile_pattern_is_matched_at_once() -> None:
    # A backtracking matcher would not come back before the suite's own timeout.
    assert not glob_match("a*" * 250 + "b", "a" * 5000)
    assert glob_match("a*" * 250 + "b", "a" * 5000 + "b")
