"""What is said with a ring: who has come. The leader need not look then, and begins the job a tenth sooner.

Whoever submits one plain job says all that the leader would read of it. A notification comes after its
commit, so what it says is as true as a read, and where nobody hears it the next read finds the same. It goes
to a channel whose name is drawn at each election and stands beside the beat: who may not read that can
neither listen there nor say anything. Who may could mislead the leader, as could anybody who may write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from fairway.store import Taken
from fairway.stores.rows import WAITING, taken_from

#: Comes first, so that a later version may say something else.
FORMAT = "1"
#: A notification takes less than 8,000 bytes, in whatever encoding the server has: up to half as many again.
LONGEST = 5_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[int, str, str | None, int, str, str, str | None, bool, int]).decode


class Word(NamedTuple):
    """What was said of one job: the transaction that inserted it, and its arrival as if it had been read."""

    transaction: int
    taken: Taken


def words_for(row: Sequence[Any]) -> str | None:
    """Return what to say of a plain job of which this is the row; None if that is too long."""
    words = _encode(row[:9])
    return words.decode() if len(words) <= LONGEST else None


def word_from(text: str) -> Word | None:
    """Read what was said; None if it is nothing that we understand: then there is something to be read."""
    try:
        form, transaction, number, words = text.split(" ", 3)
        if form != FORMAT:
            return None
        [taken] = taken_from([(int(number), *_decode(words), None, None, WAITING)])
        return Word(int(transaction), taken)
    except (ValueError, TypeError, RecursionError):
        return None
