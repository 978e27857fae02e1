"""Workers come, beat, fall silent and go. A lease is judged by the leader's own monotonic clock.

On connecting, a worker names what it holds. What the leader had begun for it and it does not name is sent
again (same attempt). What it holds that is not its own any more it is told to forget. A worker that does not
come back loses its attempts when its lease ends; an attempt that its living worker does not name for a
whole lease is lost as well, for then the begin never reached it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairway.core.endings import hand_back, lose, report
from fairway.core.events import Joined
from fairway.core.model import SLOT, Held, Moment, WorkerSpec
from fairway.core.plan import Kill, News, Resend, Steer
from fairway.core.world import Worker, World


def join(world: World, event: Joined, now: Moment) -> None:
    """Take a worker in, or back."""
    spec = event.spec
    if event.predecessor and event.predecessor != spec.incarnation:
        bury(world, event.predecessor, "its worker process ended and a new one took its name", now)
    worker = world.workers.get(spec.incarnation) or expect(world, spec, now)
    news = not worker.connected
    spec = _steered(world, worker, event, now)
    world.assign(worker, spec)
    _measure(world, worker)
    worker.connected, worker.heard_at, worker.about = True, now.mono, dict(event.about)
    worker.refusing = False
    worker.joined_at = now.wall if worker.joined_at is None else worker.joined_at
    report(world, spec.incarnation, event.results, event.luck, now)
    _renew_holds(world, worker, event.holds, now)
    _send_again(world, worker, event.holds)
    if news:
        world.plan.batch.news.append(
            News("worker.joined", now.wall, worker=spec.name, detail={"slots": spec.slots})
        )


def _steered(world: World, worker: Worker, event: Joined, now: Moment) -> WorkerSpec:
    """Return what a worker is with what people gave it, and tell it where it does not know that."""
    said = spec = event.spec
    if worker.attached is not None:
        spec = replace(spec, queues=worker.attached)
    if worker.given_slots is not None:
        spec = replace(spec, slots=worker.given_slots)
    if worker.steered is None:
        worker.draining |= event.draining
    is_news, worker.untold = worker.steered != event.draining or worker.untold, False
    draining = worker.steered if is_news else None
    if spec != said or draining is not None:
        slots = spec.slots if spec.slots != said.slots else None
        queues = spec.queues if spec.queues != said.queues else None
        until = worker.drain_until if draining else None
        left = None if until is None else max(until - now.mono, 0.0)
        world.plan.steers.append(Steer(spec.incarnation, slots, queues, draining, left))
    return spec


def expect(world: World, spec: WorkerSpec, now: Moment) -> Worker:
    """Give a worker a lease that starts now, whether or not it is connected yet."""
    worker = world.workers[spec.incarnation] = Worker(spec, world.kind_of(spec), now.mono)
    return worker


def renew(
    world: World, incarnation: str, holds: Sequence[Held], about: Mapping[str, object], now: Moment
) -> None:
    """Prolong a worker's lease and that of each attempt it names."""
    worker = world.workers.get(incarnation)
    if worker is None:
        # It was buried while it stood still. Only a hello says what it is, so it has to connect again.
        world.acks(incarnation).lost += [held[:2] for held in holds]
        world.plan.strangers.append(incarnation)
        return
    worker.heard_at, worker.refusing = now.mono, False
    if about:
        worker.about.update(about)
    _renew_holds(world, worker, holds, now)


def leave(world: World, incarnation: str) -> None:
    """A worker's connection is gone: nothing more is sent to it, but its lease runs on."""
    worker = world.workers.get(incarnation)
    if worker is not None:
        worker.connected = False


def drain(world: World, incarnation: str) -> None:
    """A worker takes no more; what it holds it finishes or hands back."""
    worker = world.workers.get(incarnation)
    if worker is not None:
        worker.draining, worker.steered = True, None


def part(world: World, incarnation: str, now: Moment) -> None:
    """A worker said goodbye: a begin that crossed it on the way never started, and costs nothing."""
    worker = world.workers.get(incarnation)
    if worker is not None:
        # Not at-most-once work: if the word that it was stopped got lost, it must not start again. It is
        # lost with its worker below, and ends as unknown.
        held = [
            Held(live.job, live.attempt, started=False)
            for live in worker.live.values()
            if not live.shape.once
        ]
        hand_back(world, incarnation, held, now)
        bury(world, incarnation, "it said goodbye", now)


def bury(world: World, incarnation: str, why: str, now: Moment) -> None:
    """A worker is dead for sure, or its lease is over: its attempts are lost."""
    worker = world.workers.pop(incarnation, None)
    if worker is None:
        return
    world.dismiss(worker, worker.kind)
    for live in list(worker.live.values()):
        lose(world, live, why, now)
    world.plan.batch.news.append(News("worker.left", now.wall, worker=worker.spec.name, detail={"why": why}))


def expire(world: World, now: Moment) -> None:
    """Judge the leases, unless this leader is new or was late itself."""
    late = world.planned_at is not None and now.mono - world.planned_at > world.timers.beat
    if world.planned_at is None or late:
        world.patient_until = now.mono + world.timers.lease
    world.planned_at = now.mono
    if now.mono < max(world.patient_until, world.judged_at + world.timers.beat / 4):
        return
    world.judged_at = now.mono
    for worker in list(world.workers.values()):
        _judge(world, worker, now)


def _judge(world: World, worker: Worker, now: Moment) -> None:
    """Take from a worker what it did not renew. A silent one is buried when nothing is left to wait for."""
    timers = world.timers
    silent = worker.heard_at < now.mono - timers.lease
    why = f"its worker {'was not heard of' if silent else 'did not name it'} for a whole lease"
    for live in list(worker.live.values()):
        lease = timers.kill_lease if live.kill else timers.lease
        begun = live.attempt > 0  # else its begin is not even written
        last_seen = min(worker.heard_at, live.named_at)
        if begun and last_seen < now.mono - lease:
            lose(world, live, why, now, last_seen)
    worker.refusing |= silent  # it gets nothing more before its next beat
    if silent and not worker.live:
        bury(world, worker.spec.incarnation, "its worker was not heard of for a whole lease", now)


def _measure(world: World, worker: Worker) -> None:
    """Count what is free. Attempts that an earlier leader began are sized by what is known now."""
    spec, kind = worker.spec, worker.kind
    found = [live for live in worker.live.values() if live.found]
    whole = [live for live in found if not kind.is_async(live.shape)]
    part = (
        SLOT if len(whole) <= spec.slots else spec.slots * SLOT // len(whole)
    )  # some shared a slot as a bundle
    for live in found:
        size = SLOT // spec.async_per_slot if kind.is_async(live.shape) else part
        world.tree.hold(live.queue, 0, size - live.size, live.flow)
        live.size = size
    worker.free = spec.slots * SLOT - sum(live.size for live in worker.live.values())
    worker.ahead = sum(live.size for live in worker.live.values() if live.ahead)
    worker.brief = sum(live.size for live in worker.live.values() if live.is_brief)


def _renew_holds(world: World, worker: Worker, holds: Sequence[Held], now: Moment) -> None:
    for held in holds:
        live = worker.live.get(held.job)
        if live is not None and live.attempt == held.attempt:
            live.named_at = now.mono
            if live.cancelling:  # the word may have been lost on the way
                world.plan.kills.append(Kill(live.incarnation, live.job, live.attempt, live.force))
            elif live.recalled:
                world.plan.kills.append(Kill(live.incarnation, live.job, live.attempt, False, "stopped"))
        elif world.ended_before(held.job, held.attempt, worker.spec.incarnation):
            world.acks(worker.spec.incarnation).done.append((held.job, held.attempt))
        else:
            world.acks(worker.spec.incarnation).lost.append((held.job, held.attempt))


def _send_again(world: World, worker: Worker, holds: Sequence[Held]) -> None:
    named = {(held.job, held.attempt) for held in holds}
    missing = tuple(live.job for live in worker.live.values() if (live.job, live.attempt) not in named)
    if missing:
        world.plan.resends.append(Resend(worker.spec.incarnation, missing))
