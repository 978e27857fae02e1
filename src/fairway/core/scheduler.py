"""The core: events go in, one plan comes out. No IO, no clock, no randomness, no locks.

`absorb` changes what the leader knows and notes what must be written; `plan` judges leases, opens what has
become due, fills the free slots and hands over everything noted since the last plan as one batch. The
engine commits it, then acts, then tells. If the commit fails, this object is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.core import arriving, asks, blocked, endings, fleet, loading, moving, notices, recalls
from fairway.core import events as happened
from fairway.core.ahead import start_next
from fairway.core.expiry import expire
from fairway.core.model import DEFAULT_RULES, SLOT, Ledger, Moment, Timers, WorkerSpec
from fairway.core.pins import single_out
from fairway.core.placement import fill
from fairway.core.plan import Plan, Resolve, Revive
from fairway.core.settings import read_settings
from fairway.core.tree import Tree
from fairway.core.world import Live, Worker, World


class Core:
    """One leader's scheduler for one term. Owned by the engine's task."""

    def __init__(self, timers: Timers | None = None, hash_key: bytes = b"") -> None:
        self.world = World(timers or Timers(), Tree(hash_key))

    def absorb(self, event: happened.CoreEvent, now: Moment) -> None:
        """Take in something that happened."""
        self.world.tree.mono = now.mono
        _VERBS[type(event)](self.world, event, now)

    def plan(self, now: Moment) -> Plan:
        """Decide what follows from all that was absorbed, and from the passing of time."""
        world = self.world
        world.tree.mono, world.tree.fresh = now.mono, False
        fleet.expire(world, now)
        expire(world, now)
        world.tree.pass_time(now.wall)
        if world.awaited:
            blocked.settle(world, now)
        if world.singled or world.tree.newly_named:
            single_out(world, now)
        if world.watched:
            notices.settle(world)
        fill(world, now)
        plan, world.plan = world.plan, Plan()
        plan.wake_at = _wake_at(world, now)
        return plan


def _wake_at(world: World, now: Moment) -> float | None:
    wakes = [now.mono + world.timers.beat / 2] if world.workers else []
    due = world.tree.alarms.next_due()
    if due is not None:
        wakes.append(now.mono + max(due - now.wall, 0) / 1_000_000)
    deadline = now.wall if world.tree.deadlines.over else world.tree.deadlines.next()
    if deadline is not None:
        wakes.append(now.mono + max(deadline - now.wall, 0) / 1_000_000)
    token = world.tree.alarms.next_token()
    if token is not None:
        wakes.append(token)
    return min(wakes, default=None)


# --- jobs ----------------------------------------------------------------------------------------------
def _refused(world: World, event: happened.Refused, now: Moment) -> None:
    for job in event.arrivals:
        arrival = job._replace(queue=world.tree.way_of(job.queue))  # as it was put when it came
        world.advice.forget_job(arrival.job)
        world.watched.discard(arrival.job)
        live = world.live.get(arrival.job)
        if live is not None:
            world.forget(live)  # its begin did not happen: there was no such row
        else:
            world.tree.remove(arrival, now.wall)
        world.counts.submitted -= 1


def _revived(world: World, event: happened.Revived, now: Moment) -> None:
    world.aside.discard(event.arrival.job)
    notices.watch(world, event.arrival)
    world.tree.put(event.arrival, now.wall)
    asks.make_known(world, event.arrival.queue, now)


# --- attempts ------------------------------------------------------------------------------------------
def _started(world: World, event: happened.Started, now: Moment) -> None:
    ahead: dict[Worker, None] = {}
    for job, attempt, generation, tries, crashes, losses, rules, unique, _ in event.begun:
        live = world.live.get(job)
        if live is None:
            continue
        live.attempt = attempt
        if live.ahead:
            ahead[live.worker] = None
        if live.kill:  # its worker may count from a beat that was heard while the commit was under way
            live.named_at = now.mono
        if generation:
            live.generation = generation
        if rules is not DEFAULT_RULES:
            live.rules = rules
        if unique is not None:
            live.unique = unique
        if tries or crashes or losses:
            live.ledger = Ledger(tries, crashes, losses)
    for worker in ahead:  # a slot may have become free while the commit was under way
        start_next(world, worker, now)


def _found(world: World, event: happened.Found, now: Moment) -> None:
    worker = world.workers.get(event.incarnation)
    if worker is None:
        spec = WorkerSpec(event.worker, event.incarnation, slots=0, adapters=frozenset())
        worker = fleet.expect(world, spec, now)
    arrival, begun = event.arrival, event.begun
    queue = world.tree.grow(arrival.queue)
    live = Live(arrival.job, queue, arrival.shape, arrival.priority, arrival.place, worker, SLOT, now.mono)
    live.attempt, live.generation, live.rules = begun.attempt, begun.generation, begun.rules
    live.unique, live.cancelling, live.found = begun.unique, event.cancelling, True
    live.ledger = Ledger(begun.tries, begun.crashes, begun.losses)
    live.kill, live.flow, live.extras = world.tree.kills(queue), arrival.flow, arrival.extras
    live.recalled = arrival.extras is not None and arrival.extras.recall == begun.attempt
    notices.watch(world, arrival)
    world.live[live.job] = worker.live[live.job] = live
    worker.free -= live.size
    world.tree.hold(queue, 1, live.size, live.flow)


def _reported(world: World, event: happened.Reported, now: Moment) -> None:
    endings.report(world, event.incarnation, event.results, event.luck, now)


def _handed_back(world: World, event: happened.HandedBack, now: Moment) -> None:
    endings.hand_back(world, event.incarnation, event.attempts, now)


# --- workers -------------------------------------------------------------------------------------------
def _joined(world: World, event: happened.Joined, now: Moment) -> None:
    fleet.join(world, event, now)


def _renewed(world: World, event: happened.Renewed, now: Moment) -> None:
    fleet.renew(world, event.incarnation, event.holds, event.about, now)


def _left(world: World, event: happened.Left, now: Moment) -> None:
    fleet.leave(world, event.incarnation)


def _gone(world: World, event: happened.Gone, now: Moment) -> None:
    fleet.bury(world, event.incarnation, "its worker is gone", now)


def _parted(world: World, event: happened.Parted, now: Moment) -> None:
    fleet.part(world, event.incarnation, now)


def _drained(world: World, event: happened.Drained, now: Moment) -> None:
    fleet.drain(world, event.incarnation)


# --- people --------------------------------------------------------------------------------------------
def _revive_asked(world: World, event: happened.ReviveAsked, now: Moment) -> None:
    world.plan.batch.revives.append(Revive(event.job, now.wall, now.wall))


def _resolve_asked(world: World, event: happened.ResolveAsked, now: Moment) -> None:
    world.plan.batch.resolves.append(Resolve(event.job, 0, "", event.state, event.outcome, now.wall))


def _resolved(world: World, event: happened.Resolved, now: Moment) -> None:
    blocked.hear(world, {event.job: event.state}, now)


def _noted(world: World, event: happened.Noted, now: Moment) -> None:
    world.plan.batch.news.extend(event.news)


def _queue_found(world: World, event: happened.QueueFound, now: Moment) -> None:
    queue = world.tree.grow(event.path)
    queue.known = True
    world.tree.set(queue, read_settings(event.settings), now.wall)


_VERBS: dict[type, Callable[[World, Any, Moment], None]] = {
    happened.Submitted: arriving.submit,
    happened.TakenIn: arriving.take_in,
    happened.Loaded: loading.load,
    happened.Replaced: asks.replace_jobs,
    happened.Refused: _refused,
    happened.Started: _started,
    happened.Found: _found,
    happened.QueueFound: _queue_found,
    happened.Joined: _joined,
    happened.Left: _left,
    happened.Gone: _gone,
    happened.Parted: _parted,
    happened.Drained: _drained,
    happened.Renewed: _renewed,
    happened.Reported: _reported,
    happened.HandedBack: _handed_back,
    happened.CancelAsked: asks.cancel,
    happened.EditAsked: asks.edit,
    happened.RecallAsked: recalls.recall,
    happened.ReviveAsked: _revive_asked,
    happened.Revived: _revived,
    happened.ResolveAsked: _resolve_asked,
    happened.Resolved: _resolved,
    happened.QueueAsked: asks.set_queue,
    happened.QueuesAsked: asks.set_queues,
    happened.QueueDropAsked: asks.drop_queue,
    happened.MoveAsked: moving.begin_move,
    happened.PageAsked: moving.move_page,
    happened.MoveOverAsked: moving.end_move,
    happened.WorkerAsked: asks.set_worker,
    happened.Noted: _noted,
}
