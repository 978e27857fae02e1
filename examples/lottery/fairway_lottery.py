"""A discipline that draws lots: who is next is chance, but the same chance every time it is asked.

Each job has a number that is drawn from its id. The least number is next; a higher priority draws more often
and keeps its best.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from fairway.core.discipline import Offer, Served
from fairway.core.model import Arrival, QueueSettings, Shape


class Ticket(NamedTuple):
    """A job and the number it drew."""

    number: float
    job: Arrival


class Lottery:
    """Serves by lot. Looks at all its jobs for each choice: right for queues of hundreds, not of millions."""

    name = "lottery"
    by_seconds = False

    def __init__(self, settings: QueueSettings) -> None:
        self._jobs: dict[int, Ticket] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, arrival: Arrival) -> None:
        draws = random.Random(arrival.job)
        best = min(draws.random() for _ in range(max(arrival.priority, 0) + 1))
        self._jobs[arrival.job] = Ticket(best, arrival)

    def remove(self, arrival: Arrival) -> bool:
        return self.holds(arrival) and self._jobs.pop(arrival.job) is not None

    def offer(self, fits: Callable[[Shape], bool], now: int) -> Offer | None:
        drawn = next((job for job in self._drawn(now) if fits(job.shape)), None)
        if drawn is None:
            return None
        return Offer(drawn.job, drawn.shape, drawn.priority, drawn.flow, drawn.place, None)

    def take(self, offer: Offer, most: int, now: int) -> Served:
        del self._jobs[offer.job]
        return Served([offer.job], [offer.place], False)

    def hold(self, flow: str | None, units: int) -> None:
        """Chance asks for nothing."""

    def release(self, flow: str | None, units: int, seconds: float) -> None:
        """Chance asks for nothing."""

    def wait(self, flow: str | None, units: int, seconds: float) -> None:
        """Chance asks for nothing."""

    def refusal(self, coming: Mapping[str | None, int]) -> str | None:
        return None

    def surplus(self, arrival: Arrival) -> Arrival | None:
        return None

    def shapes(self, now: int) -> Collection[Shape]:
        return {job.shape for job in self._drawn(now)}

    def next_due(self, now: int) -> int | None:
        return min((one.job.place for one in self._jobs.values() if one.job.place > now), default=None)

    def due_count(self, now: int) -> int:
        return len(self._drawn(now))

    def holds(self, arrival: Arrival) -> bool:
        found = self._jobs.get(arrival.job)
        return found is not None and found.job.place == arrival.place

    def due_by_shape(self, now: int) -> dict[Shape, int]:
        return dict(Counter(job.shape for job in self._drawn(now)))

    def ahead(self, arrival: Arrival, now: int, fits: Callable[[Shape], bool] | None = None) -> int:
        drawn = [job for job in self._drawn(now) if fits is None or fits(job.shape) or job.job == arrival.job]
        return [job.job for job in drawn].index(arrival.job)

    def order(self, now: int, most: int, fits: Callable[[Shape], bool] | None = None) -> Iterator[int]:
        return iter([job.job for job in self._drawn(now) if fits is None or fits(job.shape)][:most])

    def oldest(self) -> int | None:
        return min((one.job.place for one in self._jobs.values()), default=None)

    def adapt(self, settings: QueueSettings) -> bool:
        return True

    def drain(self) -> Iterator[Arrival]:
        jobs, self._jobs = self._jobs, {}
        return (one.job._replace(queue="") for one in jobs.values())

    def _drawn(self, now: int) -> list[Arrival]:
        """Return the due jobs in the order of their numbers."""
        due = [one for one in self._jobs.values() if one.job.place <= now]
        return [one.job for one in sorted(due)]
