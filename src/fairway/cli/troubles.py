"""What `fairway doctor` asks the leader about itself: advice that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fairway.cli.checks import Finding
from fairway.errors import FairwayError

MOST_SHOWN = 10
REPORT = "work goes on without it; please report it with that place, and look for an upgrade"


def check_troubles(ask: Callable[[], Any]) -> Iterator[Finding]:
    """Did anything fail inside the leader that nobody else would notice?"""
    try:
        troubles = ask()
    except FairwayError:  # nobody leads, which is said already, or the leader is older than we are
        return
    failed = troubles.get("advisory") or []
    if not failed:
        yield Finding("ok", "advice", "nothing failed that only tells people something")
    for one in failed[:MOST_SHOWN]:
        times = "once" if one["count"] == 1 else f"{one['count']:,} times"
        said = f"the {one['part']} failed {times} in this term: {one['error']} at {one['place']}"
        yield Finding("warn", "advice", said, REPORT)
