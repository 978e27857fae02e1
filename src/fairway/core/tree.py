"""The queue tree: what may begin next below the root, whatever stands in the way elsewhere.

Queues are nodes by path. A node counts the live attempts of its subtree against its limit. Each node keeps
a ring of the children below which something might begin now; its own jobs are one more member. A child
that is paused, full or has nothing due is not in the ring at all: it is taken out when that becomes so and
put back by the event that ends it, so that a choice never walks over what cannot run. Members take turns:
who was served goes to the end.

Choosing changes nothing; only `take` does. Owned by the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from fairway.core.discipline import Discipline, Offer
from fairway.core.disciplines import DEFAULT, DISCIPLINES
from fairway.core.model import Arrival, QueueSettings, Shape


class Queue:
    """One node of the tree."""

    __slots__ = ("children", "in_use", "known", "own", "parent", "path", "ring", "settings", "waiting")

    def __init__(self, path: str, parent: Queue | None) -> None:
        self.path = path
        self.parent = parent
        self.children: dict[str, Queue] = {}
        self.settings = QueueSettings()
        self.own: Discipline = DISCIPLINES[parent.own.name if parent else DEFAULT]()
        self.in_use = 0  # live attempts in the subtree
        self.waiting = 0  # waiting jobs in the subtree, due or not
        self.ring: dict[Queue, None] = {}  # members below which something might begin; self stands for own
        self.known = False  # the store has a row for it

    def path_up(self) -> Iterator[Queue]:
        """Yield this queue and all above it, the root last."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    @property
    def full(self) -> bool:
        """Whether the limit leaves no room."""
        return self.settings.limit is not None and self.in_use >= self.settings.limit

    @property
    def open(self) -> bool:
        """Whether something below might begin now."""
        return bool(self.ring) and not self.settings.paused and not self.full


class Tree:
    """All queues, and the choice among them."""

    def __init__(self) -> None:
        self.root = Queue("", None)
        self.queues: dict[str, Queue] = {"": self.root}
        self.version = 0  # rises whenever something may have become possible
        self._timers: list[tuple[int, str]] = []
        self._armed: dict[str, int] = {}  # queue → the time its timer stands at
        self._seen = 0  # the wall time at the last plan

    # --- finding ---------------------------------------------------------------------------------
    def find(self, path: str) -> Queue | None:
        """Return the queue at *path*, if there is one."""
        return self.queues.get(path)

    def grow(self, path: str) -> Queue:
        """Return the queue at *path*, making it and its parents where they are missing."""
        queue = self.queues.get(path)
        if queue is None:
            above, _, name = path.rpartition("/")
            parent = self.grow(above) if above else self.root
            queue = self.queues[path] = parent.children[name] = Queue(path, parent)
        return queue

    def prune(self, queue: Queue) -> None:
        """Take an empty queue without children out of the tree."""
        if queue.parent is not None:
            queue.parent.ring.pop(queue, None)
            del queue.parent.children[queue.path.rpartition("/")[2]]
            del self.queues[queue.path]

    def kills(self, queue: Queue) -> bool:
        """Say whether code of this queue is to be ended when its worker loses the lease."""
        for above in queue.path_up():
            if above.settings.on_lease_lost is not None:
                return above.settings.on_lease_lost == "kill"
        return False

    # --- waiting jobs ----------------------------------------------------------------------------
    def put(self, arrival: Arrival, now: int) -> Queue:
        """Let a job wait in its queue."""
        queue = self.queues.get(arrival.queue) or self.grow(arrival.queue)
        queue.own.put(arrival)
        above: Queue | None = queue
        while above is not None:
            above.waiting += 1
            above = above.parent
        if arrival.place <= now:
            self._wake(queue)
        else:
            self._arm(queue, arrival.place)
        return queue

    def remove(self, arrival: Arrival, now: int) -> bool:
        """Take a waiting job out; False if it does not stand where *arrival* says."""
        queue = self.queues.get(arrival.queue)
        if queue is None or not queue.own.remove(arrival):
            return False
        for above in queue.path_up():
            above.waiting -= 1
        self._rest(queue, now)
        return True

    def choose(
        self, fits: Callable[[Shape], bool], attached: Callable[[str], bool], now: int
    ) -> tuple[Queue, Offer] | None:
        """Name the next job for a worker, or None; changes nothing."""
        return self._choose(self.root, fits, attached, now) if self.root.open else None

    def take(self, queue: Queue, offer: Offer, most: int, now: int) -> tuple[list[int], list[int]]:
        """Begin the offered job: it leaves its line and counts against every limit above it.

        As long as nobody else has a turn, those behind it may begin with it, up to *most* in all. Returns
        jobs and places.
        """
        if most > 1:
            most = self._room(queue, most)
        jobs, places, behind = queue.own.take(offer, most, now)
        count = len(jobs)
        member: Queue = queue
        above: Queue | None = queue
        shut = False
        while above is not None:
            above.waiting -= count
            above.in_use += count
            limit = above.settings.limit
            if limit is not None and above.in_use >= limit:
                shut = True
            ring = above.ring
            if len(ring) > 1 and member in ring:
                del ring[member]  # who was served goes to the end
                ring[member] = None
            member, above = above, above.parent
        if behind is None or behind > now:
            self._rest(queue, now)
        if shut:
            self._settle(queue)
        return jobs, places

    # --- slots -----------------------------------------------------------------------------------
    def hold(self, queue: Queue) -> None:
        """Count an attempt that a new leader found running."""
        for above in queue.path_up():
            above.in_use += 1
        self._settle(queue)

    def release(self, queue: Queue, count: int = 1) -> None:
        """Attempts ended: give their places under every limit back."""
        above: Queue | None = queue
        was_shut = False
        while above is not None:
            limit = above.settings.limit
            if limit is not None and above.in_use >= limit:
                was_shut = True
            above.in_use -= count
            above = above.parent
        self.version += 1
        if was_shut:
            self._settle(queue)

    # --- settings and time -----------------------------------------------------------------------
    def set(self, queue: Queue, settings: QueueSettings, now: int) -> None:
        """Change a queue's settings; they hold from the next choice on."""
        queue.settings = settings
        self._adopt(queue, now)
        self._settle(queue)
        self.version += 1

    def pass_time(self, now: int) -> None:
        """Open the queues whose jobs have become due."""
        if now < self._seen:  # the wall clock was set back: what was due may not be so any more
            for known in list(self.queues.values()):
                self._rest(known, now)
        self._seen = now
        while self._timers and self._timers[0][0] <= now:
            when, path = heappop(self._timers)
            if self._armed.get(path) != when:
                continue
            del self._armed[path]
            queue = self.queues.get(path)
            if queue is not None:
                self._rest(queue, now)

    def next_due(self) -> int | None:
        """Return when the next job becomes due that is not yet."""
        return self._timers[0][0] if self._timers else None

    # --- inside ----------------------------------------------------------------------------------
    def _choose(
        self, queue: Queue, fits: Callable[[Shape], bool], attached: Callable[[str], bool], now: int
    ) -> tuple[Queue, Offer] | None:
        for member in queue.ring:
            if member is not queue:
                found = self._choose(member, fits, attached, now)
                if found is not None:
                    return found
            elif attached(queue.path):
                offer = queue.own.offer(fits, now)
                if offer is not None:
                    return queue, offer
        return None

    def _room(self, queue: Queue, most: int) -> int:
        """Return how many jobs of *queue* may begin before somebody else has a turn or a limit is met."""
        for above in queue.path_up():
            if len(above.ring) > 1:
                return 1
            limit = above.settings.limit
            if limit is not None:
                most = min(most, limit - above.in_use)
        return max(most, 1)

    def _wake(self, queue: Queue) -> None:
        """Something due waits in *queue*: it belongs into the rings above, as far as they are open."""
        self.version += 1
        if queue not in queue.ring:
            queue.ring[queue] = None
            self._settle(queue)

    def _settle(self, queue: Queue) -> None:
        """See to it that a queue, and each above it, is in its parent's ring just if it is open."""
        below = queue
        while below.parent is not None:
            if below.open:
                below.parent.ring.setdefault(below)
            else:
                below.parent.ring.pop(below, None)
            below = below.parent

    def _rest(self, queue: Queue, now: int) -> None:
        """Look again whether anything in *queue* is due; arm its timer for what is not."""
        if queue.own.due(now):
            self._wake(queue)
        elif queue in queue.ring:
            del queue.ring[queue]
            self._settle(queue)
        upcoming = queue.own.next_due(now)
        if upcoming is not None:
            self._arm(queue, upcoming)

    def _arm(self, queue: Queue, when: int) -> None:
        standing = self._armed.get(queue.path)
        if standing is None or when < standing:
            self._armed[queue.path] = when
            heappush(self._timers, (when, queue.path))

    def _adopt(self, queue: Queue, now: int) -> None:
        """Give *queue*, and those below it that inherit, the discipline that its settings name."""
        name = queue.settings.discipline or (queue.parent.own.name if queue.parent else DEFAULT)
        if name == queue.own.name:
            return
        old, queue.own = queue.own, DISCIPLINES[name]()
        for arrival in old.drain():
            queue.own.put(arrival._replace(queue=queue.path))
        self._rest(queue, now)
        for child in queue.children.values():
            if child.settings.discipline is None:
                self._adopt(child, now)
