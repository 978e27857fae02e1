"""A fair queue by itself, served through the contract of a discipline, to see what it leads to."""

from __future__ import annotations

from typing import Any

from fairway.core.disciplines import make_discipline
from fairway.core.model import SLOT, Arrival, QueueSettings, Shape

SHAPE = Shape("command")


def run(discipline: Any, flow: str | None, seconds: float) -> None:
    """Let a job of a flow that was just taken hold a slot for so long."""
    discipline.hold(flow, SLOT)
    discipline.pace.mono += seconds
    discipline.release(flow, SLOT, seconds)


class FairQueue:
    """One queue with `sfq`; jobs are numbered as they come, and stand by the time at which they are due."""

    def __init__(self, **wanted: Any) -> None:
        self.discipline = make_discipline(QueueSettings(discipline="sfq", **wanted))
        self.now = 0
        self.flow: dict[int, str] = {}  # of every job that ever came
        self.begun: list[int] = []

    def put(self, flow: str, jobs: int = 1, delay: int = 0) -> None:
        """Let some jobs of a flow come, due after so many microseconds."""
        for _ in range(jobs):
            job = len(self.flow) + 1
            self.flow[job] = flow
            self.discipline.put(Arrival(job, "q", flow, 0, SHAPE, self.now + delay))

    def due(self, flow: str) -> bool:
        """Say whether a job of this flow could begin now."""
        return any(self.flow[job] == flow for job in self.discipline.order(self.now, len(self.flow)))

    def begin(self) -> str | None:
        """Begin one job and return its flow; None if nothing is due."""
        offer = self.discipline.offer(lambda shape: True, self.now)
        if offer is None:
            return None
        assert self.discipline.take(offer, 1, self.now).jobs == [offer.job]
        self.begun.append(offer.job)
        return self.flow[offer.job]

    def serve(self, begins: int, seconds: float | None = None) -> list[str]:
        """Run so many jobs, or all there are, one after the other for those seconds; return their flows."""
        served: list[str] = []
        while len(served) < begins and (flow := self.begin()) is not None:
            if seconds is not None:
                run(self.discipline, flow, seconds)
            served.append(flow)
        return served
