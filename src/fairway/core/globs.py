"""Globs, the one home of `*` and `?`: queue patterns, tag patterns and search values all match alike.

`*` stands for any run of characters, also none, also across `/`: `acme/*` is everything below `acme`,
`*` and `**` are everything. `?` stands for one character. Everything else stands for itself.

A pattern runs as a set of states held in the bits of one integer: bit *i* is set while the first *i* items
may have been matched. Each character of the text moves all states at once, so the time is linear in the
text whatever the pattern; a backtracking matcher needs minutes for `a*a*a*a*…b`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


def glob_match(pattern: str, text: str) -> bool:
    """Say whether the whole of *text* matches *pattern*."""
    if "?" not in pattern:
        if "*" not in pattern:
            return pattern == text
        if pattern.strip("*") == "":
            return True
    machine = _machine(pattern)
    states, moves, waits, anywhere = 1, machine.moves, machine.waits, machine.anywhere
    for character in text:
        states = ((states & moves.get(character, anywhere)) << 1) | (states & waits)
        if not states:
            return False
    return bool(states >> machine.length & 1)


def is_glob(pattern: str) -> bool:
    """Say whether a pattern can match anything but itself."""
    return "*" in pattern or "?" in pattern


class _Machine(NamedTuple):
    """A pattern made ready. `moves` says which states a character moves on; `waits` are those at a star."""

    moves: dict[str, int]
    anywhere: int
    waits: int
    length: int


@lru_cache(maxsize=2048)
def _machine(pattern: str) -> _Machine:
    moves: dict[str, int] = {}
    anywhere = waits = length = 0
    for item in pattern:
        if item == "*":
            waits |= 1 << length
            continue
        if item == "?":
            anywhere |= 1 << length
        else:
            moves[item] = moves.get(item, 0) | 1 << length
        length += 1
    return _Machine({item: bits | anywhere for item, bits in moves.items()}, anywhere, waits, length)
