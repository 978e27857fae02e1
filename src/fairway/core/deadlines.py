"""Which waiting jobs have a deadline, and whose comes first. Owned by the tree.

Few jobs have one. Those that have stand here as well as in their line, whole: lines keep no deadlines. A
heap says who is next; an entry whose job has left, or has another deadline by now, is passed over when it
comes up. As long as nobody waits with a deadline, nobody pays for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from fairway.core.model import Arrival, Extras

#: Entries of jobs that have left are swept out when there are so many more of them than of the others.
SWEEP = 1000


class Deadlines:
    """Waiting jobs by deadline. `over`: those that have left their line and whose end is to be written."""

    def __init__(self) -> None:
        self._jobs: dict[int, Arrival] = {}
        self._heap: list[tuple[int, int]] = []  # deadline, job
        self.over: dict[int, Arrival] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, arrival: Arrival) -> None:
        """Note a job that waits, if it has a deadline."""
        deadline = deadline_of(arrival)
        if deadline is None:
            return
        before = self._jobs.get(arrival.job)
        self._jobs[arrival.job] = arrival
        if before is None or deadline_of(before) != deadline:
            heappush(self._heap, (deadline, arrival.job))

    def find(self, job: int) -> Arrival | None:
        """Return a job that waits and has a deadline."""
        return self._jobs.get(job)

    def remove(self, job: int) -> None:
        """A job waits no more."""
        self._jobs.pop(job, None)
        if len(self._heap) > 2 * len(self._jobs) + SWEEP:
            self._heap = [(at, one) for at, one in self._heap if self._stands(at, one)]
            heapify(self._heap)

    def begin(self, jobs: Sequence[int]) -> Iterator[tuple[int, Extras | None]]:
        """Jobs begin: yield those that have a deadline with what they must not lose meanwhile."""
        for job in jobs:
            found = self._jobs.get(job)
            if found is not None:
                self.remove(job)
                yield job, found.extras

    def pass_by(self, now: int) -> Iterator[Arrival]:
        """Yield every job whose deadline has come; it is `over` from then on."""
        while self._heap and self._heap[0][0] <= now:
            deadline, job = heappop(self._heap)
            if self._stands(deadline, job):
                arrival = self.over[job] = self._jobs.pop(job)
                yield arrival

    def next(self) -> int | None:
        """Return the next deadline; one of a job that has left may be among them."""
        return self._heap[0][0] if self._heap else None

    def _stands(self, deadline: int, job: int) -> bool:
        found = self._jobs.get(job)
        return found is not None and deadline_of(found) == deadline


def deadline_of(arrival: Arrival) -> int | None:
    """Return a job's deadline, if it has one."""
    return None if arrival.extras is None else arrival.extras.deadline
