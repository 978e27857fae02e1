"""One thing done to every job that a query finds: what is asked, and how far it is.

Values only; `node/actions.py` does it, `api/job_actions.py` reads and shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from fairway.query import Query

#: What can be done to jobs. `move` and `edit` are the same, and `kill` is a cancel by force.
VERBS = ("cancel", "kill", "retry", "delete", "move", "edit", "prefer", "requeue", "relocate")
#: So many jobs are watched at most, whatever share was asked for.
MOST_CANARIES = 1000
REFUSALS_NAMED = 20
#: States of an operation that still does something.
UNDER_WAY = ("running", "aborting")


@dataclass(frozen=True, slots=True)
class Canary:
    """Some jobs first; the rest only if enough of them succeed. Given are *jobs* or a *share* of all."""

    jobs: int = 0
    share: float = 0.0
    needed: float = 1.0  # the share of them that must succeed
    seconds: float = 600.0  # within this time

    def size(self, found: int) -> int:
        """Return how many go first of *found*."""
        return min(self.jobs or max(ceil(self.share * found), 1), MOST_CANARIES)


@dataclass(frozen=True, slots=True)
class Action:
    """What is asked: *verb* on all that match *query*, which was written as *text*."""

    verb: str
    text: str
    query: Query
    by: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # of an edit, parsed
    to: str | None = None  # of a relocate; None: away
    canary: Canary | None = None  # of a retry


class Refusal(NamedTuple):
    """A job that could not be acted upon, and why."""

    job: int
    code: str
    detail: str


@dataclass(slots=True)
class CanaryProgress:
    """How those that went first fare. *passed* is None until that is known."""

    jobs: int
    succeeded: int = 0
    failed: int = 0
    passed: bool | None = None


@dataclass(slots=True)
class ActionProgress:
    """How far an operation is. Written by its own task, read by everybody.

    *state*: running, aborting, done, aborted, stopped (its canary did not pass) or failed. *found* was
    counted when it began: 10,001 means more.
    """

    operation: str
    action: Action
    started_at: int
    found: int
    state: str = "running"
    ended_at: int | None = None
    done: int = 0
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)  # the first of them
    canary: CanaryProgress | None = None
    reason: str | None = None  # why it was stopped, or failed

    @property
    def under_way(self) -> bool:
        return self.state in UNDER_WAY

    def count(self, jobs: int, refusals: list[Refusal]) -> None:
        """Add a batch of *jobs*, some of which were refused."""
        self.refused += len(refusals)
        self.done += jobs - len(refusals)
        self.refusals += refusals[: REFUSALS_NAMED - len(self.refusals)]
        self.found = max(self.found, self.done + self.refused)
