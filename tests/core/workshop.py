"""A workshop: the tree with a number of equal slots and a clock, and jobs that take as long as they are told.

Used to see what a rule leads to: who runs how much, in what order, over thousands of jobs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from fairway.core.model import SLOT, Arrival, QueueSettings, Shape
from fairway.core.queue import Queue
from fairway.core.tree import Tree

SHAPE = Shape("command")


class Everybody:
    """A kind of worker that takes everything."""

    def fits(self, shape: Shape) -> bool:
        return True

    def attached(self, path: str) -> bool:
        return True


class Workshop:
    """Equal slots that are never left idle while something can begin."""

    def __init__(self, slots: int, **settings: QueueSettings) -> None:
        self.tree, self.slots, self.free = Tree(), slots, slots
        self.kind = Everybody()
        self.tree.welcome(self.kind)
        self.tree.fresh = False
        self.begun: list[str] = []  # the queue of each begin, in order
        self.begun_at: list[float] = []
        self.ran: list[Counter[str]] = []  # what ran when each was chosen
        self.slot_seconds: defaultdict[str, float] = defaultdict(float)
        self.running = Counter[str]()
        self.most = Counter[str]()  # the most that ever ran at once
        self._backlog: dict[str, Callable[[], float]] = {}
        self._ends: list[tuple[float, int, Queue, float]] = []
        self._numbers = count(1)
        for path, wanted in settings.items():
            self.set(path.replace("__", "/"), wanted)

    def set(self, path: str, settings: QueueSettings) -> None:
        """Give a queue its settings."""
        self.tree.set(self.tree.grow(path), settings, 0)

    def keep_full(self, *paths: str, seconds: float | Callable[[], float] = 1.0) -> None:
        """Let there always be work in these queues, each job of so many seconds."""
        for path in paths:
            self._backlog[path] = seconds if callable(seconds) else (lambda seconds=seconds: seconds)
            while self.tree.grow(path).own.due_count(0) < 3:
                self._put(path)

    def put(self, path: str, jobs: int = 1, seconds: float = 1.0) -> None:
        """Put some jobs into a queue."""
        self._backlog.setdefault(path + "#", lambda: seconds)
        for _ in range(jobs):
            self._put(path)

    def stop(self, path: str) -> None:
        """Put no more into a queue; what waits there is taken away."""
        self._backlog.pop(path, None)
        queue = self.tree.grow(path)
        for arrival in list(queue.own.drain()):
            for above in queue.path_up():
                above.waiting -= 1
            del arrival
        self.tree._rest(queue, 0)

    def run(self, begins: int = 10**9, until: float = float("inf")) -> Workshop:
        """Work until so many jobs have begun in all, or until that time; returns itself."""
        while True:
            while self.free and len(self.begun) < begins and self._begin():
                pass
            if len(self.begun) >= begins:
                return self
            token = self.tree.alarms.next_token()
            ends = self._ends[0][0] if self._ends else float("inf")
            then = min(ends, token if token is not None else float("inf"))
            if then > until or then == float("inf"):
                self._pass_time(min(until, then) if until < float("inf") else self.tree.mono)
                return self
            self._pass_time(then)
            self.tree.pass_time(0)
            while self._ends and self._ends[0][0] <= then:
                _, _, queue, began = heappop(self._ends)
                self.tree.release(queue, 1, SLOT, then - began, None)
                self.tree.learn(then - began)
                self.running[queue.path] -= 1
                self.free += 1

    def shares(self, *paths: str) -> list[float]:
        """Return what each has had of the slot-seconds that these had together."""
        had = [sum(s for path, s in self.slot_seconds.items() if inside(path, top)) for top in paths]
        return [one / sum(had) for one in had]

    def _begin(self) -> bool:
        found = self.tree.choose(self.kind, 0)
        if found is None:
            return False
        queue, offer = found
        self.tree.take(queue, offer, 1, SLOT, 0)
        path = queue.path
        takes = self._backlog.get(path) or self._backlog[path + "#"]
        began = self.tree.mono
        heappush(self._ends, (began + takes(), next(self._numbers), queue, began))
        self.begun.append(path)
        self.begun_at.append(self.tree.mono)
        self.ran.append(self.running.copy())
        self.running[path] += 1
        self.free -= 1
        for above in queue.path_up():
            self.most[above.path] = max(self.most[above.path], above.in_use)
        if path in self._backlog:
            self._put(path)
        return True

    def _put(self, path: str) -> None:
        number = next(self._numbers)
        self.tree.put(Arrival(number, path, None, 0, SHAPE, -1_000_000_000 + number), 0)

    def _pass_time(self, then: float) -> None:
        for path, running in self.running.items():
            self.slot_seconds[path] += running * (then - self.tree.mono)
        self.tree.mono = then


def inside(path: str, top: str) -> bool:
    """Say whether a queue is *top*, or below it."""
    return path == top or path.startswith(top + "/")
