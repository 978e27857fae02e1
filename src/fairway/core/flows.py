"""The flows of a fair queue as people see them: the busiest, put together when somebody asks.

While jobs come and go nothing is kept for this but what the book of numbers counts anyway. A look walks once
over the lines that wait and the attempts that run, and looks closer at those flows only that it will show.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import nlargest
from typing import NamedTuple, Protocol, runtime_checkable

from fairway.core.look import QueueLook, WorldLook
from fairway.core.model import SLOT, Arrival, Moment
from fairway.core.numbers import Numbers
from fairway.core.world import Live


class FlowNow(NamedTuple):
    """A flow of a queue, now; None is the jobs without one."""

    flow: str | None
    waiting: int  # due jobs
    running: int  # attempts
    oldest: int | None  # the least place of its jobs, if one is due
    numbers: Numbers
    slot_seconds: float
    weight: float
    share: float | None  # of what its queue began lately, or of the slot-seconds where those are charged


@runtime_checkable
class HasFlows(Protocol):
    """What a discipline has whose flows take turns."""

    @property
    def by_seconds(self) -> bool:
        """Whether its flows are charged for seconds."""

    def due_by_flow(self, now: int) -> dict[str | None, int]:
        """Count the jobs that are due, flow by flow."""

    def oldest_in_flow(self, flow: str | None) -> int | None:
        """Return the least place of a job of this flow."""

    def weight_of(self, flow: str | None) -> float:
        """Return what a flow's turn counts for."""


@runtime_checkable
class RanksFlows(Protocol):
    """What a discipline has that knows where a job stands in its flow."""

    def ahead_in_flow(self, arrival: Arrival, now: int) -> int:
        """Count the due jobs of a job's own flow that come before it, as `ahead` does."""


def busiest(world: WorldLook, queue: QueueLook, most: int, now: Moment) -> list[FlowNow]:
    """Return the flows of which most runs, then waits, then began lately; none where they take no turns."""
    if not isinstance(queue.own, HasFlows):
        return []
    look = _Look(world, queue, queue.own, now)
    return [look.show(flow) for flow in look.busiest(most)]


class _Look:
    """One look at all flows of a queue."""

    def __init__(self, world: WorldLook, queue: QueueLook, own: HasFlows, now: Moment) -> None:
        self._own, self._now = own, now
        self._whole = world.numbers.find(queue)
        self._counted = world.numbers.flows(queue)
        self._uncounted = Numbers(now.mono)  # of a flow that came before this leader, or was forgotten
        self._waiting = own.due_by_flow(now.wall)
        self._running: defaultdict[str | None, list[Live]] = defaultdict(list)
        for live in world.live.values():
            if live.queue is queue:
                self._running[live.flow].append(live)

    def busiest(self, most: int) -> list[str | None]:
        """Name the flows to show. In three steps: one key for all took twice as long for 100,000 flows."""
        running, waiting, counted = self._running, self._waiting, self._counted
        shown = nlargest(most, running, key=lambda flow: (len(running[flow]), waiting.get(flow, 0)))
        others = [flow for flow in waiting if flow not in running]
        shown += nlargest(most - len(shown), others, key=waiting.__getitem__)
        if len(shown) < most:
            idle = [flow for flow in counted if flow not in running and flow not in waiting]
            shown += nlargest(most - len(shown), idle, key=lambda flow: counted[flow].started)
        return shown

    def show(self, flow: str | None) -> FlowNow:
        now, numbers = self._now, self._counted.get(flow, self._uncounted)
        waiting, running = self._waiting.get(flow, 0), self._running.get(flow, [])
        held = sum(live.size / SLOT * (now.mono - live.begun_at) for live in running if not live.ahead)
        return FlowNow(
            flow=flow,
            waiting=waiting,
            running=len(running),
            oldest=self._own.oldest_in_flow(flow) if waiting else None,
            numbers=numbers,
            slot_seconds=numbers.slot_seconds + held,
            weight=self._own.weight_of(flow),
            share=self._share(numbers),
        )

    def _share(self, own: Numbers) -> float | None:
        if self._whole is None:
            return None
        part, whole = own.started, self._whole.started
        if self._own.by_seconds:
            part, whole = own.held, self._whole.held
        return part / whole if whole > 0.0 else None
