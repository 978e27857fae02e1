"""Job ids: 63-bit integers inside, 13 characters outside.

An id is chosen by whoever inserts the job, before the insert, so that a leader can plan with a job that
is not stored yet. 41 bits of milliseconds make ids sort by creation and keep the primary key's tree
growing at its right edge; 22 bits start at random in each millisecond and count up, so that an id tells
nobody how many jobs there are. Two makers can meet by chance (about n in 4 million within one
millisecond): the store refuses the second insert and the maker draws again.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Sequence

from fairway.core.naming import ALPHABET, show

__all__ = ["ALPHABET", "IdMaker", "find_id", "give_out", "show"]

EPOCH_MILLISECONDS = 1_735_689_600_000  # 2025-01-01
LOW_BITS = 22
WIDTH = 13

_values = {character: value for value, character in enumerate(ALPHABET)}


class IdMaker:
    """Makes rising ids; one per process, touched from one thread."""

    def __init__(self) -> None:
        self._last = 0

    def take(self, count: int, now_milliseconds: int | None = None) -> range:
        """Return *count* fresh ids, one after the other."""
        now = int(time.time() * 1000) if now_milliseconds is None else now_milliseconds
        first = max(now - EPOCH_MILLISECONDS, 1) << LOW_BITS
        # A clock that stands still or goes back must not make an id twice.
        start = first + secrets.randbits(LOW_BITS - 1) if first > self._last else self._last + 1
        self._last = start + count
        return range(start, start + count)

    def one(self) -> int:
        """Return one fresh id."""
        return self.take(1)[0]


def give_out(ids: range, queues: Sequence[str]) -> Sequence[int]:
    """Return an id for each job of a call: those of one queue get ids that follow each other, in their order.

    Jobs lie in the order of their ids, and those of one queue begin and end together: so they share pages.
    """
    if len(set(queues)) == 1:
        return ids
    places: dict[str, list[int]] = defaultdict(list)
    for place, queue in enumerate(queues):
        places[queue].append(place)
    given = [0] * len(ids)
    rising = iter(ids)
    for group in places.values():
        for place in group:
            given[place] = next(rising)
    return given


def find_id(text: str) -> int | None:
    """Read an id as :func:`show` writes it, or return None if it cannot be one."""
    if len(text) != WIDTH:
        return None
    number = 0
    for character in text:
        value = _values.get(character)
        if value is None:
            return None
        number = number << 5 | value
    return number if number < 1 << 63 else None
