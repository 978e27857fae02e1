"""The order in which the jobs of a branch will begin: the tree's own choice, played through on copies.

From the branch down, child by child, as `tree.py` chooses: what is owed first, then by priority and least
standing; every job that is named holds one slot from then on, and none ends. What may not begin as things
are (paused, full, out of tokens, of a kind that no worker runs) comes after all that may. A queue's own jobs
come in the order of its discipline. With the clock standing still a standing changes only by being served, so
each level is a heap and a name costs O(log members). Nothing real changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf

from fairway.core.look import MemberLook, QueueLook, TreeLook
from fairway.core.model import SLOT, Moment

#: What decides, from left to right: owed or not, then by part and last turn, or by priority and standing.
Rank = tuple[int, float, float, int, int]


def foresee(tree: TreeLook, queue: QueueLook, most: int, now: Moment) -> list[int]:
    """Return the next jobs to begin at a queue and below it, *most* at most."""
    jobs: dict[int, None] = {}
    for strict in (True, False):
        walk = _Branch(queue, _Walk(tree, now, most, strict), top=True)
        for job in islice(iter(walk.next_job, None), most):
            jobs.setdefault(job)
        if len(jobs) >= most:
            break
    return list(jobs)[:most]


class _Walk:
    """What one walk has in common. *strict*: only what may begin as things are."""

    def __init__(self, tree: TreeLook, now: Moment, most: int, strict: bool) -> None:
        self.wall, self.mono, self.ahead = now.wall, now.mono, tree.ahead
        self.most, self.strict = most, strict
        self.turns = tree.turns


class _Ghost(ABC):
    """A member as it would stand: what it holds, has had and when it was served last."""

    def __init__(self, member: MemberLook, walk: _Walk) -> None:
        self.walk, self.member = walk, member
        self.held, self.served = member.held, member.served
        self.used: float | None = None  # S, once it was served: until then it stands as the member does

    def is_owed(self) -> bool:
        """Whether it is below its assured slots, or one below it that could begin something is."""
        return self.held < self.member.assured

    def rank(self) -> Rank:
        """Return what decides whose turn it is; the least is next."""
        member = self.member
        if self.is_owed():
            part = self.held / member.assured if member.assured else inf
            return 0, part, 0.0, self.served, member.order
        return 1, -member.priority, self._standing(), self.served, member.order

    def _standing(self) -> float:
        """Reckon just as the member would: of two that are level the last digit decides."""
        member, ahead = self.member, self.walk.ahead
        if self.used is None:
            return member.standing(self.walk.mono, ahead)
        over = self.held - member.assured
        return (self.used + over / SLOT * ahead if over > 0 else self.used) / member.weight

    def serve(self) -> None:
        """Count one slot that is held from now on."""
        if self.used is None:
            self.used = self.member.used_until(self.walk.mono) + self.member.loan
        self.held, self.served = self.held + SLOT, self.walk.turns

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing more can begin here."""

    @abstractmethod
    def next_job(self) -> int | None:
        """Name the next job, or None."""


class _Line(_Ghost):
    """A queue's own jobs, in the order of its discipline; looked at when it is its turn."""

    def __init__(self, queue: QueueLook, walk: _Walk) -> None:
        super().__init__(queue.line, walk)
        self._jobs = queue.own.order(walk.wall, walk.most, queue.runs if walk.strict else None)
        self._seen: list[int] = []

    def is_empty(self) -> bool:
        if not self._seen:
            self._seen += islice(self._jobs, 1)
        return not self._seen

    def next_job(self) -> int | None:
        if self.is_empty():
            return None
        self.walk.turns += 1
        self.serve()
        return self._seen.pop()


class _Branch(_Ghost):
    """A queue with all below it, which is looked at when it is its turn."""

    def __init__(self, queue: QueueLook, walk: _Walk, top: bool = False) -> None:
        super().__init__(queue, walk)
        self.queue = queue
        self._room = inf if top or not walk.strict else _room(queue, walk.mono)
        self._known: list[tuple[Rank, _Ghost]] | None = None

    def is_owed(self) -> bool:
        if super().is_owed():
            return True
        if self._known is None:
            return self.walk.strict and _owes_below(self.queue)
        return bool(self._known and self._known[0][0][0] == 0)

    def is_empty(self) -> bool:
        return self._room < 1 or not self._heap

    def next_job(self) -> int | None:
        while not self.is_empty():
            _, ghost = heappop(self._heap)
            job = ghost.next_job()
            if job is not None:
                if not ghost.is_empty():
                    heappush(self._heap, (ghost.rank(), ghost))
                self._room -= 1
                self.serve()
                return job
        return None

    @property
    def _heap(self) -> list[tuple[Rank, _Ghost]]:
        if self._known is None:
            queue, walk = self.queue, self.walk
            below: list[_Ghost] = [_Line(queue, walk)] if len(queue.own) else []
            below += [_Branch(child, walk) for child in queue.children.values() if _counts(child, walk)]
            self._known = [(ghost.rank(), ghost) for ghost in below]
            heapify(self._known)
        return self._known


def _counts(child: QueueLook, walk: _Walk) -> bool:
    """Say whether something could begin below a child (as things are)."""
    if not walk.strict or child.parent is None:
        return child.waiting > 0
    return any(child in ring.members for ring in child.parent.rings.values())


def _owes_below(queue: QueueLook) -> bool:
    return any(ring.owing for ring in queue.rings.values())


def _room(queue: QueueLook, mono: float) -> float:
    """Return how many jobs of a queue may begin as things are."""
    if queue.settings.paused:
        return 0
    limit, bucket = queue.settings.limit, queue.bucket
    room = inf if limit is None else limit - queue.in_use
    return room if bucket is None else min(room, bucket.level(mono) + 1e-9)
