"""What has a deadline and did not begin in time ends as failed, whatever its queue's discipline.

All whose time has come leave their lines before anything begins, so none begins too late. Their ends are
written with this plan; if they are very many, with the next ones too. An attempt that runs is not touched; a
job that comes back after its deadline has its end written beside its return.
"""

from __future__ import annotations

from itertools import islice

from fairway.core import blocked
from fairway.core.endings import blame
from fairway.core.lifecycle import State, Trigger, advance
from fairway.core.model import Moment, Reason
from fairway.core.plan import Drop, News
from fairway.core.retries import describe, note
from fairway.core.world import World

#: Ends written with one plan.
MOST = 5000


def expire(world: World, now: Moment) -> None:
    """End the jobs whose deadline has passed while they waited."""
    deadlines = world.tree.deadlines
    first = deadlines.next()
    if first is not None and first <= now.wall:
        passed = list(deadlines.pass_by(now.wall))
        for arrival in passed if world.blocked else ():
            if arrival.job in world.blocked:
                blocked.forget(world, arrival.job)
        world.tree.give_up(passed, now.wall)
    if deadlines.over:
        _write(world, now)


def _write(world: World, now: Moment) -> None:
    over, batch = world.tree.deadlines.over, world.plan.batch
    state = advance(State.QUEUED, Trigger.EXPIRE)
    error = note("Expired", "its deadline passed before it began")
    outcome = describe(Reason.EXPIRED, error)
    for job in list(islice(over, MOST)):
        arrival = over.pop(job)
        cause = blame(world, arrival.shape, error, job, arrival.queue, now)
        batch.drops.append(Drop(job, state, outcome, now.wall, cause))
        batch.news.append(
            News(
                "job.ended", now.wall, (job,), arrival.queue, state, task=arrival.shape.task,
                detail={"reason": Reason.EXPIRED.value},
            )
        )  # fmt: skip
        world.advice.forget_job(job)
        world.counts.failed += 1
