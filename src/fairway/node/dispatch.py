"""Act: what was committed goes out to the workers. Nothing here may run before its commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fairway.core.defaults import in_force
from fairway.core.model import DEFAULT_RULES
from fairway.core.plan import Begun, Plan
from fairway.core.world import World
from fairway.node.ports import Port
from fairway.wire import messages as wire

#: Checkpoints in one message, far below the bound of a frame.
MOST_CHECKPOINT_BYTES = 4 * 1024 * 1024


def send_begins(
    ports: Mapping[str, Port],
    world: World,
    begun: Sequence[Begun],
    bundles: Mapping[int, int],
    term: int,
    checkpoints: Mapping[int, bytes] | None = None,
) -> None:
    """Send committed begins, one message a worker, one more of those ahead.

    Without a connection they wait for its next hello.
    """
    by_worker: dict[tuple[str, bool], list[wire.Assignment]] = {}
    for job, attempt, generation, tries, _, _, rules, _, payload in begun:
        live = world.live.get(job)
        if live is None or live.attempt != attempt:
            continue
        shape, of_queue = live.shape, live.queue.rules
        if of_queue is not DEFAULT_RULES:
            rules = in_force(rules, of_queue)
        assignment = wire.Assignment(
            job, attempt, shape.adapter, shape.task, payload, rules.timeout, live.queue.path,
            bundles.get(job, 0), generation, live.kill, rules.grace, None, shape.once, tries,
        )  # fmt: skip
        if checkpoints and job in checkpoints:
            assignment = assignment._replace(checkpoint=checkpoints[job])
        to = live.incarnation, live.ahead
        assignments = by_worker.get(to)
        if assignments is None:
            by_worker[to] = [assignment]
        else:
            assignments.append(assignment)
    for (incarnation, ahead), assignments in by_worker.items():
        port = ports.get(incarnation)
        if port is not None:
            for some in in_parts(assignments) if checkpoints else (assignments,):
                port.send(wire.Begin(term, some, ahead))


def send_steers(ports: Mapping[str, Port], plan: Plan, term: int) -> None:
    """Tell workers what to offer, before begins: one that drained would give them back."""
    for incarnation, slots, queues, draining, deadline_seconds in plan.steers:
        port = ports.get(incarnation)
        if port is not None:
            globs = None if queues is None else list(queues)
            port.send(wire.Adjust(term, slots, globs, draining, deadline_seconds))


def send_rest(ports: Mapping[str, Port], plan: Plan, term: int) -> None:
    """Send the plan's acknowledgements and stops; let strangers go, so that they come back with a hello."""
    for incarnation, acks in plan.acks.items():
        port = ports.get(incarnation)
        if port is not None and (acks.done or acks.stale or acks.lost):
            port.send(wire.Acks(term, acks.done, acks.stale, acks.lost))
    stops: dict[tuple[str, bool, str], list[wire.Held]] = {}
    for kill in plan.kills:
        alike = kill.incarnation, kill.force, kill.kind
        stops.setdefault(alike, []).append(wire.Held(kill.job, kill.attempt))
    for (incarnation, force, kind), attempts in stops.items():
        port = ports.get(incarnation)
        if port is not None:
            port.send(wire.Stop(term, attempts, force, kind))
    for incarnation in plan.strangers:
        port = ports.get(incarnation)
        if port is not None:
            port.close()


def in_parts(assignments: Sequence[wire.Assignment]) -> Iterator[list[wire.Assignment]]:
    """Cut begins into messages, so that their checkpoints fit."""
    part: list[wire.Assignment] = []
    size = 0
    for assignment in assignments:
        size += len(assignment.checkpoint or b"")
        if part and size > MOST_CHECKPOINT_BYTES:
            yield part
            part, size = [], len(assignment.checkpoint or b"")
        part.append(assignment)
    yield part
