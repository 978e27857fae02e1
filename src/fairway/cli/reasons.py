"""Telling a person who waits for a job why the job waits, and which of its tries failed.

The call that waits at the node answers only when the job ended, and a log that is followed stays silent
until it begins. So a thread beside them looks at the job now and then. It only ever writes to stderr, and
what goes wrong in it is left to the call it stands beside, which meets the same trouble.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairway.cli.calling import part
from fairway.cli.describing import Job, failed_try, why
from fairway.cli.output import clean, remark
from fairway.errors import FairwayError

if TYPE_CHECKING:
    from fairway.client.http import Transport

#: A job that waits no longer than this is not worth a word.
PATIENCE_SECONDS = 2.0
#: How often the job is looked at: a job that failed is usually tried again after a second.
LOOK_SECONDS = 1.0
#: The least time between two lines.
PAUSE_SECONDS = 10.0


@contextmanager
def telling_why(transport: Transport, job: str, name: str = "") -> Iterator[None]:
    """Say on stderr why *job* waits and what failed, as long as the block runs; *name* begins the lines."""
    over = threading.Event()
    threading.Thread(target=_tell, args=(transport, job, name, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _tell(transport: Transport, job: str, name: str, over: threading.Event) -> None:
    reasons, tries = Reasons(time.monotonic()), Tries()
    while not over.wait(LOOK_SECONDS):
        try:
            found = transport.call("GET", f"/jobs/{part(job)}")
        except FairwayError:
            continue
        failed, reason = tries.note(found), reasons.note(found, time.monotonic())
        for said in (failed, reason and f"waits: {reason}"):
            if said and not over.is_set():
                remark(clean(f"{name} {said}".lstrip()))


class Tries:
    """Decides which failed try to tell of: each that is seen, once."""

    def __init__(self) -> None:
        self._told = 0

    def note(self, job: Job) -> str | None:
        """Take in the job as it is now; return what to say of its last try, if that is news."""
        told, self._told = self._told, job.get("tries", 0)
        return failed_try(job) if self._told != told else None


class Reasons:
    """Decides what to say: a reason that lasts, once; another one again, but not too soon after."""

    def __init__(self, now: float) -> None:
        self._waits_since: float | None = now
        self._said: tuple[Any, Any] | None = None
        self._said_at = -math.inf

    def note(self, job: Job, now: float) -> str | None:
        """Take in the job as it is *now*; return the reason if it should be said."""
        detail = why(job)
        if detail is None:
            self._waits_since = None
            return None
        if self._waits_since is None:
            self._waits_since = now
        # Not the detail: "due in 9 s" and "due in 4 s" are one reason.
        reason = (job["waiting"].get("reason"), job["waiting"].get("on"))
        is_too_soon = now - self._waits_since < PATIENCE_SECONDS or now - self._said_at < PAUSE_SECONDS
        if is_too_soon or reason == self._said:
            return None
        self._said, self._said_at = reason, now
        return detail


@contextmanager
def leaving_alone(jobs: Sequence[str]) -> Iterator[None]:
    """Say at Ctrl-C that only the waiting ends; *jobs* are those that may go on."""
    try:
        yield
    except KeyboardInterrupt:
        goes_on = "the job goes on; stop it" if len(jobs) == 1 else "the jobs go on; stop them"
        remark(clean(f"{goes_on} with: fairway jobs cancel {' '.join(jobs)}"))
        raise
