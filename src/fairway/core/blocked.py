"""Jobs that wait for others: released when all of those have ended, doomed when one of them did not succeed.

The leader holds each blocked job with what it still waits for, and knows for every awaited job who waits.
What had ended before a blocked job was taken in is told with it, by whoever asked the store. From then on
every plan looks through its own ends and drops before it fills the slots, so that an end and what follows
from it are one commit: no leader can die between the two. When nobody waits, nothing is looked through.

A job of which nobody knows how it went (`unknown`) has not ended for those who wait: they go on when somebody
says how it went, or when it was tried again. A doomed job dooms those who wait for it in turn.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway.core.causes import cause_of
from fairway.core.events import Endings
from fairway.core.lifecycle import State, Trigger, advance
from fairway.core.model import Arrival, Moment, Reason
from fairway.core.naming import show
from fairway.core.plan import CauseSeen, Drop, News, Unblock
from fairway.core.retries import describe, note

if TYPE_CHECKING:
    from fairway.core.world import World

RUN = "run"  # begin once all have ended, however


@dataclass(slots=True)
class Blocked:
    """A job as it will wait once it is released, and the jobs that have not ended yet."""

    arrival: Arrival
    open: set[int]

    @property
    def runs_anyway(self) -> bool:
        """Whether it does not matter to it how the others end."""
        return self.arrival.extras is not None and self.arrival.extras.if_failed == RUN

    def first_open(self) -> int:
        """Return the first job, in the order in which they were named, that it waits for."""
        after = self.arrival.extras.after if self.arrival.extras is not None else ()
        return next(job for job in after if job in self.open)


def admit(world: World, arrival: Arrival) -> None:
    """Take in a job that waits for others; `hear` follows with those that have ended already."""
    after = arrival.extras.after if arrival.extras is not None else ()
    world.blocked[arrival.job] = Blocked(arrival, set(after))
    world.tree.deadlines.put(arrival)
    for job in after:
        world.awaited.setdefault(job, set()).add(arrival.job)


def hear(world: World, ended: Endings, now: Moment) -> None:
    """Take the store's word on jobs that others wait for."""
    for job, state in ended.items():
        _over(world, (job,), state, now)


def settle(world: World, now: Moment) -> None:
    """Release or doom those who waited for what this plan ends."""
    batch = world.plan.batch
    for end in batch.ends:
        _over(world, end.jobs, State(end.state), now)
    looked = 0
    while looked < len(batch.drops):  # those it dooms are added behind
        drop = batch.drops[looked]
        _over(world, (drop.job,), State(drop.state), now)
        looked += 1


def forget(world: World, job: int) -> Blocked:
    """A blocked job waits no longer, for whatever reason."""
    one = world.blocked.pop(job)
    if world.tree.deadlines:
        world.tree.deadlines.remove(job)
    for awaited in one.open:
        waiters = world.awaited[awaited]
        waiters.discard(job)
        if not waiters:
            del world.awaited[awaited]
    return one


def go_to(world: World, job: int, queue: str) -> bool:
    """Let a blocked job wait in another queue once it is released; False if it does so already."""
    one = world.blocked[job]
    if one.arrival.queue == queue:
        return False
    one.arrival = one.arrival._replace(queue=queue)
    world.tree.deadlines.put(one.arrival)
    return True


def _over(world: World, jobs: Collection[int], state: State | None, now: Moment) -> None:
    if state is State.UNKNOWN or world.awaited.keys().isdisjoint(jobs):
        return
    for job in jobs:
        for waiter in sorted(world.awaited.get(job, ())):
            one = world.blocked[waiter]
            if state is not State.SUCCEEDED and not one.runs_anyway:
                _doom(world, forget(world, waiter).arrival, job, state, now)
            elif len(one.open) == 1:
                _release(world, forget(world, waiter).arrival, now)
            else:
                one.open.discard(job)
        world.awaited.pop(job, None)


def _release(world: World, arrival: Arrival, now: Moment) -> None:
    """Let it wait as others do, from now on, or from its own time if that comes later."""
    place = max(arrival.place, now.wall)
    state = advance(State.BLOCKED, Trigger.UNBLOCK)
    if place <= now.wall:
        state = advance(state, Trigger.DUE)
    queue = world.tree.put(arrival._replace(place=place, blocked=False), now.wall)
    world.advice.arrived(queue, 1, now.mono)
    if queue.has_flows:
        world.advice.flow_arrived(queue, arrival.flow, 1)
    world.plan.batch.unblocks.append(Unblock(arrival.job, place))
    _tell(world, "job.unblocked", arrival, state, now)


def _doom(world: World, arrival: Arrival, job: int, state: State | None, now: Moment) -> None:
    failed = advance(State.BLOCKED, Trigger.DOOM)
    how = {State.FAILED: "failed", State.CANCELLED: "was cancelled"}
    fate = "is not known any more" if state is None else how[state]
    said = note("DependencyFailed", f"job {show(job)}, for which it waited, {fate}")
    outcome = describe(Reason.DEPENDENCY, said)
    cause = cause_of(
        arrival.shape.task or arrival.shape.adapter,
        note("DependencyFailed", f"a job for which it waited {fate}"),
    )
    world.plan.batch.causes.append(CauseSeen(cause, now.wall, arrival.job, arrival.queue))
    world.plan.batch.drops.append(Drop(arrival.job, failed, outcome, now.wall, cause.id))
    world.counts.failed += 1
    _tell(world, "job.ended", arrival, failed, now, {"reason": Reason.DEPENDENCY.value})


def _tell(
    world: World, kind: str, arrival: Arrival, state: State, now: Moment, detail: dict[str, str] | None = None
) -> None:
    news = News(kind, now.wall, (arrival.job,), arrival.queue, state, task=arrival.shape.task, detail=detail)
    world.plan.batch.news.append(news)
