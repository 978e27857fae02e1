"""The contract of a discipline: which waiting job of one queue is next.

A discipline owns the waiting jobs of one leaf. It is touched only from the engine's task and knows no
limits, workers or shares: the tree asks it for the next job *of the shapes that fit*, and it answers
without changing anything; only `take` removes. Jobs whose place lies in the future are not due and must
not be offered. It is made from the settings of the queue that names it; when those change it adapts, or is
made anew and given all the jobs.

The contract has two parts. `Look` is for all who read: why a job waits, where it stands, when it will begin,
numbers. `Discipline` adds what the tree decides with. Readers are given a `Look`, so that none can change
what begins (ADR 0024).

To add one: write a class in `disciplines/`, name it in `disciplines/__init__.py`, and let it run the suite in
`fairway.testing.disciplines`. One in a package of its own is found by its entry point in the group
`fairway.disciplines`; examples/lottery is one.

A discipline may also have `put_alike(groups: Sequence[Alike]) -> bool`, for a new leader that loads its
backlog: it takes in jobs at one stroke that differ in id, place and flow only, each group being one flow's in
its order. Or it changes nothing and returns False, if one of them is here already or it cannot tell: then it
is given the groups one by one, and at last the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fairway.core.model import Arrival, QueueSettings, Shape


class Offer(NamedTuple):
    """The job a discipline would serve next; hand it back to `take` to have it."""

    job: int
    shape: Shape
    priority: int
    flow: str | None
    place: int
    line: object


class Served(NamedTuple):
    """Jobs that left together, with their places: the offered one first, and those after it.

    All are of the offer's shape and priority. `more`: another job of this shape is surely due; if not, the
    tree asks for the shapes anew. `flows`: the flow of each; None: all are of the offer's.
    """

    jobs: list[int]
    places: list[int]
    more: bool
    flows: list[str | None] | None = None


class Pace(Protocol):
    """The time, and how long a slot that is held is held altogether, both in seconds. The tree is one."""

    @property
    def mono(self) -> float: ...
    @property
    def ahead(self) -> float: ...


@dataclass
class Still:
    """A pace by hand."""

    mono: float = 0.0
    ahead: float = 1.0


class Look(Protocol):
    """The waiting jobs of one queue as people and forecasts see them: to ask changes nothing, ever.

    Who reads may come at any time and say any `now`: later than the last time that a job was asked for, or
    earlier, if the wall clock was set back. What is due then counts as due. What an answer costs may be saved
    for the next who asks, apart from all that decides.
    """

    @property
    def name(self) -> str:
        """What it is called in settings."""

    @property
    def by_seconds(self) -> bool:
        """Whether it shares slot-seconds, and so wants to be told what its flows hold."""

    def __len__(self) -> int:
        """Return how many jobs wait here, due or not."""

    def refusal(self, coming: Mapping[str | None, int]) -> str | None:
        """Say why jobs that come, counted by flow, are refused, where the overflow is `reject`; else None."""

    def due_count(self, now: int) -> int:
        """Count the jobs that are due."""

    def due_by_shape(self, now: int) -> dict[Shape, int]:
        """Count the jobs that are due, shape by shape."""

    def holds(self, arrival: Arrival) -> bool:
        """Say whether this job already stands here at its place."""

    def ahead(self, arrival: Arrival, now: int, fits: Callable[[Shape], bool] | None = None) -> int:
        """Count the due jobs that would be served before this one, of the shapes that fit if told so.

        Exact to 1,000, beyond that it may be a guess. Many ask one after the other, with equal *fits*.
        """

    def order(self, now: int, most: int, fits: Callable[[Shape], bool] | None = None) -> Iterator[int]:
        """Yield up to *most* due jobs, of the shapes that fit if told so, as they would begin."""

    def oldest(self) -> int | None:
        """Return the least place of a waiting job."""


class Discipline(Look, Protocol):
    """Orders the waiting jobs of one queue. These are for who decides: by them time passes and jobs move."""

    def put(self, arrival: Arrival) -> None:
        """Take a job in at its place."""

    def remove(self, arrival: Arrival) -> bool:
        """Take a job out without serving it; False if it is not here (at that place)."""

    def offer(self, fits: Callable[[Shape], bool], now: int) -> Offer | None:
        """Name the next due job among the shapes that fit, or None; who asks twice gets the same answer.

        Kinds of workers ask again and again, each with a *fits* equal to its last one: what that said of
        a shape may be remembered.
        """

    def take(self, offer: Offer, most: int, now: int) -> Served:
        """Serve the offered job: it leaves. What its attempt holds is told right after (`hold`).

        Jobs that would be offered after it, one by one, may be served with it, up to *most* in all: that is
        what one slot takes at a time, and more than 1 only where jobs are so short that many make 10 ms.
        """

    def hold(self, flow: str | None, units: int) -> None:
        """Attempts of a flow hold so many units of slots more; only called where `by_seconds` says so.

        Before the first call `pace` was set: the monotonic time, which goes on by itself.
        """

    def release(self, flow: str | None, units: int, seconds: float) -> None:
        """Attempts of a flow ended that held so many units of slots for *seconds*; called as `hold` is."""

    def wait(self, flow: str | None, units: int, seconds: float) -> None:
        """So many of the units a flow holds wait for their slots; below 0: no more, for *seconds* already."""

    def surplus(self, arrival: Arrival) -> Arrival | None:
        """Name the job to give up because *arrival*, which has just come, is one too many; else None."""

    def shapes(self, now: int) -> Collection[Shape]:
        """Return the shapes of which a job is due; may go on to change with them."""

    def next_due(self, now: int) -> int | None:
        """Return the wall time at which the next job that is not due becomes so."""

    def adapt(self, settings: QueueSettings) -> bool:
        """Go by other settings from now on; False, and nothing changed, if that takes a new discipline."""

    def drain(self) -> Iterator[Arrival]:
        """Give up every job, in order: used when a queue gets a new discipline."""
