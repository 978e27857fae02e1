"""Calls and jobs on which leaders ended, in memory."""

from __future__ import annotations

from fairway.store import MOST_CULPRITS, Culprit
from fairway.stores.memory.tables import Tables


def note(tables: Tables, digest: str, what: str, error: str, job: int | None, now: int) -> None:
    """Count one more leader; forget what is too old or too much."""
    kept = {one.digest: one for one in remembered(tables, now)}
    before = kept.pop(digest, None)
    leaders, first_at = (1, now) if before is None else (before.leaders + 1, before.first_at)
    others = list(kept.values())[: MOST_CULPRITS - 1]
    newest = Culprit(digest, what, error, job, leaders, first_at, now)
    tables.culprits = {one.digest: one for one in (newest, *others)}


def remembered(tables: Tables, now: int) -> list[Culprit]:
    """Return those that are not too old, the last noted first."""
    known = [one for one in tables.culprits.values() if one.until > now]
    return sorted(known, key=lambda one: (-one.last_at, one.digest))
