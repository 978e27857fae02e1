"""What people ask for: cancel, re-role, settings of queues and workers. Answered after the commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from fairway.core import blocked, notices
from fairway.core.ahead import start_below, start_next
from fairway.core.events import (
    CancelAsked,
    EditAsked,
    QueueAsked,
    QueueDropAsked,
    QueuesAsked,
    Replaced,
    WorkerAsked,
)
from fairway.core.lifecycle import State
from fairway.core.matching import bounds_of
from fairway.core.model import SLOT, Arrival, Moment, QueueSettings, Reason
from fairway.core.plan import Drop, Edit, Flag, Kill, News, QueueChange, Reply, SaveQueue, Steer
from fairway.core.queue import Queue, front_of
from fairway.core.retries import describe, note
from fairway.core.settings import Refusal, changed, show_settings, why_refused
from fairway.core.world import Live, Worker, World

#: Replies that ask the engine to read the job again: it moved since the store was asked.
MOVED = ("moved", "the job moved while it was looked up")


def cancel(world: World, ask: CancelAsked, now: Moment) -> None:
    """End a waiting job at once; stop a running one."""
    live = world.live.get(ask.job.job)
    world.advice.forget_job(ask.job.job)
    if live is not None:
        _stop(world, live, ask.force, now)
        world.plan.replies.append(Reply(ask.ticket, "cancelling"))
    elif _take_out(world, ask.job, now):
        _drop(world, ask.job, Reason.CANCELLED, note("Cancelled", "cancelled while it waited"), now)
        world.plan.replies.append(Reply(ask.ticket, "cancelled"))
    else:
        world.plan.replies.append(Reply(ask.ticket, error=MOVED))


def _take_out(world: World, job: Arrival, now: Moment) -> bool:
    """Let a job wait no longer, for its turn or for others; False if it is not where the store saw it."""
    if job.job in world.blocked:
        blocked.forget(world, job.job)
        return True
    if job.job in world.aside:
        world.aside.discard(job.job)
        notices.watch(world, job)  # it was never taken in
        return True
    return world.tree.remove(job, now.wall)


def give_up(world: World, job: Arrival, now: Moment) -> None:
    """End a waiting job because more wait than may."""
    world.tree.remove(job, now.wall)
    _drop(world, job, Reason.DROPPED, note("Dropped", f"queue '{job.queue}' holds no more"), now)


def replace_jobs(world: World, event: Replaced, now: Moment) -> None:
    """End those that wait, known here or not yet; those that run go on, but are not tried again."""
    for job in event.arrivals:
        world.advice.forget_job(job.job)
        live = world.live.get(job.job)
        if live is not None:
            live.replaced = True
            continue
        _take_out(world, job, now)
        notices.watch(world, job)  # it may not be known here yet
        world.tree.deadlines.over.pop(job.job, None)
        _drop(world, job, Reason.REPLACED, note("Replaced", "a newer job took its unique key"), now)


def _drop(world: World, job: Arrival, reason: Reason, error: bytes, now: Moment) -> None:
    """Write down that a job which waited ended without a begin, and tell why."""
    world.plan.batch.drops.append(Drop(job.job, State.CANCELLED, describe(reason, error), now.wall))
    world.counts.cancelled += 1
    world.plan.batch.news.append(
        News(
            "job.ended", now.wall, (job.job,), job.queue, State.CANCELLED, task=job.shape.task,
            detail={"reason": reason.value},
        )
    )  # fmt: skip


def edit(world: World, ask: EditAsked, now: Moment) -> None:
    """Move a waiting job to where it shall stand."""
    ask = _placed(world, ask, now)
    if ask.job.job in world.live:
        error = (
            "running",
            "the job is running; relocate, requeue or cancel it, or wait for its end",
        )
        world.plan.replies.append(Reply(ask.ticket, error=error))
    elif ask.job.job in world.aside:
        error = ("set_aside", "taking the job in ended leaders, so it is set aside; it can only be cancelled")
        world.plan.replies.append(Reply(ask.ticket, error=error))
    elif ask.stand and ask.job.job in world.blocked:
        error = ("blocked", "the job waits for others; it has no place in a line yet")
        world.plan.replies.append(Reply(ask.ticket, error=error))
    elif not _move(world, ask, now):
        world.plan.replies.append(Reply(ask.ticket, error=MOVED))
    else:
        new = ask.new
        make_known(world, new.queue, now)
        world.plan.batch.edits.append(
            Edit(
                new.job,
                new.queue,
                new.flow,
                new.priority,
                new.shape.tags,
                ask.run_at,
                new.place,
                ask.rules,
                new.extras,
                None if new.shape.adapter == ask.job.shape.adapter else new.shape.adapter,
            )
        )
        state = State.SCHEDULED if new.place > now.wall else State.QUEUED
        state = State.BLOCKED if new.job in world.blocked else state
        detail = bounds_of(new.shape) if new.shape.names != ask.job.shape.names else None
        world.plan.batch.news.append(
            News("job.edited", now.wall, (new.job,), new.queue, state, task=new.shape.task, detail=detail)
        )
        world.plan.replies.append(Reply(ask.ticket, "edited"))


def _placed(world: World, ask: EditAsked, now: Moment) -> EditAsked:
    """Give a job the place that it was asked to stand at: in front, where it is due now, or at the end."""
    if ask.stand == "front":
        queue = world.tree.find(ask.new.queue)
        place = now.wall if queue is None else front_of(queue, now.wall)
        return ask._replace(new=ask.new._replace(place=place), run_at=min(ask.run_at, now.wall))
    if ask.stand == "end":
        return ask._replace(new=ask.new._replace(place=max(ask.new.place, now.wall)))
    return ask


def _move(world: World, ask: EditAsked, now: Moment) -> bool:
    """Put a waiting job where it shall stand, or a blocked one where it will; False if it moved meanwhile."""
    new, waits_for_others = ask.new, world.blocked.get(ask.new.job)
    if waits_for_others is not None:
        before = waits_for_others.arrival
        if before[1:6] != ask.job[1:6] or before.extras != ask.job.extras:
            return False
        waits_for_others.arrival = new._replace(blocked=True)
        world.tree.deadlines.remove(new.job)
        world.tree.deadlines.put(new)
        return True
    if any(one.job == new.job for one in world.plan.batch.unblocks):  # the same commit gives it a place
        return False
    if not world.tree.remove(ask.job, now.wall):
        return False
    world.advice.forget_job(new.job)
    world.tree.put(new._replace(blocked=False), now.wall)
    return True


def set_queue(world: World, ask: QueueAsked, now: Moment) -> None:
    """Change a queue's settings; they act on the backlog at the next decision."""
    queue = world.tree.grow(ask.path)
    new = changed(QueueSettings() if ask.replace else queue.settings, ask.changes)
    refusal = why_refused(queue, new)
    if is_moving(world, ask.path):
        reply = Reply(ask.ticket, error=_moving(ask.path))
    elif refusal is None:
        change_queue(world, queue, new, now, ask.who)
        reply = Reply(ask.ticket, ask.path)
    else:
        reply = Reply(ask.ticket, error=("invalid", refusal.reason), field=refusal.field)
    world.tree.ungrow(queue)
    world.plan.replies.append(reply)


def set_queues(world: World, ask: QueuesAsked, now: Moment) -> None:
    """Give queues exactly these settings, if all of them can have them; say which that changes."""
    queues = {path: world.tree.grow(path) for path in sorted(ask.queues)}
    wanted = {queue: changed(QueueSettings(), ask.queues[path]) for path, queue in queues.items()}
    moving = next((path for path in queues if is_moving(world, path)), None)
    refused = find_refused(wanted)
    if moving is not None:
        reply = Reply(ask.ticket, error=_moving(moving))
    elif refused is not None:
        queue, refusal = refused
        error = ("invalid", f"queue '{queue.path}': {refusal.reason}")
        reply = Reply(ask.ticket, error=error, field=f"queues.{queue.path}.{refusal.field}")
    else:
        reply = Reply(ask.ticket, _set_all(world, ask, wanted, now))
    for queue in reversed(queues.values()):
        world.tree.ungrow(queue)
    world.plan.replies.append(reply)


def _set_all(
    world: World, ask: QueuesAsked, wanted: Mapping[Queue, QueueSettings], now: Moment
) -> list[QueueChange]:
    """Change what is not so already, unless this is only a question; return the changes."""
    changes = []
    for queue, new in wanted.items():
        if new != queue.settings or not queue.known:
            changes.append(QueueChange(queue.path, now.wall, ask.who, stored(queue), as_json(new)))
            if not ask.dry:
                change_queue(world, queue, new, now, ask.who)
    return changes


def find_refused(wanted: Mapping[Queue, QueueSettings]) -> tuple[Queue, Refusal] | None:
    """Return the first queue that cannot have its settings when all have theirs, and why."""
    for queue, new in wanted.items():
        refusal = why_refused(queue, new, wanted)
        if refusal is not None:
            return queue, refusal
    return None


def change_queue(world: World, queue: Queue, settings: QueueSettings, now: Moment, who: str) -> None:
    """Give a queue new settings, write them down with who did it, and tell."""
    if settings == queue.settings and queue.known:
        return
    change = QueueChange(queue.path, now.wall, who, stored(queue), as_json(settings))
    start_below(world, queue, now)
    world.tree.set(queue, settings, now.wall)
    if settings.paused or settings.limit == 0:
        world.advice.forget_branch(queue)
    make_known(world, queue.path, now, force=True)
    world.plan.batch.changes.append(change)
    detail = show_settings(settings) | {"by": who}
    world.plan.batch.news.append(News("queue.changed", now.wall, queue=queue.path, detail=detail))


def as_json(settings: QueueSettings) -> bytes:
    """Write settings as they are stored."""
    return json.dumps(show_settings(settings)).encode()


def stored(queue: Queue) -> bytes | None:
    """Return a queue's row as it is; None if there is none."""
    return as_json(queue.settings) if queue.known else None


def is_moving(world: World, path: str) -> bool:
    """Say whether a queue is in a branch that is being moved away."""
    return bool(world.tree.moving) and world.tree.way_of(path) != path


def _moving(path: str) -> tuple[str, str]:
    return "moving", f"queue '{path}' is being moved; wait until that is over"


def drop_queue(world: World, ask: QueueDropAsked, now: Moment) -> None:
    """Forget a queue that holds nothing."""
    queue = world.tree.find(ask.path)
    if queue is None or queue.parent is None:
        reply = Reply(ask.ticket, error=("not_found", f"there is no queue '{ask.path}'"))
    elif queue.waiting or queue.in_use or queue.children or _blocked_in(world, queue):
        holds = f"{queue.waiting} waiting, {_blocked_in(world, queue)} blocked, {queue.in_use} running, "
        holds += f"{len(queue.children)} queues below"
        reply = Reply(ask.ticket, error=("not_empty", f"queue '{ask.path}' is not empty: {holds}"))
    elif ask.path in world.tree.moving.values() or is_moving(world, ask.path):
        reply = Reply(ask.ticket, error=_moving(ask.path))
    else:
        forget_queue(world, queue, now, ask.who)
        reply = Reply(ask.ticket, ask.path)
    world.plan.replies.append(reply)


def forget_queue(world: World, queue: Queue, now: Moment, who: str) -> None:
    """Take a queue that holds nothing out of the world, with its row and its numbers."""
    if queue.known:
        world.plan.batch.changes.append(QueueChange(queue.path, now.wall, who, stored(queue), None))
    world.tree.prune(queue)
    world.advice.forget_queue(queue)
    world.plan.batch.queues.append(SaveQueue(queue.path, None, now.wall))
    world.plan.batch.news.append(News("queue.deleted", now.wall, queue=queue.path, detail={"by": who}))


def _blocked_in(world: World, queue: Queue) -> int:
    """Count the jobs that wait for others and will stand in this queue."""
    return sum(one.arrival.queue == queue.path for one in world.blocked.values())


def set_worker(world: World, ask: WorkerAsked, now: Moment) -> None:
    """Attach a worker to other queues, give it other slots, let it take no more, or take work again."""
    found = [worker for worker in world.workers.values() if worker.spec.name == ask.name]
    if not found:
        world.plan.replies.append(Reply(ask.ticket, error=("not_found", f"there is no worker '{ask.name}'")))
        return
    for worker in found:
        _steer(world, worker, ask, now)
    detail = {
        name: value
        for name in ("queues", "draining", "slots", "deadline_seconds")
        if (value := getattr(ask, name)) is not None
    }
    world.plan.batch.news.append(News("worker.changed", now.wall, worker=ask.name, detail=detail))
    world.plan.replies.append(Reply(ask.ticket, ask.name))


def _steer(world: World, worker: Worker, ask: WorkerAsked, now: Moment) -> None:
    """Change one worker, and let it know: its next hello, maybe to another leader, shall say the same."""
    spec = worker.spec
    if ask.queues is not None:
        worker.attached = ask.queues
        spec = replace(spec, queues=ask.queues)
    if ask.slots is not None:
        worker.given_slots = ask.slots
        worker.free += (ask.slots - spec.slots) * SLOT  # below 0 while more runs than there are slots
        spec = replace(spec, slots=ask.slots)
        start_next(world, worker, now)
    if ask.draining is not None:
        worker.draining = worker.steered = ask.draining
        worker.refusing &= ask.draining
        worker.drain_until = None if ask.deadline_seconds is None else now.mono + ask.deadline_seconds
        worker.untold = not worker.connected
    world.assign(worker, spec)
    world.plan.steers.append(
        Steer(spec.incarnation, ask.slots, ask.queues, ask.draining, ask.deadline_seconds)
    )


def make_known(world: World, path: str, now: Moment, force: bool = False) -> None:
    """See to it that a queue, and those above it, have rows in the store."""
    for queue in world.tree.grow(path).path_up():
        if queue.parent is None or (queue.known and not force):
            return
        queue.known, force = True, False
        world.plan.batch.queues.append(SaveQueue(queue.path, as_json(queue.settings), now.wall))


def _stop(world: World, live: Live, force: bool, now: Moment) -> None:
    if live.cancelling and (live.force or not force):
        return
    news = not live.cancelling
    live.cancelling, live.force = True, force
    if news:
        flag(world, live, now)
    world.plan.kills.append(Kill(live.incarnation, live.job, live.attempt, force))


def flag(world: World, live: Live, now: Moment) -> None:
    """Write down that a running attempt is being cancelled."""
    world.plan.batch.flags.append(Flag(live.job, live.attempt, live.incarnation))
    world.plan.batch.news.append(
        News("job.cancelling", now.wall, (live.job,), live.queue.path, State.RUNNING, task=live.shape.task)
    )
