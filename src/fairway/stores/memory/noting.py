"""What attempts say of themselves, in plain dicts."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.notes import MOST_ATTEMPTS
from fairway.store import NoteRow, StoredNote
from fairway.stores.memory.tables import Tables


def save(tables: Tables, notes: Sequence[NoteRow], now: int) -> None:
    """Keep those that are about the last attempt of a job, under its incarnation."""
    for note in notes:
        job = tables.jobs.get(note.job)
        if job is not None and (job.attempt, job.incarnation) == (note.attempt, note.incarnation):
            before = tables.notes.get((note.job, note.attempt))
            tables.notes[note.job, note.attempt] = _merged(before or _blank(note), note, now)
            if note.checkpoint is not None:
                tables.checkpoints[note.job] = note.attempt, note.checkpoint
            if note.attempt > MOST_ATTEMPTS:
                _forget_oldest(tables, note.job, note.attempt - MOST_ATTEMPTS)


def _forget_oldest(tables: Tables, job: int, last: int) -> None:
    """Forget what attempts up to *last* said, but for the one whose checkpoint counts."""
    of_checkpoint, _ = tables.checkpoints.get(job, (0, b""))
    for key in [key for key in tables.notes if key[0] == job and key[1] <= last]:
        if key[1] != of_checkpoint:
            del tables.notes[key]


def find_last(tables: Tables, job: int) -> StoredNote | None:
    """Return the note of the last attempt that left one, and when the checkpoint that counts was left."""
    notes = of_job(tables, job)
    if not notes:
        return None
    attempt, _ = tables.checkpoints.get(job, (0, b""))
    left_at = tables.notes[job, attempt].checkpoint_at if attempt else None
    return notes[0]._replace(checkpoint_at=left_at)


def of_job(tables: Tables, job: int) -> list[StoredNote]:
    """Return the notes of a job's attempts, the last first."""
    return sorted((note for key, note in tables.notes.items() if key[0] == job), reverse=True)


def _blank(note: NoteRow) -> StoredNote:
    return StoredNote(note.job, note.attempt, None, "", None, None, None, None, None, None)


def _merged(before: StoredNote, note: NoteRow, now: int) -> StoredNote:
    if note.progress is not None:
        before = before._replace(progress=note.progress, text=note.text, progress_at=now)
        if before.first_at is None:
            before = before._replace(first_progress=note.progress, first_at=now)
    return before._replace(
        cpu_seconds=before.cpu_seconds if note.cpu_seconds is None else note.cpu_seconds,
        memory_bytes=before.memory_bytes if note.memory_bytes is None else note.memory_bytes,
        checkpoint_at=before.checkpoint_at if note.checkpoint is None else now,
    )
