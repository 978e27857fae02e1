"""What a running attempt may say of itself, for all who pass it on: its bounds, and two notes as one.

Checked where it is said, so that the attempt's log can tell what was wrong with it, and again where a node
takes it in: a worker may be written by anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from fairway.errors import InvalidRequest
from fairway.strict import check_value

if TYPE_CHECKING:  # a task's process needs neither
    from fairway.store import NoteRow
    from fairway.wire.messages import Note

MOST_CHECKPOINT_BYTES = 64 * 1024
#: Characters that go with a progress.
MOST_TEXT = 1000
#: Of how many attempts of a job, the last ones, notes are kept and shown.
MOST_ATTEMPTS = 100

Said = TypeVar("Said", "Note", "NoteRow")


def check_checkpoint(body: bytes) -> None:
    """Refuse a checkpoint that is too large or not JSON that every reader takes; raises InvalidRequest."""
    if len(body) > MOST_CHECKPOINT_BYTES:
        raise InvalidRequest(
            f"a checkpoint of {len(body)} bytes is too large, the most is {MOST_CHECKPOINT_BYTES};"
            " keep the data elsewhere and checkpoint where it is",
            field="checkpoint",
        )
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"a checkpoint is not JSON: {str(error)[:200]}", field="checkpoint") from None
    check_value(value, "checkpoint")


def merge(older: Said, newer: Said) -> Said:
    """Return what both say; where both say something, the newer one's word."""
    if newer.progress is None:
        newer = newer._replace(progress=older.progress, text=older.text)
    return newer._replace(
        checkpoint=older.checkpoint if newer.checkpoint is None else newer.checkpoint,
        cpu_seconds=older.cpu_seconds if newer.cpu_seconds is None else newer.cpu_seconds,
        memory_bytes=older.memory_bytes if newer.memory_bytes is None else newer.memory_bytes,
    )
