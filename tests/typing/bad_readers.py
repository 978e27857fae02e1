"""Readers of the core that would change it: mypy --strict must complain about each line marked `# E:`."""

from __future__ import annotations

from fairway.core.disciplines.foreseen import FlowLook
from fairway.core.look import QueueLook, WorldLook
from fairway.core.model import Arrival, Shape


def read_world(world: WorldLook, job: Arrival) -> None:
    world.tree.grow("acme")  # E: attr-defined
    world.tree.pass_time(0)  # E: attr-defined
    world.tree.put(job, 0)  # E: attr-defined
    world.tree.queues["acme"] = world.tree.root  # E: index
    world.tree.turns = 3  # E: misc
    world.numbers.forget(world.tree.root)  # E: attr-defined
    world.forecasts.began([1], 0.0)  # E: attr-defined
    world.live.clear()  # E: attr-defined


def read_queue(queue: QueueLook, job: Arrival, shape: Shape) -> None:
    queue.own.put(job)  # E: attr-defined
    queue.own.offer(shape.is_like, 0)  # E: attr-defined
    queue.own.shapes(0)  # E: attr-defined
    queue.own.next_due(0)  # E: attr-defined
    queue.own.hold(None, 1)  # E: attr-defined
    queue.held += 1  # E: misc


def read_flow(flow: FlowLook) -> None:
    flow.pass_time(0)  # E: attr-defined
    flow.served = 0  # E: misc
