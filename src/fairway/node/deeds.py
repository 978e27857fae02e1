"""What an action does to one batch of jobs: the desk's verbs, many at once so that they share commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from fairway.action import Action, Refusal
from fairway.core.lifecycle import ENDED, State
from fairway.desk import Desk
from fairway.errors import CallerError, WorldError
from fairway.ids import show
from fairway.leadership.term import Reign
from fairway.store import Store, StoredJob

TRIES = 4
PAUSE_SECONDS = 0.25

#: Acts on a batch and returns those that were refused.
Deed = Callable[[Sequence[StoredJob]], Awaitable[list[Refusal]]]
Verb = Callable[[int], Awaitable[object]]


def deed_of(action: Action, desk: Desk, store: Store, reign: Reign) -> Deed:
    """Return what *action* does to a batch."""
    if action.verb == "delete":
        return lambda jobs: _delete(store, reign, jobs)
    verb = _verb_of(action, desk)
    if action.verb in ("cancel", "kill"):
        return lambda jobs: _cancel(verb, store, jobs)
    return lambda jobs: _each(verb, jobs)


def _verb_of(action: Action, desk: Desk) -> Verb:
    verbs: dict[str, Verb] = {
        "cancel": desk.cancel,
        "kill": lambda job: desk.cancel(job, force=True),
        "retry": desk.retry,
        "prefer": desk.prefer,
        "requeue": desk.requeue,
        "relocate": lambda job: desk.relocate(job, action.to),
        "edit": lambda job: desk.edit(job, dict(action.changes)),
    }
    return verbs["edit" if action.verb == "move" else action.verb]


async def _cancel(verb: Verb, store: Store, jobs: Sequence[StoredJob]) -> list[Refusal]:
    """Cancel the youngest first: a job that waits for another fails with it unless its turn comes before."""
    refusals = await _each(verb, jobs[::-1])
    # Its turn may come too late all the same. If it has not begun either, that is what was asked for.
    blocked = {job.id: job.attempt for job in jobs if job.state is State.BLOCKED}
    late = [refusal.job for refusal in refusals if refusal.code == "ended" and refusal.job in blocked]
    ended = await store.find_jobs(late) if late else []
    never_began = {job.id for job in ended if job.attempt == blocked[job.id]}
    return [refusal for refusal in refusals if refusal.job not in never_began]


async def _each(verb: Verb, jobs: Sequence[StoredJob]) -> list[Refusal]:
    answers = await asyncio.gather(*(_try(verb, job.id) for job in jobs))
    return [answer for answer in answers if answer is not None]


async def _try(verb: Verb, job: int) -> Refusal | None:
    """Act on one job, again if the world was in the way; a leader that is gone cancels us."""
    for tries_left in reversed(range(TRIES)):
        try:
            await verb(job)
        except CallerError as error:
            return Refusal(job, error.code, error.detail)
        except WorldError as error:
            if not tries_left:
                return Refusal(job, error.code, str(error))
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return None
    raise AssertionError("unreachable")


async def _delete(store: Store, reign: Reign, jobs: Sequence[StoredJob]) -> list[Refusal]:
    ended = [job.id for job in jobs if job.state in ENDED]
    gone = set(await store.delete_jobs(reign.term, reign.holder, ended)) if ended else set()
    return [
        Refusal(job.id, "not_ended", f"job {show(job.id)} has not ended; only ended jobs can be deleted")
        for job in jobs
        if job.id not in gone
    ]
