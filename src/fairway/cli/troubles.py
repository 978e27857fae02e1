"""What `fairway doctor` asks the leader about itself: advice that failed, calls on which leaders ended."""

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
    failed, culprits = troubles.get("advisory") or [], troubles.get("culprits") or []
    if not failed:
        yield Finding("ok", "advice", "nothing failed that only tells people something")
    for one in failed[:MOST_SHOWN]:
        times = "once" if one["count"] == 1 else f"{one['count']:,} times"
        said = f"the {one['part']} failed {times} in this term: {one['error']} at {one['place']}"
        yield Finding("warn", "advice", said, REPORT)
    if not culprits:
        yield Finding("ok", "calls", "no leader ended on a call")
    for one in culprits[:MOST_SHOWN]:
        yield _culprit(one)


def _culprit(one: dict[str, Any]) -> Finding:
    leaders = "1 leader" if one["leaders"] == 1 else f"{one['leaders']} leaders"
    said = f"{one['what']} ended {leaders}: {one['error']}"
    until = one["until"]
    if not one["refused"]:
        return Finding("warn", "calls", said, "please report it; if it ends another leader, it is kept out")
    if one["job"] is None:
        advice = f"it is refused until {until} or an upgrade; please report it"
    else:
        advice = f"it is set aside: `fairway jobs cancel {one['job']}` ends it; please report it. A leader"
        advice += f" that comes after {until}, or after an upgrade, takes it in again"
    return Finding("warn", "calls", said, advice)
