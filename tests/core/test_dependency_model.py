"""Random webs of jobs, random failures, cancels and take-overs, against the plainest model of what follows.

A leader here is the core with the memory store: taken in, planned, committed, as the engine does it. A new
one finds what the old one left, page by page, while jobs go on ending.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core.lifecycle import ENDED, State
from fairway.core.model import (
    Arrival,
    Delivery,
    Extras,
    Held,
    Moment,
    Result,
    Rules,
    TaskInfo,
    Timers,
    WorkerSpec,
)
from fairway.core.scheduler import Core
from fairway.node.engine import arrival_of_stored
from fairway.store import NewJob, Submission, WaitingPage
from fairway.stores.memory import MemoryStore
from tests.drawing import drawn

START = 1_800_000_000_000_000


class Play:
    """A store, one leader after the other, and one worker that never goes away."""

    def __init__(self, random: Random) -> None:
        self.random, self.store, self.micros, self.term = random, MemoryStore(), 0, 0
        self.begun: list[int] = []
        self.begun_before: dict[int, int] = {}  # how often a job had begun when it was cancelled
        self.take_over()

    @property
    def now(self) -> Moment:
        return Moment(START + self.micros, self.micros / 1e6)

    def take_over(self) -> None:
        """Let a new leader begin with nothing but the store."""
        self.term += 1
        self.store.apply_elect(self.term - 1, f"n{self.term}", "n", "", self.now.wall)
        self.core, self.seen, self.page = Core(Timers()), 0, self.random.randint(1, 4)
        live = self.store.read_live()
        for one in live:
            self.core.absorb(happened.Found(*one), self.now)
        self.backlog = self.store.read_waiting(self.page)
        spec = WorkerSpec("w", "w", 4, frozenset({"command"}), (TaskInfo("t"),))
        holds = [Held(one.arrival.job, one.begun.attempt) for one in live]
        self.core.absorb(happened.Joined(spec, holds, (), None, 0.0, {}), self.now)

    def step(self, *events: happened.CoreEvent) -> None:
        """Take in, plan, write, as the engine does."""
        self.micros += 1000
        page = next(self.backlog, WaitingPage((), (), 0))
        found = self._endings(page.others)
        taken = self.store.read_arrivals(self.seen)
        if taken:
            jobs = [row.job for row in taken]
            numbers = [row.number for row in taken]
            self.seen = numbers[-1]
            self.core.absorb(happened.TakenIn(jobs, numbers, self._endings(jobs)), self.now)
        self.core.absorb(happened.Loaded(page.others, found, page.alike), self.now)
        for event in events:
            self.core.absorb(event, self.now)
        plan = self.core.plan(self.now)
        receipt = self.store.apply_commit(self.term, f"n{self.term}", plan.batch, [], self.now.wall)
        self.core.absorb(happened.Started(receipt.begun), self.now)
        for one in receipt.begun:
            self._check_begin(one.job)
        if receipt.resolved:
            self.step(*(happened.Resolved(job.id, job.state) for job in receipt.resolved))

    def _endings(self, jobs: Sequence[Arrival]) -> dict[int, State | None]:
        named = {one for job in jobs if job.blocked and job.extras for one in job.extras.after}
        return self.store.read_endings(sorted(named))

    def _check_begin(self, job: int) -> None:
        self.begun.append(job)
        row = self.store.tables.jobs[job]
        for name in row.extras.after if row.extras else ():
            assert self.store.tables.jobs[name].state in ENDED - {State.UNKNOWN}

    def state(self, job: int) -> State:
        return self.store.tables.jobs[job].state

    def some(self, *states: State) -> int | None:
        """Return a job in one of these states, if there is one."""
        found = [job for job, row in self.store.tables.jobs.items() if row.state in states]
        return self.random.choice(found) if found else None

    def end(self, fates: dict[int, str]) -> None:
        """Let one that runs end as it is fated to; or be lost, which nobody can say how it went."""
        job = self.some(State.RUNNING)
        if job is None:
            self.step()
            return
        live = self.core.world.live[job]
        if fates[job] == "lost":
            self.core.absorb(happened.Gone("w"), self.now)
            self.step()
            self.take_over()
            return
        body = b"1" if fates[job] == "ok" else b"{}"
        result = Result(job, live.attempt, fates[job], body, 0.001)
        self.step(happened.Reported("w", [result], 0.0))

    def cancel(self) -> None:
        job = self.some(State.BLOCKED, State.QUEUED)
        if job is not None:
            self.begun_before[job] = self.begun.count(job)  # and lost since, with its worker
            arrival = arrival_of_stored(self.store.read_jobs([job])[0])
            self.step(happened.CancelAsked("ticket", arrival, False))

    def resolve(self) -> None:
        job = self.some(State.UNKNOWN)
        if job is not None:
            state = self.random.choice((State.SUCCEEDED, State.FAILED))
            self.step(happened.ResolveAsked(job, state, b"{}"))


def draw_web(random: Random) -> tuple[list[NewJob], dict[int, str]]:
    """Return jobs that wait for some of those before them, under shuffled ids, and how each will end."""
    count = random.randint(1, 14)
    ids = random.sample(range(1, 1000), count)
    jobs, fates = [], {}
    for place, number in enumerate(ids):
        after = tuple(random.sample(ids[:place], random.randint(0, min(place, 3))))
        extras = Extras(after=after, if_failed=random.choice(("fail", "run"))) if after else None
        once = random.random() < 0.2
        fates[number] = random.choice(("ok", "ok", "ok", "permanent", "lost" if once else "ok"))
        jobs.append(
            NewJob(
                number, random.choice("ab"), None, 0, "command", "", (),
                Delivery.AT_MOST_ONCE if once else Delivery.AT_LEAST_ONCE, START, START,
                Rules(max_crashes=None), b"{}", extras=extras,
            )
        )  # fmt: skip
    return jobs, fates


def check_model(play: Play, jobs: list[NewJob], fates: dict[int, str]) -> None:
    """Each job ended as its dependencies and its own fate say, and no other way."""
    for job in jobs:
        row: Any = play.store.tables.jobs[job.id]
        after = job.extras.after if job.extras else ()
        well = all(play.state(name) is State.SUCCEEDED for name in after)
        must_fail = bool(job.extras) and job.extras.if_failed == "fail" and not well
        if row.state is State.CANCELLED:
            assert play.begun.count(job.id) == play.begun_before[job.id]
        elif must_fail:
            assert row.state is State.FAILED and b'"dependency"' in row.outcome and job.id not in play.begun
        elif job.delivery is Delivery.AT_LEAST_ONCE:  # another may be lost with the worker of one that is
            assert row.state is (State.SUCCEEDED if fates[job.id] == "ok" else State.FAILED)
            assert b'"dependency"' not in row.outcome


@drawn(200)
@given(st.randoms(use_true_random=False))
def test_every_job_begins_after_those_it_waits_for_and_fails_just_when_it_must(random: Random) -> None:
    play = Play(random)
    jobs, fates = draw_web(random)
    rest = list(jobs)
    for _ in range(400):
        act = random.random()
        if rest and act < 0.3:
            several = random.randint(1, 3)
            play.store.apply_submit([Submission(rest[:several])], play.now.wall)
            rest = rest[several:]
        elif act < 0.75:
            play.end(fates)
        elif act < 0.85:
            play.take_over()
        elif act < 0.87:
            play.cancel()
        elif act < 0.95:
            play.resolve()
        else:
            play.step()
        if not rest and all(play.state(job.id) in ENDED - {State.UNKNOWN} for job in jobs):
            break
    else:
        raise AssertionError({job.id: str(play.state(job.id)) for job in jobs})
    check_model(play, jobs, fates)
    world = play.core.world
    assert not world.blocked and not world.awaited
