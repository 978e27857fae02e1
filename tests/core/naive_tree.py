"""The queue tree, said naively: a list of jobs and a scan. What `Tree` must agree with after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fairway.core.model import Arrival, QueueSettings, Shape


class NaiveTree:
    """All waiting and running jobs in plain dicts."""

    def __init__(self) -> None:
        self.jobs: dict[int, Arrival] = {}
        self.running: dict[int, str] = {}
        self.settings: dict[str, QueueSettings] = {}

    def candidates(self, shapes: Iterable[Shape], now: int) -> dict[str, list[Arrival]]:
        """Return what may begin now, by queue, each in the order of its discipline."""
        wanted, used, found = set(shapes), self.in_use(), dict[str, list[Arrival]]()
        for job in self.jobs.values():
            if job.place <= now and job.shape in wanted and self._open(job.queue, used):
                found.setdefault(job.queue, []).append(job)
        return {path: sorted(jobs, key=self._rank) for path, jobs in found.items()}

    def in_use(self) -> Counter[str]:
        """Count the live attempts of every subtree."""
        return Counter(path for queue in self.running.values() for path in above(queue))

    def waiting(self) -> Counter[str]:
        """Count the waiting jobs of every subtree."""
        return Counter(path for job in self.jobs.values() for path in above(job.queue))

    def next_due(self, now: int) -> int | None:
        """Return when the next job becomes due that nothing of its own line stands before."""
        due = {self._line(job) for job in self.jobs.values() if job.place <= now}
        waits = [job.place for job in self.jobs.values() if job.place > now and self._line(job) not in due]
        return min(waits, default=None)

    def _open(self, queue: str, used: Counter[str]) -> bool:
        for path in above(queue):
            settings = self.settings.get(path, QueueSettings())
            if settings.paused or (settings.limit is not None and used[path] >= settings.limit):
                return False
        return True

    def _rank(self, job: Arrival) -> tuple[int, int, int]:
        return (-job.priority if self._discipline(job.queue) == "priority" else 0, job.place, job.job)

    def _discipline(self, queue: str) -> str:
        named = (self.settings.get(path, QueueSettings()).discipline for path in above(queue))
        return next((name for name in named if name is not None), "priority")

    def _line(self, job: Arrival) -> tuple[str, Shape, int]:
        return job.queue, job.shape, job.priority


def above(path: str) -> list[str]:
    """Return a queue's path and those above it, the root last."""
    paths = [path]
    while path:
        path = path.rpartition("/")[0]
        paths.append(path)
    return paths
