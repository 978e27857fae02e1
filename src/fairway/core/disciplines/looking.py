"""Lines as readers see them: in which order their due jobs will be served, and how many come before one.

Nothing here changes a line, nor what is known of when it is due: a reader says its own `now`, which may be
later than the time that has passed for those who decide, and jobs that became due meanwhile count as due.
What was told is kept for a moment, since many ask at once. Only readers ever see that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice, repeat
from typing import Generic, NamedTuple, Protocol, TypeVar

from fairway.core.disciplines.fronts import Fits
from fairway.core.model import Shape

COUNTED = 64  # lines in which it is counted how many jobs come before one; of more some are looked at
FORESEEN = 1001  # jobs whose position is told where there are more
MOST_TOLD = 8  # askers for whom that is kept
TOLD_MICROS = 1_000_000  # and how long: meanwhile more may become due behind those that are

Item = TypeVar("Item")

#: What ranks a job, its place, its id and its shape.
Served = tuple[int, int, int, Shape]


class Key(NamedTuple):
    """What the jobs of one line have in common."""

    shape: Shape
    priority: int
    flow: str | None = None


class LineLook(Protocol):
    """A line that is only read."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[int, int]]: ...

    def first_place(self) -> int: ...

    def count_until(self, place: int) -> int: ...

    def count_before(self, place: int, job: int) -> int: ...


Lines = Mapping[Key, LineLook]


class LinesLook:
    """The lines of one rack, to be read. Owned by the rack, which makes another when jobs come or go."""

    __slots__ = ("_by_priority", "_lines", "_sample", "_told")

    def __init__(self, lines: Lines, by_priority: bool) -> None:
        self._lines, self._by_priority = lines, by_priority
        self._sample: Sample[tuple[Key, LineLook]] | None = None
        self._told: Told | None = None

    def order(self, now: int, fits: Fits | None = None) -> Iterator[Served]:
        """Return the due jobs, of the shapes that fit if told so, in the order of service."""
        lines = [
            (key, line)
            for key, line in self._lines.items()
            if line.first_place() <= now and (fits is None or fits(key.shape))
        ]
        return merge(*(self._due(key, line, now) for key, line in lines))

    def _due(self, key: Key, line: LineLook, now: int) -> Iterator[Served]:
        rank = self._rank(key)
        for place, job in line:
            if place > now:
                return
            yield rank, place, job, key.shape

    def ahead(self, key: Key, place: int, job: int, now: int, fits: Fits | None = None) -> int:
        """Count the due jobs before this one; where there are many lines, exact to 1,000 and then a guess."""
        many = len(self._lines) > COUNTED
        told = self._positions(now, fits) if many else {}
        if many and (job in told or len(told) < FORESEEN):
            return told.get(job, len(told))
        own, total = self._rank(key), 0.0
        for (its_key, line), times in self._some(now) if many else zip(self._lines.items(), repeat(1.0)):
            rank = self._rank(its_key)
            if rank > own or its_key == key or (fits is not None and not fits(its_key.shape)):
                continue
            due = line.count_until(now)
            total += (due if rank < own else min(line.count_before(place, job), due)) * times
        if (mine := self._lines.get(key)) is not None:
            total += min(mine.count_before(place, job), mine.count_until(now))
        return max(int(total), len(told))

    def _rank(self, key: Key) -> int:
        return -key.priority if self._by_priority else 0

    def _some(self, now: int) -> list[tuple[tuple[Key, LineLook], float]]:
        if self._sample is None or not self._sample.holds(now):
            self._sample = Sample(now, spread(self._lines.items(), lambda item: len(item[1]), COUNTED))
        return self._sample.some

    def _positions(self, now: int, fits: Fits | None) -> dict[int, int]:
        if self._told is None or not self._told.holds(now):
            self._told = Told(now, next_front(self._lines.values(), now))
        return self._told.positions(fits, lambda: (job for *_, job, _ in self.order(now, fits)))


class Told:
    """The positions of the jobs that come first, by who asked: they hold until something becomes due."""

    __slots__ = ("_at", "_positions", "_until")

    def __init__(self, now: int, next_due: int | None) -> None:
        self._at = now
        self._until = now + TOLD_MICROS
        if next_due is not None:
            self._until = max(min(self._until, next_due - 1), now)
        self._positions: dict[Fits | None, dict[int, int]] = {}

    def holds(self, now: int) -> bool:
        """Say whether what was told is still so, if no job has come or gone."""
        return self._at <= now <= self._until and len(self._positions) <= MOST_TOLD

    def positions(self, fits: Fits | None, order: Callable[[], Iterable[int]]) -> dict[int, int]:
        """Return the numbers of the first jobs, by id."""
        if fits not in self._positions:
            first = islice(order(), FORESEEN)
            self._positions[fits] = {job: number for number, job in enumerate(first)}
        return self._positions[fits]


class Sample(NamedTuple, Generic[Item]):
    """Some of very many, the longest among them, each with how many it stands for; kept for a second."""

    at: int
    some: list[tuple[Item, float]]

    def holds(self, now: int) -> bool:
        """Say whether it is fresh enough."""
        return 0 <= now - self.at <= TOLD_MICROS


def spread(everybody: Iterable[Item], size: Callable[[Item], int], most: int) -> list[tuple[Item, float]]:
    """Return the largest of all, and of the others some of every size, each with how many it stands for."""
    ranked = sorted(everybody, key=size, reverse=True)
    if len(ranked) <= most:
        return [(one, 1.0) for one in ranked]
    whole, others = most // 2, most - most // 2
    step = (len(ranked) - whole) / others
    found = [(one, 1.0) for one in ranked[:whole]]
    return found + [(ranked[whole + int((number + 0.5) * step)], step) for number in range(others)]


def next_front(lines: Iterable[LineLook], now: int) -> int | None:
    """Return when the front of a line becomes due that is not so yet."""
    return min((place for line in lines if (place := line.first_place()) > now), default=None)
