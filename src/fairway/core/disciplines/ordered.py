"""What `priority` and `fifo` have in common: lines by (shape, priority), served by rank, then place.

A queue has few shapes and few priorities at a time, so an offer looks at the front of each line. The two
disciplines differ in one thing: whether a job's priority ranks it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, repeat

from fairway.core.discipline import Offer, Served
from fairway.core.disciplines.bounds import REJECT, Bounds
from fairway.core.lines import Line
from fairway.core.model import Alike, Arrival, QueueSettings, Shape

Key = tuple[Shape, int]


class FlowNames:
    """The flows of a queue by small numbers; 0 is none. Kept, though nobody is served by them here: the
    queue may get a discipline that does."""

    def __init__(self) -> None:
        self._names: list[str | None] = [None]
        self._tags: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._tags)

    def tag(self, name: str) -> int:
        """Return the number of a flow."""
        found = self._tags.get(name)
        if found is None:
            found = self._tags[name] = len(self._names)
            self._names.append(name)
        return found

    def name(self, tag: int) -> str | None:
        """Return the flow of a number."""
        return self._names[tag]


class Ordered:
    """Serves by (rank, place); the least rank first. Subclasses say whether priority ranks."""

    name = ""
    by_priority = False
    by_seconds = False

    def __init__(self, settings: QueueSettings) -> None:
        self._lines: dict[Key, Line] = {}
        self._count = 0
        self._flows = FlowNames()
        self._bounds = Bounds(None, settings.capacity, settings.overflow or REJECT)

    def rank(self, priority: int) -> int:
        """Return the rank of a priority; the least rank is served first."""
        return -priority if self.by_priority else 0

    def __len__(self) -> int:
        return self._count

    def put(self, arrival: Arrival) -> None:
        key = (arrival.shape, arrival.priority)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line()
        line.put(arrival.place, arrival.job, self._flows.tag(arrival.flow) if arrival.flow is not None else 0)
        self._count += 1

    def put_alike(self, groups: Sequence[Alike]) -> bool:
        key = (groups[0].shape, groups[0].priority)
        line = self._lines.get(key) or Line()
        places, jobs, tags = self._in_one_line(groups)
        if not line.put_many(places, jobs, tags):
            return False
        self._lines[key] = line
        self._count += len(jobs)
        return True

    def remove(self, arrival: Arrival) -> bool:
        key = (arrival.shape, arrival.priority)
        line = self._lines.get(key)
        if line is None or not line.remove(arrival.place, arrival.job):
            return False
        self._left(key, line, 1)
        return True

    def offer(self, fits: Callable[[Shape], bool], now: int) -> Offer | None:
        if len(self._lines) == 1:  # the common case, and the hottest line of a drain
            (shape, priority), line = next(iter(self._lines.items()))
            place, job = line.first()
            if place > now or not fits(shape):
                return None
            return Offer(job, shape, priority, self._flows.name(line.first_tag()), place, line)
        best: tuple[int, int, int] | None = None
        chosen: Key | None = None
        for key, line in self._lines.items():
            place, job = line.first()
            if place <= now and fits(key[0]):
                standing = (self.rank(key[1]), place, job)
                if best is None or standing < best:
                    best, chosen = standing, key
        if best is None or chosen is None:
            return None
        line = self._lines[chosen]
        return Offer(best[2], chosen[0], chosen[1], self._flows.name(line.first_tag()), best[1], line)

    def take(self, offer: Offer, most: int, now: int) -> Served:
        key = (offer.shape, offer.priority)
        line = self._lines[key]
        # Where there are several lines, the next job may stand in another.
        jobs, places, tags = line.pop(most if len(self._lines) == 1 else 1, now)
        self._count -= len(jobs)
        flows = [self._flows.name(tag) for tag in tags] if len(self._flows) else None
        if line:
            return Served(jobs, places, line.first_place() <= now, flows)
        self._left(key, line, 0)
        return Served(jobs, places, False, flows)

    def charge(self, flow: str | None, seconds: float) -> None:
        """Nobody pays here: jobs are served in their order."""

    def refusal(self, coming: Mapping[str | None, int]) -> str | None:
        return self._bounds.refusal(self._count, {}, coming)

    def surplus(self, arrival: Arrival) -> Arrival | None:
        capacity = self._bounds.capacity
        if capacity is None or self._count <= capacity:
            return None
        if self._bounds.rejects:
            return arrival
        return self.oldest_job() if self._bounds.drops_oldest else self.newest_job()

    def oldest_job(self) -> Arrival:
        """Return the job with the least place; there must be one."""
        (shape, priority), line = min(self._lines.items(), key=lambda item: item[1].first())
        place, job = line.first()
        return Arrival(job, "", self._flows.name(line.first_tag()), priority, shape, place)

    def newest_job(self) -> Arrival:
        """Return the job with the greatest place; there must be one."""
        (shape, priority), line = max(self._lines.items(), key=lambda item: item[1].last())
        place, job, tag = line.last()
        return Arrival(job, "", self._flows.name(tag), priority, shape, place)

    def shapes(self, now: int) -> Collection[Shape]:
        return {shape for (shape, _), line in self._lines.items() if line.first_place() <= now}

    def next_due(self, now: int) -> int | None:
        # A line whose front is due says nothing of what stands behind it: whoever takes the front asks again.
        waits = [line.first_place() for line in self._lines.values() if line.first_place() > now]
        return min(waits, default=None)

    def due_count(self, now: int) -> int:
        return sum(line.count_until(now) for line in self._lines.values())

    def due_by_shape(self, now: int) -> dict[Shape, int]:
        counted = Counter[Shape]()
        for (shape, _), line in self._lines.items():
            counted[shape] += line.count_until(now)
        return dict(+counted)

    def holds(self, arrival: Arrival) -> bool:
        line = self._lines.get((arrival.shape, arrival.priority))
        return line is not None and line.holds(arrival.place, arrival.job)

    def ahead(self, arrival: Arrival, now: int, fits: Callable[[Shape], bool] | None = None) -> int:
        own = self.rank(arrival.priority)
        total = 0
        for (shape, priority), line in self._lines.items():
            rank = self.rank(priority)
            if fits is not None and not fits(shape):
                continue
            if rank < own:
                total += line.count_until(now)
            elif rank == own:
                total += line.count_before(arrival.place, arrival.job)
        return total

    def order(self, now: int, most: int, fits: Callable[[Shape], bool] | None = None) -> Iterator[int]:
        lines = (item for item in self._lines.items() if fits is None or fits(item[0][0]))
        ranked = merge(*(self._due(key, line, now) for key, line in lines))
        for _, (_, _, job) in zip(range(most), ranked, strict=False):
            yield job

    def oldest(self) -> int | None:
        return min((line.first_place() for line in self._lines.values()), default=None)

    def adapt(self, settings: QueueSettings) -> bool:
        self._bounds = Bounds(None, settings.capacity, settings.overflow or REJECT)
        return True

    def drain(self) -> Iterator[Arrival]:
        lines, self._lines, self._count = self._lines, {}, 0
        for (shape, priority), line in lines.items():
            for place, job, tag in line.tagged():
                yield Arrival(job, "", self._flows.name(tag), priority, shape, place)

    def _due(self, key: Key, line: Line, now: int) -> Iterator[tuple[int, int, int]]:
        rank = self.rank(key[1])
        for place, job in line:
            if place > now:
                return
            yield rank, place, job

    def _in_one_line(self, groups: Sequence[Alike]) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return places, jobs and tags of jobs of several flows: they stand in one line here."""
        tags = [self._flows.tag(group.flow) if group.flow is not None else 0 for group in groups]
        if len(groups) == 1:
            return groups[0].places, groups[0].jobs, tags * len(groups[0].jobs)
        alone = (zip(group.places, group.jobs, repeat(tag)) for group, tag in zip(groups, tags, strict=True))
        places, jobs, each = zip(*sorted(chain.from_iterable(alone)), strict=True)
        return places, jobs, each

    def _left(self, key: Key, line: Line, jobs: int) -> None:
        self._count -= jobs
        if not line:
            del self._lines[key]
            if not self._lines:
                self._flows = FlowNames()  # those of jobs that are gone need not be remembered
