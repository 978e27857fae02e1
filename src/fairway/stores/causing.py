"""Causes as stores keep them: one row each, counted up by the commit in which attempts failed."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.core.plan import CauseSeen, News
from fairway.stores.rows import Row

#: Rows that stay, those seen last first: messages that nothing can bring together must not fill the disk.
CAUSES_KEPT = 10_000
#: A cause that was not seen for so long goes, unless it is muted.
CAUSE_SECONDS = 30 * 86_400
#: What "for ever" is, as a time until which a cause is muted.
FOREVER = 1 << 62


def seen_together(causes: Sequence[CauseSeen]) -> list[CauseSeen]:
    """Count those of one commit together; by id, so that two writers lock rows in one order."""
    found: dict[str, CauseSeen] = {}
    for one in causes:
        before = found.get(one.cause.id)
        found[one.cause.id] = (
            one
            if before is None
            else before._replace(at=max(before.at, one.at), failures=before.failures + one.failures)
        )
    return sorted(found.values())


def cause_row(one: CauseSeen) -> Row:
    """Return the parameters of `save_cause`."""
    return (*one.cause, one.at, one.failures)


def first_seen(one: CauseSeen) -> News:
    """Tell of a cause that was never seen before, or forgotten since."""
    cause = one.cause
    detail = {"cause": cause.id, "type": cause.type, "message": cause.message, "frame": cause.frame}
    return News("failure.new", one.at, (one.job,), one.queue, task=cause.task, detail=detail)
