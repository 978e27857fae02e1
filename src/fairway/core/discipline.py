"""The contract of a discipline: which waiting job of one queue is next.

A discipline owns the waiting jobs of one leaf. It is touched only from the engine's task and knows no
limits, workers or shares: the tree asks it for the next job *of the shapes that fit*, and it answers
without changing anything; only `take` removes. Jobs whose place lies in the future are not due and must
not be offered.

To add one: write a class in `disciplines/`, name it in `disciplines/__init__.py`, and it runs the
conformance suite in tests/core/test_disciplines.py by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from fairway.core.model import Arrival, Shape


class Offer(NamedTuple):
    """The job a discipline would serve next; hand it back to `take` to have it."""

    job: int
    shape: Shape
    priority: int
    flow: str | None
    place: int
    line: object


class Served(NamedTuple):
    """Jobs that left a line together, with their places: the offered one first, and those after it.

    `behind` is the place of the job that stands behind them in their line, or None if there is none.
    """

    jobs: list[int]
    places: list[int]
    behind: int | None


class Discipline(Protocol):
    """Orders the waiting jobs of one queue."""

    name: str

    def __len__(self) -> int:
        """Return how many jobs wait here, due or not."""

    def put(self, arrival: Arrival) -> None:
        """Take a job in at its place."""

    def remove(self, arrival: Arrival) -> bool:
        """Take a job out without serving it; False if it is not here (at that place)."""

    def offer(self, fits: Callable[[Shape], bool], now: int) -> Offer | None:
        """Name the next due job among the shapes that fit, or None; changes nothing."""

    def take(self, offer: Offer, most: int, now: int) -> Served:
        """Serve the offered job: it leaves, and is charged to its flow where that counts.

        Jobs that would be offered after it, one by one, may be served with it, up to *most* in all.
        """

    def due(self, now: int) -> bool:
        """Say whether any job here is due."""

    def next_due(self, now: int) -> int | None:
        """Return the wall time at which the next job that is not due becomes so."""

    def due_count(self, now: int) -> int:
        """Count the jobs that are due."""

    def holds(self, arrival: Arrival) -> bool:
        """Say whether this job already stands here at its place."""

    def ahead(self, arrival: Arrival, now: int) -> int:
        """Count the due jobs that would be served before this one."""

    def order(self, now: int, most: int) -> Iterator[int]:
        """Yield up to *most* due jobs in the order in which they would begin."""

    def oldest(self) -> int | None:
        """Return the least place of a waiting job."""

    def drain(self) -> Iterator[Arrival]:
        """Give up every job, in order: used when a queue changes its discipline."""
