"""Watches the jobs that an action tried first, and judges whether the rest may follow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import ceil

import msgspec

from fairway.action import Canary, CanaryProgress
from fairway.clock import moment
from fairway.core.lifecycle import State
from fairway.errors import WorldError
from fairway.store import Store, StoredJob

LOOK_SECONDS = 0.25
ERRORS_TOLD = 3
ERROR_CHARACTERS = 200
_share_of_a_job = 1e-9  # what a share of 0.1 + 0.2 has too much


async def watch(
    store: Store, jobs: Sequence[int], canary: Canary, told: CanaryProgress, aborted: asyncio.Event
) -> str | None:
    """Wait until they have ended; return why the rest must stay as it is, None if it may follow.

    Ends sooner when too many have failed, when the time is over, and when somebody aborts.
    """
    needed = ceil(canary.needed * len(jobs) - _share_of_a_job)
    until = moment().mono + canary.seconds
    endings: dict[int, State | None] = {}
    while True:
        with suppress(WorldError):  # a store that is busy is asked again
            endings = await store.ended_states(jobs)
        bad = [job for job, state in endings.items() if state is not State.SUCCEEDED]
        told.succeeded, told.failed = len(endings) - len(bad), len(bad)
        late = moment().mono >= until
        if aborted.is_set():
            return None
        if len(endings) == len(jobs) or len(jobs) - len(bad) < needed or late:
            break
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await aborted.wait()
    told.passed = told.succeeded >= needed
    return None if told.passed else await _why(store, len(jobs), needed, bad, told, canary)


async def _why(
    store: Store, jobs: int, needed: int, bad: Sequence[int], told: CanaryProgress, canary: Canary
) -> str:
    said = f"{told.succeeded} of the {jobs} jobs tried first succeeded, {needed} should have"
    if bad:
        errors = Counter(_error(job) for job in await store.find_jobs(bad[:100]))
        said += f"; {len(bad)} did not: " + ", ".join(
            f"{count} × {error}" for error, count in errors.most_common(ERRORS_TOLD)
        )
    left = jobs - told.succeeded - len(bad)
    return said + (f"; {left} had not ended (canary_timeout {canary.seconds:g} s)" if left else "")


def _error(job: StoredJob) -> str:
    """Return a job's error in a line."""
    if job.outcome is None or job.state is State.SUCCEEDED:
        return str(job.state)
    error = msgspec.json.decode(job.outcome)
    words = [error.get("type") or error.get("reason") or str(job.state), error.get("message") or ""]
    return ": ".join(word for word in words if word).partition("\n")[0][:ERROR_CHARACTERS]
