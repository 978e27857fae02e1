"""What takes a turn in a fair queue: one flow, or the flows that were hashed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from typing import NamedTuple

from fairway.core.lines import Line
from fairway.core.model import Alike, Arrival, Shape


class Key(NamedTuple):
    """What the jobs of one line have in common."""

    shape: Shape
    priority: int
    flow: str | None


class Flow:
    """Jobs that share one turn, higher priority first, then by place. Owned by one discipline."""

    __slots__ = ("armed", "count", "credit", "lines", "order", "served", "shapes", "turn", "used", "weight")

    def __init__(self, order: int, weight: float) -> None:
        self.order = order
        self.weight = weight
        self.lines: dict[Key, Line] = {}
        self.count = 0
        self.armed: int | None = None  # when it is to be looked at because something becomes due
        self.shapes: frozenset[Shape] = frozenset()  # of which a job is due
        self.turn = 0  # its place in the ring
        self.credit = 0.0  # what it may still begin in this turn
        self.used = 0.0  # V: what it has had, by its weight
        self.served = 0

    def put(self, arrival: Arrival) -> None:
        """Let a job wait here."""
        key = key_of(arrival)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line()
        line.put(arrival.place, arrival.job)
        self.count += 1

    def put_alike(self, alike: Alike) -> bool:
        """Let jobs of one line wait here; False, and nothing changed, if they cannot stand together."""
        key = Key(alike.shape, alike.priority, alike.flow)
        line = self.lines.get(key) or Line()
        if not line.put_many(alike.places, alike.jobs):
            return False
        self.lines[key] = line
        self.count += len(alike.jobs)
        return True

    def remove(self, arrival: Arrival) -> bool:
        """Take a job out; False if it does not stand here at that place."""
        key = key_of(arrival)
        line = self.lines.get(key)
        if line is None or not line.remove(arrival.place, arrival.job):
            return False
        self.count -= 1
        if not line:
            del self.lines[key]
        return True

    def pop(self, key: Key, most: int, now: int) -> tuple[list[int], list[int]]:
        """Take the first jobs of a line; more than one only if no other line could come between."""
        line = self.lines[key]
        jobs, places, _ = line.pop(most if len(self.lines) == 1 else 1, now)
        self.count -= len(jobs)
        if not line:
            del self.lines[key]
        return jobs, places

    def is_still_due(self, now: int) -> bool:
        """Whether all is as before after jobs were taken: this is the only line, and its next job is due."""
        if len(self.lines) != 1 or len(self.shapes) != 1:
            return False
        [line] = self.lines.values()
        return line.first_place() <= now

    def due_shapes(self, now: int) -> frozenset[Shape]:
        """Return the shapes of which a job is due."""
        return frozenset(key.shape for key, line in self.lines.items() if line.first_place() <= now)

    def next_due(self, now: int) -> int | None:
        """Return when the next line becomes due of which no job is."""
        fronts = (line.first_place() for line in self.lines.values())
        return min((place for place in fronts if place > now), default=None)

    def first(self, fits: Callable[[Shape], bool], now: int) -> tuple[Key, int, int] | None:
        """Return line, place and job of the next due job among the shapes that fit."""
        if len(self.lines) == 1:
            [(key, line)] = self.lines.items()
            place, job = line.first()
            return (key, place, job) if place <= now and fits(key.shape) else None
        best: tuple[int, int, int] | None = None
        chosen: Key | None = None
        for key, line in self.lines.items():
            place, job = line.first()
            if place <= now and fits(key.shape):
                standing = (-key.priority, place, job)
                if best is None or standing < best:
                    best, chosen = standing, key
        return None if best is None or chosen is None else (chosen, best[1], best[2])

    def oldest(self) -> int:
        """Return the least place of a job here."""
        return min(line.first_place() for line in self.lines.values())

    def oldest_job(self) -> Arrival:
        """Return the job with the least place."""
        key, line = min(self.lines.items(), key=lambda item: item[1].first())
        place, job = line.first()
        return Arrival(job, "", key.flow, key.priority, key.shape, place)

    def newest_job(self) -> Arrival:
        """Return the job with the greatest place."""
        key, line = max(self.lines.items(), key=lambda item: item[1].last())
        place, job, _ = line.last()
        return Arrival(job, "", key.flow, key.priority, key.shape, place)

    def due_jobs(self, now: int, fits: Callable[[Shape], bool] | None = None) -> Iterator[int]:
        """Yield the due jobs, of the shapes that fit if told so, in the order of service."""

        def ranked(key: Key, line: Line) -> Iterator[tuple[int, int, int]]:
            for place, job in line:
                if place > now:
                    return
                yield -key.priority, place, job

        lines = [(key, line) for key, line in self.lines.items() if fits is None or fits(key.shape)]
        for *_, job in merge(*(ranked(key, line) for key, line in lines)):
            yield job

    def arrivals(self) -> Iterator[Arrival]:
        """Yield every job here."""
        for key, line in self.lines.items():
            for place, job in line:
                yield Arrival(job, "", key.flow, key.priority, key.shape, place)


def key_of(arrival: Arrival) -> Key:
    """Return the line a job belongs to."""
    return Key(arrival.shape, arrival.priority, arrival.flow)
