"""How notes look from outside: progress with its rate and the time left, use of resources, attempts.

A rate is counted from the first progress an attempt told: one that goes on from a checkpoint begins in the
middle, and what came before is not its own speed.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.core.lifecycle import State
from fairway.notes import MOST_ATTEMPTS
from fairway.shapes import AttemptShape, Noted, Progress, Usage
from fairway.store import StoredJob, StoredNote
from fairway.times import LATEST, MICRO, show_time


def noted_view(job: StoredJob, note: StoredNote | None) -> Noted:
    """Show what is known of a job from its notes."""
    if note is None:
        return {"progress": None, "usage": None, "checkpoint_at": None}
    last = note if note.attempt == job.attempt else None
    return {
        "progress": None if last is None else progress_view(last, job.state is State.RUNNING),
        "usage": None if last is None else usage_view(last),
        "checkpoint_at": _time(note.checkpoint_at),
    }


def attempts_view(job: StoredJob, notes: Sequence[StoredNote]) -> list[AttemptShape]:
    """Show the last attempts of a job, newest first, whether or not they left a note."""
    by_number = {note.attempt: note for note in notes}
    first = max(job.attempt - MOST_ATTEMPTS, 0)
    return [_attempt(job, number, by_number.get(number)) for number in range(job.attempt, first, -1)]


def _attempt(job: StoredJob, number: int, note: StoredNote | None) -> AttemptShape:
    last = number == job.attempt
    running = last and job.state is State.RUNNING
    return {
        "attempt": number,
        "running": running,
        "progress": None if note is None else progress_view(note, running),
        "usage": None if note is None else usage_view(note),
        "checkpoint_at": None if note is None else _time(note.checkpoint_at),
        "worker": job.worker if last else None,
        "started_at": _time(job.started_at) if last else None,
        "ended_at": _time(job.ended_at) if last else None,
    }


def progress_view(note: StoredNote, running: bool) -> Progress | None:
    """Show how far an attempt is; while it runs, how fast it goes and when it will be done."""
    if note.progress is None or note.progress_at is None:
        return None
    rate = rate_of(note) if running else None
    left = None if rate is None else (1.0 - note.progress) / rate
    done = None if left is None else note.progress_at + left * MICRO
    return {
        "fraction": note.progress,
        "text": note.text,
        "at": show_time(note.progress_at),
        "rate_per_second": rate,
        "seconds_left": left,
        "done_at": None if done is None or done > LATEST else show_time(round(done)),
    }


def rate_of(note: StoredNote) -> float | None:
    """Return the part of the work done in a second; None before there are two words to tell it from."""
    if note.progress is None or note.first_progress is None or not note.first_at or not note.progress_at:
        return None
    seconds = (note.progress_at - note.first_at) / MICRO
    made = note.progress - note.first_progress
    return made / seconds if seconds > 0 and made > 0 else None


def usage_view(note: StoredNote) -> Usage | None:
    """Show what an attempt used, if anything is known."""
    if note.cpu_seconds is None and note.memory_bytes is None:
        return None
    return {"cpu_seconds": note.cpu_seconds, "memory_bytes": note.memory_bytes}


def _time(micros: int | None) -> str | None:
    return None if micros is None else show_time(micros)
