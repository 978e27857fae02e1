"""How attempts end: reported, lost, handed back. Each is judged once and becomes one record.

A report on an attempt that is not live, or not this worker's, is stale: counted, refused and dropped. It
may still be the late word on an `unknown` job, which only the store can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from fairway.core.ahead import start, start_next
from fairway.core.causes import cause_of
from fairway.core.defaults import in_force
from fairway.core.lifecycle import State, Trigger, advance
from fairway.core.matching import bounds_of
from fairway.core.model import CLEAN, SLOT, Held, Ledger, Moment, Reason, Result, Shape
from fairway.core.plan import CauseSeen, End, News, Resolve, Return
from fairway.core.retries import MICRO, Judgement, describe, judge, note, recent
from fairway.core.world import Live, Worker, World

#: What befalls an attempt that failed, whether or not the job is tried again.
FAILURES = frozenset({Trigger.FAIL, Trigger.RETRY, Trigger.LOSE, Trigger.CRASH_OUT, Trigger.LOSE_TRACK})

#: How much of a worker's lag is learnt from attempts that began in a free slot: one that idles is the worse.
LAG_UP, LAG_DOWN = 0.5, 0.1


class Ran:
    """How long what went well ran, by task and queue, and held its slots: a report is learnt from as a whole.

    Else the last row of a bundle, maybe a few jobs with a hiccup, would say how long all of them take.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[float, int]] = {}
        self._queues: dict[str, tuple[float, int]] = {}
        self._sizes: dict[float, int] = {}  # by when they began: units of slots that were held since

    def add(self, live: Live, count: int, seconds: float, size: int) -> None:
        """So many attempts that began with this one ran for *seconds* and held *size* altogether."""
        for runs, name in ((self._tasks, live.shape.task), (self._queues, live.queue.path)):
            before = runs.get(name, (0.0, 0))
            runs[name] = before[0] + seconds, before[1] + count
        self._sizes[live.begun_at] = self._sizes.get(live.begun_at, 0) + size

    def teach(self, world: World, mono: float) -> None:
        """Let the world learn it. A turn is what one slot takes, in however many reports it ends."""
        for begun_at, size in self._sizes.items():
            world.tree.learn(mono - begun_at, size / SLOT)
        for estimates, runs in ((world.estimates, self._tasks), (world.queue_estimates, self._queues)):
            for name, (seconds, count) in runs.items():
                if name:
                    estimates.add(name, seconds, count)


def report(world: World, incarnation: str, results: Sequence[Result], luck: float, now: Moment) -> None:
    """Take a worker's word on attempts that ended. Those in a row that went well alike are one record."""
    done, all_live = world.acks(incarnation).done, world.live
    row: list[Live] = []
    value, seconds, alone = b"", 0.0, False
    ran = Ran()
    for result in results:
        job, attempt, kind, body, took, retry_after = result
        live = all_live.get(job)
        if live is None or live.attempt != attempt or live.incarnation != incarnation:
            _late(world, incarnation, result, now)
            continue
        done.append((job, attempt))
        if not 0.0 <= took < inf:  # of a worker in another language
            took = 0.0
        if kind != "ok":
            if kind == "error" and live.shape.task:
                world.estimates.add(live.shape.task, took)
            if live.ahead and took:
                start(world, [live], min(took, now.mono - live.begun_at), now)
            if kind != "stopped" and not live.ahead:
                world.count_ended((live,), took, live.size, now.mono, failed=kind != "cancelled")
            settle(world, live, kind, body, now, luck, retry_after)
            world.remember((job,), attempt, incarnation)
            continue
        if row and (alone or body != value or not _are_alike(row[0], live)):
            _succeed(world, row, value, seconds, ran, now)
            row, seconds = [], 0.0
        if not row:
            alone = not _is_plain(live)
        del all_live[job]  # so that a second word on it is late
        row.append(live)
        value = body
        seconds += took
    if row:
        _succeed(world, row, value, seconds, ran, now)
    ran.teach(world, now.mono)
    if worker := world.workers.get(incarnation):
        start_next(world, worker, now)


def _is_plain(live: Live) -> bool:
    """Say whether an attempt's end may be told with others': nothing ever went wrong, no key is freed."""
    return live.ledger is CLEAN and live.unique is None


def _are_alike(first: Live, live: Live) -> bool:
    """Say whether an attempt that ended as well as a plain one of its worker differs in the job only."""
    return (
        live.begun_at == first.begun_at  # each counts from its own begin
        and live.queue is first.queue
        and live.attempt == first.attempt
        and live.shape is first.shape
        and live.ahead is first.ahead
        # Else one may be short and the other not any more: their worker counts them apart.
        and live.started_at == first.started_at
        and live.ledger is CLEAN
        and live.unique is None
        # Each flow pays for its own seconds: a long job is not to be averaged with another flow's short ones.
        and (not live.queue.own.by_seconds or live.flow == first.flow)
    )


def _succeed(
    world: World,
    row: list[Live],
    value: bytes,
    seconds: float,
    ran: Ran,
    now: Moment,
) -> None:
    """Write down that attempts that are all alike ended well; how long they ran is added to *ran*."""
    first = row[0]
    jobs = [live.job for live in row]
    size = sum([live.size for live in row])
    if first.ahead:
        start(world, row, min(seconds * SLOT / size, now.mono - first.begun_at), now)
    elif first.is_brief and first.started_at is None:
        _learn_lag(first.worker, now.mono - first.begun_at - seconds * SLOT / size)
    on_worker = first.worker.live
    for job in jobs:
        del on_worker[job]
    first.worker.regain(size, first.is_brief)
    world.tree.release(first.queue, len(row), size, now.mono - first.begun_at, first.flow)
    world.count_ended(row, seconds, size, now.mono)
    ran.add(first, len(row), seconds, size)
    _end(world, first, jobs, State.SUCCEEDED, value, first.ledger, now)
    world.remember(jobs, first.attempt, first.incarnation)


def _learn_lag(worker: Worker, seconds: float) -> None:
    """An attempt was over so much later than it took: that is what lies between an end and a begin."""
    more = max(seconds, 0.0) - worker.lag
    worker.lag += more * (LAG_UP if more > 0.0 else LAG_DOWN)


def hand_back(world: World, incarnation: str, attempts: Sequence[Held], now: Moment) -> None:
    """Take attempts back at no cost; one that had started was stopped by its worker."""
    for held in attempts:
        live = world.live.get(held.job)
        if live is None or live.attempt != held.attempt or live.incarnation != incarnation:
            world.stale(incarnation, held.job, held.attempt)
            continue
        world.acks(incarnation).done.append((held.job, held.attempt))
        kind = "stopped" if held.started else "handed_back"
        # A worker that closes or is full would get the job again at once, and give it back, for ever.
        if (live.ahead or live.started_at is not None) and not held.started and not live.recalled:
            live.worker.ahead_from = now.mono + world.timers.ahead_pause
        else:
            live.worker.refusing |= not held.started and not live.bundle and not live.recalled
        if live.ahead and held.started:  # its slot was free sooner than we knew
            start(world, [live], 0.0, now)
        settle(world, live, kind, note("Stopped", "its worker stopped while it ran"), now)
        world.remember((held.job,), held.attempt, incarnation)
    if worker := world.workers.get(incarnation):
        start_next(world, worker, now)


def lose(world: World, live: Live, why: str, now: Moment, last_seen: float | None = None) -> None:
    """An attempt's worker is gone, or never named it within a lease. *last_seen* at work, if not just now."""
    world.counts.lost += 1
    if not live.ahead:
        world.count_ended((live,), now.mono - live.begun_at, live.size, now.mono, failed=True)
    dead = 0.0 if last_seen is None else now.mono - max(live.begun_at, last_seen)
    settle(world, live, "lost", note("WorkerLost", why), now, dead=dead)


def settle(
    world: World,
    live: Live,
    kind: str,
    body: bytes,
    now: Moment,
    luck: float = 0.0,
    retry_after: float = 0.0,
    dead: float = 0.0,
) -> None:
    """Judge an attempt that ended other than well, and write down what follows."""
    judgement = judge(
        kind,
        in_force(live.rules, live.queue.rules),
        live.ledger,
        once=live.shape.once,
        cancelling=live.cancelling,
        now=now.wall,
        window=world.timers.crash_window,
        luck=luck,
        retry_after=retry_after,
    )
    if kind == "crashed":
        world.counts.crashed += 1
    if live.replaced and judgement.reason is None:
        judgement = judgement._replace(trigger=Trigger.CANCEL, reason=Reason.REPLACED)
    state = advance(State.RUNNING, judgement.trigger)
    cause = None
    if (judgement.trigger in FAILURES and kind != "retry_after") or state is State.FAILED:
        cause = blame(world, live.shape, body, live.job, live.queue.path, now)
    world.forget(live, dead)
    if judgement.reason is not None:
        outcome = describe(judgement.reason, body)
        _end(world, live, [live.job], state, outcome, judgement.ledger, now, judgement.reason, cause)
    else:
        _return(world, live, judgement, body, now)


def blame(world: World, shape: Shape, error: bytes, job: int, queue: str, now: Moment) -> str:
    """Write down why an attempt, or a job that never began, failed; return the id of the cause."""
    cause = cause_of(shape.task or shape.adapter, error)
    world.plan.batch.causes.append(CauseSeen(cause, now.wall, job, queue))
    return cause.id


def _end(
    world: World,
    live: Live,
    jobs: list[int],
    state: State,
    outcome: bytes,
    ledger: Ledger,
    now: Moment,
    reason: Reason | None = None,
    cause: str | None = None,
) -> None:
    plan, path = world.plan, live.queue.path
    crashes = ledger.crashes
    if ledger.losses:
        crashes += len(recent(ledger.losses, now.wall, world.timers.crash_window))
    plan.batch.ends.append(
        End(
            jobs, live.attempt, live.incarnation, state, outcome, now.wall, ledger.tries, crashes,
            live.unique, path, cause, live.started_at,
        )
    )  # fmt: skip
    detail = {"reason": reason.value} if reason is not None else None
    if cause is not None and detail is not None:
        detail["cause"] = cause
    plan.batch.news.append(
        News(
            "job.ended", now.wall, jobs, path, state, live.attempt, live.worker.spec.name,
            live.shape.task, detail,
        )
    )  # fmt: skip
    setattr(world.counts, state, getattr(world.counts, state) + len(jobs))


def _return(world: World, live: Live, judgement: Judgement, body: bytes, now: Moment) -> None:
    """Let a job wait again: a retry at its new time, all others at the place they had."""
    retry = judgement.trigger is Trigger.RETRY
    place = now.wall + int(judgement.delay * MICRO) if retry else live.place
    ledger, path = judgement.ledger, live.queue.path
    outcome = describe(Reason.ERROR, body) if retry else None
    world.plan.batch.returns.append(
        Return(
            live.job, live.attempt, live.incarnation, place, place, ledger.tries, ledger.crashes,
            ledger.losses, outcome,
        )
    )  # fmt: skip
    kind, state = ("job.retrying", State.SCHEDULED) if retry else ("job.returned", State.QUEUED)
    detail: dict[str, Any] = {"trigger": judgement.trigger.value}
    if retry:
        detail["run_at"] = place
    if live.recalled:
        detail |= bounds_of(live.shape)
    world.plan.batch.news.append(
        News(
            kind, now.wall, (live.job,), path, state, live.attempt, live.worker.spec.name, live.shape.task,
            detail,
        )
    )  # fmt: skip
    if retry:
        world.counts.retried += 1
    elif judgement.trigger is Trigger.HAND_BACK:
        world.counts.handed_back += 1
    world.tree.put(live.arrival(place), now.wall)


def _late(world: World, incarnation: str, result: Result, now: Moment) -> None:
    """A report on what is no longer this worker's: a repeat, the late word on an unknown job, or stale."""
    if world.ended_before(result.job, result.attempt, incarnation):
        world.acks(incarnation).done.append((result.job, result.attempt))
        return
    world.stale(incarnation, result.job, result.attempt)
    if result.job in world.live or result.attempt < 1:  # 0 would mean: by a person
        return
    succeeded = result.kind == "ok"
    outcome = result.body if succeeded else describe(Reason.RESOLVED, result.body)
    state = State.SUCCEEDED if succeeded else State.FAILED
    world.plan.batch.resolves.append(
        Resolve(result.job, result.attempt, incarnation, state, outcome, now.wall)
    )
