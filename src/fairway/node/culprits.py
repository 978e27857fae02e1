"""Calls on which leaders ended: the third leader refuses what ended two.

When the core fails on a call, the leader ends and the next one builds a new core from the store. But the
client sends its call again, which would end that one as well, and so on. So the leader that ends says in the
store on what (bounded in time: one that cannot say it ends all the same), and the next reads that as it takes
over. Blamed is the one event that raised, not those that gathered with it.

A stored job cannot be refused, for it was accepted. If taking it in ends two leaders, the next sets it aside:
it waits, is not begun, and can be cancelled. Many stored jobs are taken in at one stroke: then nobody knows
which it was, and the next leader takes them in one by one for a while, so that it does.

One of these a reign, owned by its engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import Any

from fairway.clock import wall
from fairway.core import events as happened
from fairway.core.mishaps import place_of, text_of
from fairway.core.model import Arrival
from fairway.desk import Trouble
from fairway.errors import PoisonCall
from fairway.node.calls import Asked, asked_by, asked_to_submit, kind_of_submit, stored
from fairway.store import Culprit, Store, Submission
from fairway.times import MICRO, show_time

log = logging.getLogger("fairway.engine")

ENOUGH = 2  # leaders
NOTE_SECONDS = 2.0
CAREFUL_SECONDS = 600  # since a leader ended on stored jobs

INTAKE = Asked("intake", "some of many stored jobs that were taken in together", ())


class Culprits:
    """What ended leaders before this one, and what ends this one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Culprit] = {}
        self._kinds: set[str] = set()  # of calls to be refused
        self._accused: tuple[Asked, str] | None = None
        self.refused = 0  # calls, by this leader

    async def read(self, running: Collection[int]) -> set[int]:
        """Read what ended earlier leaders; return the jobs to set aside: those of them that wait.

        One that was cancelled is not taken in, and one that was tried again after that may be *running*.
        """
        rows = await self._store.culprits(wall())
        self._known = {row.digest: row for row in rows}
        fatal = [row for row in rows if _is_fatal(row)]
        self._kinds = {row.digest.partition(":")[0] for row in fatal if row.job is None}
        aside = {row.job for row in fatal if row.job is not None and row.digest == stored(row.job).digest()}
        aside.difference_update(running)
        if aside:
            aside.difference_update(await self._store.ended_states(sorted(aside)))
        if aside:
            log.error("jobs are set aside: taking them in ended leaders", extra={"jobs": len(aside)})
        return aside

    @property
    def is_careful(self) -> bool:
        """Whether stored jobs are taken in one by one: a leader ended on some a short while ago."""
        since = wall() - CAREFUL_SECONDS * MICRO
        return any(
            row.last_at > since and row.digest.startswith(("job:", "intake:")) for row in self._known.values()
        )

    # --- calls -----------------------------------------------------------------------------------
    def check(self, submissions: Sequence[Submission]) -> None:
        """Refuse a submit that ended leaders."""
        if self._kinds and kind_of_submit(submissions) in self._kinds:
            self._refuse(asked_to_submit(submissions))

    def check_event(self, make: Callable[[Any], happened.CoreEvent]) -> None:
        """Refuse what ended leaders; *make* gives it for a ticket."""
        asked = asked_by(make(None)) if self._kinds else None
        if asked is not None and asked.kind in self._kinds:
            self._refuse(asked)

    def _refuse(self, asked: Asked) -> None:
        found = self._known.get(asked.digest())
        if found is None or not _is_fatal(found):
            return
        self.refused += 1
        raise PoisonCall(
            f"{asked.what}: this very call ended {found.leaders} leaders by an internal error "
            f"({found.error}), so it is refused and nothing was changed; please report that error. Send "
            f"another call instead, or this one after an upgrade or after {show_time(found.until)}"
        )

    def troubles(self, aside: Set[int]) -> list[Trouble]:
        """Return calls and jobs that ended leaders, and whether each is refused, or among those *aside*."""
        return [
            Trouble(row, _is_fatal(row) if row.job is None else row.job in aside)
            for row in self._known.values()
        ]

    # --- the end ---------------------------------------------------------------------------------
    def accuse(
        self, event: happened.CoreEvent, submissions: Sequence[Submission] | None, error: Exception
    ) -> None:
        """Remember on what this leader ends."""
        asked = (
            asked_to_submit(submissions) if submissions is not None else _taken_in(event) or asked_by(event)
        )
        if asked is not None:
            self._accused = asked, f"{text_of(error)} at {place_of(error)}"

    async def note(self) -> None:
        """Say in the store on what this leader ended, if it is known. Never raises, and takes no longer."""
        if self._accused is None:
            return
        asked, error = self._accused
        what = asked.what.encode(errors="replace").decode()
        job = asked.content[0] if asked.kind == "job" else None
        try:
            async with asyncio.timeout(NOTE_SECONDS):
                await self._store.note_culprit(asked.digest(), what, error, job, wall())
        except Exception as trouble:
            log.error("on what this leader ended is not noted", extra={"what": what, "why": str(trouble)})
        else:
            log.error("this leader ended on a call", extra={"what": what, "error": error})


def one_by_one(event: happened.TakenIn | happened.Loaded) -> Iterator[happened.TakenIn | happened.Loaded]:
    """Yield an intake as one for each job, with those it waits for that have ended; at last the numbers.

    They may release the job or doom it, and if that fails, the job is to blame.
    """
    if isinstance(event, happened.TakenIn):
        for arrival in event.arrivals:
            yield happened.TakenIn((arrival,), (), _ended_before(arrival, event.ended))
        yield happened.TakenIn((), event.numbers)
        return
    for group in event.alike:  # none of them waits for others
        for arrival in group.arrivals():
            yield happened.Loaded((arrival,))
    for arrival in event.arrivals:
        yield happened.Loaded((arrival,), _ended_before(arrival, event.ended))


def _ended_before(arrival: Arrival, ended: happened.Endings) -> happened.Endings:
    """Return those of the ended jobs that a blocked one waits for."""
    if not arrival.blocked or arrival.extras is None:
        return happened.NO_ENDINGS
    return {job: ended[job] for job in arrival.extras.after if job in ended}


def _taken_in(event: happened.CoreEvent) -> Asked | None:
    """Return the one stored job that an event takes in, or that it is some of many."""
    if not isinstance(event, happened.TakenIn | happened.Loaded):
        return None
    jobs = [arrival.job for arrival in event.arrivals]
    jobs += [job for group in getattr(event, "alike", ()) for job in group.jobs]
    if not jobs:
        return None
    return stored(jobs[0]) if len(jobs) == 1 else INTAKE


def _is_fatal(culprit: Culprit) -> bool:
    return culprit.leaders >= ENOUGH and culprit.until > wall() and not culprit.digest.startswith("intake:")
