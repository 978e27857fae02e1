"""What is said with a ring: who has come. The leader need not look then, and begins the job a tenth sooner.

Whoever submits one plain job says all that the leader would read of it. A notification comes after its
commit, so what it says is as true as a read, and where nobody hears it the next read finds the same. It goes
to a channel whose name the leader draws and keeps beside its beat: who may not read the scheduler's tables
can neither listen there nor say anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from fairway.store import Taken
from fairway.stores.rows import WAITING, Row, taken_from

#: A notification takes less than 8,000 bytes, the numbers before the words up to 40 of them.
LONGEST = 7_900

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[int, str, str | None, int, str, str, str | None, bool, int]).decode


class Word(NamedTuple):
    """What was said of one job: the transaction that inserted it, and its arrival."""

    transaction: int
    arrival: Row


def words_for(row: Sequence[Any]) -> str | None:
    """Return what to say of a plain job of which this is the row; None if that is too long."""
    words = _encode(row[:9])
    return words.decode() if len(words) <= LONGEST else None


def word_from(text: str) -> Word:
    """Read what was said."""
    transaction, number, words = text.split(" ", 2)
    return Word(int(transaction), (int(number), *_decode(words), None, None, WAITING))


def taken_from_words(words: Sequence[Word]) -> list[Taken]:
    """Return those that were told of as if they had been read."""
    return taken_from(word.arrival for word in words)
