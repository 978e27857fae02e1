"""Job defaults of queues: what holds for a job that does not say its own.

A job's row has only what its submitter said. The rest is looked up when it is needed: timeout and grace when
an attempt begins, the bounds and the pause before a new try when one has ended. So a changed setting acts on
the whole backlog at once, and whoever inserts jobs without asking a node need not know it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from fairway.core.model import DEFAULT_RULES, NO_BOUND, QueueSettings, Rules


def rules_below(above: Rules, settings: QueueSettings) -> Rules:
    """Return what a queue says for its jobs, given what the queue above it says; each setting by itself."""
    said: dict[str, Any] = {
        name: None if value == NO_BOUND else value
        for name in ("max_attempts", "max_crashes", "timeout", "grace")
        if (value := getattr(settings, name)) is not None
    }
    if settings.backoff is not None:
        said |= {"retry_first": settings.backoff["first"], "retry_max": settings.backoff["max"]}
    return replace(above, **said) if said else above


def in_force(own: Rules, of_queue: Rules) -> Rules:
    """Return what a job is judged by: its own rules, and where it said nothing those of its queue."""
    if own is DEFAULT_RULES:
        return of_queue
    if of_queue is DEFAULT_RULES or not own.unsaid:
        return own
    return _filled(own, of_queue)


def said(own: Rules, **values: Any) -> Rules:
    """Return rules in which these are said, by their names."""
    if not values:
        return own
    return replace(own, **values, unsaid=tuple(name for name in own.unsaid if name not in values))


@lru_cache(maxsize=1024)
def _filled(own: Rules, of_queue: Rules) -> Rules:
    first, most = own.retry_first, own.retry_max
    if "backoff" in own.unsaid:
        first, most = of_queue.retry_first, of_queue.retry_max
    return replace(
        own,
        max_attempts=of_queue.max_attempts if "max_attempts" in own.unsaid else own.max_attempts,
        max_crashes=of_queue.max_crashes if "max_crashes" in own.unsaid else own.max_crashes,
        timeout=of_queue.timeout if "timeout" in own.unsaid else own.timeout,
        retry_first=first,
        retry_max=most,
        grace=of_queue.grace if "grace" in own.unsaid else own.grace,
    )
