"""The queue tree, said naively: a list of jobs and a scan. What `Tree` must agree with after every step.

Who may begin, who is owed and who is next are found by looking at everything, as the rule is written. Only
how much a member has had so far is read from the tree itself; test_shares.py checks that by its effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fairway.core.model import SLOT, Arrival, QueueSettings, Shape
from fairway.core.tree import Tree


class NaiveTree:
    """All waiting and running jobs in plain dicts."""

    def __init__(self) -> None:
        self.jobs: dict[int, Arrival] = {}
        self.running: dict[int, tuple[str, int]] = {}  # → queue, size
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
        return Counter(path for queue, _ in self.running.values() for path in above(queue))

    def held(self) -> Counter[str]:
        """Count the units of slots that every subtree holds."""
        count = Counter[str]()
        for queue, size in self.running.values():
            for path in above(queue):
                count[path] += size
        return count

    def next_queue(self, tree: Tree, shapes: Iterable[Shape], now: int) -> str | None:
        """Go down from the root, child by child, and return the queue whose own jobs have the turn."""
        open_queues, held = set(self.candidates(shapes, now)), self.held()
        queue = ""
        while True:
            below = {path for path in open_queues if path == queue or is_below(path, queue)}
            if not below:
                return None
            members = {child_of(path, queue) for path in below}
            owed = {name for name in members if self._owed(name, queue, below, held)}
            best = min(owed or members, key=lambda name: self._turn(tree, name, queue, bool(owed), held))
            if best == queue:
                return queue
            queue = best

    def _owed(self, name: str, queue: str, open_queues: set[str], held: Counter[str]) -> bool:
        """Below its assured, or with one below it that is and could begin something."""
        if name == queue:
            return False
        inside = {path for path in open_queues if path == name or is_below(path, name)}
        nodes = {node for path in inside for node in above(path) if node == name or is_below(node, name)}
        return any(held[node] < self._assured(node) for node in nodes)

    def _turn(self, tree: Tree, name: str, queue: str, owed: bool, held: Counter[str]) -> tuple[float, ...]:
        member = tree.queues[name].line if name == queue else tree.queues[name]
        if owed:
            return held[name] / self._assured(name), member.served, member.order
        return -member.priority, member.standing(tree.mono, tree.ahead), member.served, member.order

    def _assured(self, path: str) -> int:
        return (self.settings.get(path, QueueSettings()).assured or 0) * SLOT

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


def is_below(path: str, queue: str) -> bool:
    """Say whether a path lies below a queue."""
    return (queue == "" and path != "") or path.startswith(queue + "/")


def child_of(path: str, queue: str) -> str:
    """Return the member of *queue* that *path* belongs to: a child, or the queue's own jobs."""
    if path == queue:
        return queue
    rest = path[len(queue) + 1 :] if queue else path
    name = rest.split("/", 1)[0]
    return f"{queue}/{name}" if queue else name
