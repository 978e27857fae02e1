"""Clients of test_engine's worlds: they submit under a key until they hear an answer, and meddle.

Every call is answered in time, by what was asked for or by a CallerError or a WorldError; anything else is
written down as wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import TypeVar

import msgspec

from fairway.clock import wall
from fairway.core.lifecycle import ENDED
from fairway.core.model import Delivery, Rules
from fairway.desk import Desk
from fairway.errors import CallerError, WorldError
from fairway.store import Accepted, NewJob, Request, Submission
from fairway.stores.memory import MemoryStore
from fairway.times import MICRO

from .virtual_time import in_time
from .workshop import Books, Fate

T = TypeVar("T")

#: The first two have a limit that nobody changes.
QUEUES = ("tight", "tight/a", "wide", "wide/b", "loose", "other")
ENDS = (
    ["ok"], ["ok"], ["ok"], ["ok"], ["error", "ok"], ["error"], ["crashed", "ok"], ["crashed"], ["permanent"],
    ["retry_after", "ok"], ["timeout", "ok"],
)  # fmt: skip
CALL_SECONDS = 100.0


class Crowd:
    """Everybody who asks something of the node."""

    def __init__(self, desk: Desk, store: MemoryStore, books: Books, random: Random) -> None:
        self._desk, self._store, self._books, self._random = desk, store, books, random
        self._ids = 0
        self._tokens = 0
        self.answers: dict[str, list[int]] = {}  # by key
        self.tokens: dict[str, list[int]] = {}  # by key
        self.calls = 0

    # --- every call ------------------------------------------------------------------------------
    async def ask(self, call: Awaitable[T]) -> T | None:
        """Return an answer, or None if there was a proper error."""
        self.calls += 1
        try:
            return await in_time(call, CALL_SECONDS)
        except (CallerError, WorldError):
            return None
        except TimeoutError:
            self._books.wrong.append(f"{call} hangs")
        except Exception as error:
            self._books.wrong.append(f"{call} raised {error!r}")
        return None

    # --- submitting ------------------------------------------------------------------------------
    async def submit(self, key: str) -> None:
        """Submit one call until it is answered; wait for it now and then."""
        wishes = [self._wish() for _ in range(self._random.choice((1, 1, 1, 2, 5)))]
        self.tokens[key] = [token for _, token in wishes]
        accepted = await self._try(key, wishes, unlucky=self._random.random() < 0.05)
        while accepted is None:
            await asyncio.sleep(self._random.uniform(0.0, 0.5))
            accepted = await self._try(key, wishes)
        self._answered(key, accepted)
        if self._random.random() < 0.3:
            again = await self._try(key, wishes)
            if again is not None:
                self._answered(key, again)
        if self._random.random() < 0.3:
            await self.ask(self._desk.wait_job(accepted.ids[0], self._random.uniform(0.0, 5.0)))

    async def _try(
        self, key: str, wishes: list[tuple[NewJob, int]], unlucky: bool = False
    ) -> Accepted | None:
        self._ids += len(wishes)
        jobs = [job._replace(id=self._ids - number) for number, (job, _) in enumerate(wishes)]
        if unlucky and jobs[0].unique is None:  # another job has drawn the same id
            ended = [job.id for job in self._store.tables.jobs.values() if job.state in ENDED]
            jobs[0] = jobs[0]._replace(id=(ended or [jobs[0].id])[-1])
        answer = await self.ask(self._desk.submit([Submission(jobs, Request(key, key.encode()))]))
        return answer[0] if answer is not None else None

    def _answered(self, key: str, accepted: Accepted) -> None:
        if accepted.problem or self.answers.setdefault(key, accepted.ids) != accepted.ids:
            self._books.wrong.append(f"{key} has two answers: {self.answers[key]} and {accepted}")
        if lost := [job for job in accepted.ids if job not in self._store.tables.jobs]:
            self._books.wrong.append(f"{key} was promised {lost}, which are not stored")

    def _wish(self) -> tuple[NewJob, int]:
        random, now = self._random, wall()
        self._tokens += 1
        once = random.random() < 0.25
        task = random.choice(("quick", "quick", "slow", "many"))
        seconds = random.uniform(0.001, 0.004) if task == "quick" else random.uniform(0.05, 3.0)
        fate = Fate(self._tokens, random.choice(ENDS), seconds)
        queue = random.choice(QUEUES)
        delay = random.choice((0, 0, 0, random.uniform(0.1, 3.0)))
        job = NewJob(
            0, queue, None, random.choice((0, 0, 1)), "python", task, (),
            Delivery.AT_MOST_ONCE if once else Delivery.AT_LEAST_ONCE, now + int(delay * MICRO), now,
            Rules(max_attempts=1 if once else 3, max_crashes=3, retry_first=0.2, retry_max=1.0),
            msgspec.json.encode(fate), f"u{random.randint(0, 3)}" if random.random() < 0.1 else None,
            random.randint(1, 3) if queue in ("loose", "other") and random.random() < 0.1 else None,
        )  # fmt: skip
        return job, self._tokens

    # --- meddling --------------------------------------------------------------------------------
    async def meddle(self) -> None:
        """Do one of the things people do."""
        desk, random = self._desk, self._random
        job = random.choice(list(self._store.tables.jobs) or [1])
        path = random.choice(("loose", "other", "new/one"))
        match random.randint(0, 11):
            case 0 | 1:
                await self._cancel(job)
            case 2:
                await self.ask(desk.retry(job))
            case 3:
                await self.ask(desk.resolve(job, random.random() < 0.5, b"1"))
            case 4 | 5:
                await self._edit(job)
            case 6:
                changes = random.choice(
                    ({"limit": 0}, {"limit": 2}, {"paused": True}, {"discipline": "fifo"})
                )
                await self.ask(desk.set_queue(path, dict(changes), replace=random.random() < 0.5))
            case 7:
                await self.ask(desk.set_queue(path, {}, replace=True))
            case 8:
                await self.ask(desk.delete_queue(path))
            case 9:
                await self._look_at_queues()
            case 10:
                jobs = await self._store.find_jobs(list(self._store.tables.jobs)[-20:])
                await self.ask(desk.standing(jobs))
            case 11:
                await self.ask(desk.next_jobs("tight", 10))

    async def _cancel(self, job: int) -> None:
        found = await self.ask(self._desk.cancel(job, self._random.random() < 0.5))
        if found is not None:
            self._books.cancel_answered(job, found.generation, found.state)

    async def _edit(self, job: int) -> None:
        random = self._random
        changes = random.choice(
            (
                {"priority": random.randint(0, 3)},
                {"queue": random.choice(QUEUES)},
                {"run_at": wall() + random.choice((0, MICRO))},
                {"queue": "loose", "priority": 2, "tags": []},
            )
        )
        await self.ask(self._desk.edit(job, dict(changes)))

    async def _look_at_queues(self) -> None:
        for view in await self.ask(self._desk.queues()) or ():
            limit = self._books.limits.get(view.path)
            if limit is not None and (view.settings.limit != limit or view.running > limit):
                self._books.wrong.append(f"{view} has another limit than {limit}, or is over it")

    # --- healing ---------------------------------------------------------------------------------
    async def insist(self, path: str, **settings: int) -> None:
        """Set a queue's settings, whatever it takes."""
        answer = None
        while answer is None:
            answer = await self.ask(self._desk.set_queue(path, dict(settings), replace=True))
            await asyncio.sleep(0.1)

    def all_ended(self) -> bool:
        """Say whether nothing waits or runs any more."""
        return all(job.state in ENDED for job in self._store.tables.jobs.values())
