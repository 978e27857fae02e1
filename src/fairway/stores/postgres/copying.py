"""Jobs as PostgreSQL's COPY takes them, in its binary form.

The jobs of a bulk differ in their ids and payloads: what they have in common is written out once. They go in
pieces, so that the server stores the first while the next are still being written.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Sequence

from fairway.store import NewJob
from fairway.stores.rows import job_row

#: Those that differ come first and last; what stands between them may be the same for thousands.
COLUMNS = (
    "id", "queue", "flow", "priority", "adapter", "task", "tags", "once", "run_at", "created_at", "place",
    "rules", "unique_key", "payload",
)  # fmt: skip
PIECE, PIECE_BYTES = 500, 1024 * 1024  # jobs, and what they carry, if that is more

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = struct.pack(">h", -1)
NULL = struct.pack(">i", -1)

_start = struct.Struct(">hiq").pack  # a row of so many columns: the length and value of its id
_length = struct.Struct(">i").pack
_bigint = struct.Struct(">iq").pack
_integer = struct.Struct(">ii").pack


async def copied(jobs: Sequence[NewJob]) -> AsyncIterator[bytes]:
    """Yield the contents of a COPY of these jobs."""
    yield HEAD
    piece, size = list[NewJob](), 0
    for job in jobs:
        piece.append(job)
        size += len(job.payload)
        if len(piece) == PIECE or size > PIECE_BYTES:
            yield _rows(piece)
            piece, size = [], 0
    yield _rows(piece)
    yield END


def _rows(jobs: Sequence[NewJob]) -> bytes:
    rows = list[bytes]()
    last: tuple[object, ...] | None = None
    common, count = b"", len(COLUMNS)
    for job in jobs:
        if job[1:11] != last:
            last, common = job[1:11], _common(job)
        unique, payload = job.unique, job.payload
        rows += (
            _start(count, 8, job.id), common, NULL if unique is None else _text(unique),
            _length(len(payload)), payload,
        )  # fmt: skip
    return b"".join(rows)


def _common(job: NewJob) -> bytes:
    """Return what stands between a job's id and its key."""
    _, queue, flow, priority, adapter, task, tags, once, run_at, created_at, rules, _, _ = job_row(job)
    return b"".join(
        (
            _text(queue), _text(flow), _integer(4, priority), _text(adapter), _text(task), _text(tags),
            _length(1), b"\1" if once else b"\0", _bigint(8, run_at), _bigint(8, created_at),
            _bigint(8, run_at), NULL if rules is None else _length(len(rules)) + rules,
        )
    )  # fmt: skip


def _text(text: str | None) -> bytes:
    if text is None:
        return NULL
    encoded = text.encode()
    return _length(len(encoded)) + encoded
