"""A queue: one node of the tree, with its own waiting jobs and the members that share its slots."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from fairway.core.contest import Contest
from fairway.core.discipline import Discipline
from fairway.core.disciplines import make_discipline
from fairway.core.member import Member
from fairway.core.model import DEFAULT_RULES, NO_SETTINGS, Arrival, QueueSettings, Rules, Shape
from fairway.core.rates import Bucket
from fairway.core.ring import Ring

MOST_SEGMENTS = 8  # of a path


class Taker(Protocol):
    """One kind of worker, as the tree sees it."""

    def fits(self, shape: Shape) -> bool:
        """Say whether such a worker can run such a job."""

    def attached(self, path: str) -> bool:
        """Say whether such a worker serves this queue."""


class Queue(Member):
    """One node of the tree."""

    __slots__ = (
        "active", "bucket", "children", "contests", "has_flows", "in_use", "known", "line", "made_of", "own",
        "path", "rings", "rules", "settings", "shapes", "takers", "waiting",
    )  # fmt: skip

    def __init__(self, path: str, parent: Queue | None, order: int) -> None:
        super().__init__(parent, order)
        self.path = path
        self.children: dict[str, Queue] = {}
        self.settings = NO_SETTINGS
        self.made_of: QueueSettings = parent.made_of if parent is not None else NO_SETTINGS
        self.rules: Rules = parent.rules if parent is not None else DEFAULT_RULES  # of jobs that say none
        self.own: Discipline  # its own waiting jobs, in their order
        self.has_flows: bool  # and whether these are of flows that take turns
        self.adopt(make_discipline(self.made_of))
        self.line = Member(self, 0)  # and what of its slots they hold
        self.shapes: Collection[Shape] = ()  # of its own jobs that are due, mostly as they are now
        self.takers: frozenset[Taker] = frozenset()  # that could begin one of them
        self.in_use = 0  # live attempts in the subtree
        self.waiting = 0  # waiting jobs in the subtree, due or not
        self.rings: dict[Taker, Ring] = {}
        self.bucket: Bucket | None = None
        self.known = False  # the store has a row for it
        self.active: dict[Member, None] = {}  # the members that are busy
        self.contests: dict[int, Contest] = {}  # by priority: the members that could begin something

    def adopt(self, discipline: Discipline) -> None:
        """Let its own jobs wait in this order from now on."""
        # What `HasFlows` (flows.py) asks for; to hold 100,000 queues against a protocol would take a second.
        self.own, self.has_flows = discipline, hasattr(discipline, "due_by_flow")

    def path_up(self) -> Iterator[Queue]:
        """Yield this queue and all above it, the root last."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def subtree(self) -> Iterator[Queue]:
        """Yield this queue and all below it, parents before children."""
        yield self
        for child in self.children.values():
            yield from child.subtree()

    @property
    def runs(self) -> Runs:
        """Whether a worker that is there could run a job of its own of some shape."""
        return Runs(self.takers)

    def ahead_of(self, job: Arrival, now: int) -> int:
        """Count the due jobs of its own that begin before this one: what nobody can run is passed over.

        A job that nobody can run itself stands as it came, among all: who could run it may run those, too.
        """
        runs = self.runs
        return self.own.ahead(job, now, runs if runs(job.shape) else None)

    @property
    def full(self) -> bool:
        """Whether the limit leaves no room."""
        return self.settings.limit is not None and self.in_use >= self.settings.limit

    def is_open(self, mono: float) -> bool:
        """Whether its own settings let something begin now."""
        settings = self.settings
        if settings.paused or (settings.limit is not None and self.in_use >= settings.limit):
            return False
        return self.bucket is None or self.bucket.is_open(mono)

    def members(self) -> Iterator[Member]:
        """Yield all that share its slots."""
        yield self.line
        yield from self.children.values()

    def busy_members(self) -> Iterator[Member]:
        """Yield the members that hold something or could begin something."""
        return iter(self.active)

    def contest_of(self, member: Member) -> Contest:
        """Return the contest of those of its members that have this one's priority."""
        contest = self.contests.get(member.priority)
        if contest is None:
            contest = self.contests[member.priority] = Contest()
        return contest


def moved_path(path: str, source: str, target: str) -> str:
    """Return the path in branch *target* that stands for *path* in branch *source*."""
    moved = target + path[len(source) :]
    return moved if moved.count("/") < MOST_SEGMENTS else target


def owes_below(member: Member, taker: Taker) -> bool:
    """Say whether something below a member is owed slots of such a worker."""
    if not isinstance(member, Queue):
        return False
    ring = member.rings.get(taker)
    return ring is not None and ring.owing > 0


def is_member(queue: Queue, taker: Taker) -> bool:
    """Say whether something can begin below a queue on such a worker."""
    if queue.parent is None:
        return True
    ring = queue.parent.rings.get(taker)
    return ring is not None and queue in ring.members


def front_of(queue: Queue, now: int) -> int:
    """Return a place before all that waits in a queue, and in the past."""
    oldest = queue.own.oldest()
    return (now if oldest is None else min(oldest, now)) - 1


def room_in(queue: Queue, most: int) -> int:
    """Return how many jobs of *queue* may begin before a limit is met."""
    for above in queue.path_up():
        if above.settings.limit is not None:
            most = min(most, above.settings.limit - above.in_use)
        if above.bucket is not None:
            return 1
    return max(most, 1)


@dataclass(frozen=True, slots=True)
class Runs:
    """Whether one of some kinds of workers fits a shape. Equal for equal kinds, so answers can be kept."""

    takers: frozenset[Taker]

    def __call__(self, shape: Shape) -> bool:
        return any(taker.fits(shape) for taker in self.takers)
