"""How many jobs may wait in a queue, and what happens to one too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairway.core.model import QueueSettings

REJECT, DROP_NEWEST, DROP_OLDEST = "reject", "drop_newest", "drop_oldest"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Most waiting jobs of one flow, and of the whole queue; None: as many as come."""

    depth: int | None
    capacity: int | None
    overflow: str

    @staticmethod
    def of(settings: QueueSettings) -> Bounds:
        """Read them from settings."""
        return Bounds(settings.depth, settings.capacity, settings.overflow or REJECT)

    @property
    def rejects(self) -> bool:
        """Whether it is the one who comes that goes, and nobody who waits already."""
        return self.overflow == REJECT

    @property
    def drops_oldest(self) -> bool:
        """Whether the oldest job makes room; else the newest goes."""
        return self.overflow == DROP_OLDEST

    def refusal(
        self, waiting: int, of_flow: Mapping[str | None, int], coming: Mapping[str | None, int]
    ) -> str | None:
        """Say why jobs that come, counted by flow, are refused; None if they are taken."""
        if not self.rejects:
            return None
        if self.capacity is not None and waiting + sum(coming.values()) > self.capacity:
            return f"{waiting} jobs wait and its capacity is {self.capacity}"
        for flow, count in coming.items():
            if self.depth is not None and of_flow[flow] + count > self.depth:
                whose = f"flow {flow[:64]!r}" if flow is not None else "jobs without a flow"
                return f"{of_flow[flow]} wait of {whose} and the depth is {self.depth}"
        return None
