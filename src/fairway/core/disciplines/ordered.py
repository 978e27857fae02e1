"""What `priority` and `fifo` have in common: lines by (shape, priority), served by rank, then place.

The two disciplines differ in one thing: whether a job's priority ranks it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat

from fairway.core.discipline import Offer, Served
from fairway.core.disciplines.bounds import REJECT, Bounds
from fairway.core.disciplines.rack import Key, Rack
from fairway.core.model import Alike, Arrival, QueueSettings, Shape


class FlowNames:
    """The flows of a queue by small numbers; 0 is none. Kept, though nobody is served by them here: the
    queue may get a discipline that does."""

    def __init__(self) -> None:
        self._names: list[str | None] = [None]
        self._tags: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._tags)

    def tag(self, name: str | None) -> int:
        """Return the number of a flow."""
        if name is None:
            return 0
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
        self._rack = Rack(self.by_priority)
        self._flows = FlowNames()
        self._bounds = Bounds(None, settings.capacity, settings.overflow or REJECT)

    def __len__(self) -> int:
        return self._rack.count

    @property
    def ready(self) -> dict[Shape, int]:
        """The shapes of which a job was due at last sight."""
        return self._rack.ready

    def put(self, arrival: Arrival) -> None:
        self._rack.put(key_of(arrival), arrival.place, arrival.job, self._flows.tag(arrival.flow))

    def put_alike(self, groups: Sequence[Alike]) -> bool:
        key = Key(groups[0].shape, groups[0].priority)
        return self._rack.put_many(key, *self._in_one_line(groups))

    def remove(self, arrival: Arrival) -> bool:
        if not self._rack.remove(key_of(arrival), arrival.place, arrival.job):
            return False
        self._left()
        return True

    def offer(self, fits: Callable[[Shape], bool], now: int) -> Offer | None:
        found = self._rack.first(fits, now)
        if found is None:
            return None
        key, place, job = found
        line = self._rack.lines[key]
        return Offer(job, key.shape, key.priority, self._flows.name(line.first_tag()), place, line)

    def take(self, offer: Offer, most: int, now: int) -> Served:
        key = Key(offer.shape, offer.priority)
        jobs, places, tags = self._rack.pop(key, most, now)
        flows = [self._flows.name(tag) for tag in tags] if len(self._flows) else None
        line = self._rack.lines.get(key)
        if line is None:
            self._left()
        return Served(jobs, places, line is not None and line.first_place() <= now, flows)

    def hold(self, flow: str | None, units: int) -> None:
        """Nobody pays here: jobs are served in their order."""

    def release(self, flow: str | None, units: int, seconds: float) -> None:
        """Nobody pays here: jobs are served in their order."""

    def wait(self, flow: str | None, units: int, seconds: float) -> None:
        """Nobody pays here: jobs are served in their order."""

    def refusal(self, coming: Mapping[str | None, int]) -> str | None:
        return self._bounds.refusal(self._rack.count, {}, coming)

    def surplus(self, arrival: Arrival) -> Arrival | None:
        capacity = self._bounds.capacity
        if capacity is None or self._rack.count <= capacity:
            return None
        if self._bounds.rejects:
            return arrival
        return self.oldest_job() if self._bounds.drops_oldest else self.newest_job()

    def oldest_job(self) -> Arrival:
        """Return the job with the least place; there must be one."""
        return self._arrival(*self._rack.oldest_job())

    def newest_job(self) -> Arrival:
        """Return the job with the greatest place; there must be one."""
        return self._arrival(*self._rack.newest_job())

    def shapes(self, now: int) -> Collection[Shape]:
        self._rack.pass_time(now)
        return self._rack.ready.keys()

    def next_due(self, now: int) -> int | None:
        # A line whose front is due says nothing of what stands behind it: whoever takes the front asks again.
        self._rack.pass_time(now)
        return self._rack.next_due()

    def due_count(self, now: int) -> int:
        return self._rack.due_count(now)

    def due_by_shape(self, now: int) -> dict[Shape, int]:
        return dict(+self._rack.due_by_shape(now))

    def holds(self, arrival: Arrival) -> bool:
        return self._rack.holds(key_of(arrival), arrival.place, arrival.job)

    def ahead(self, arrival: Arrival, now: int, fits: Callable[[Shape], bool] | None = None) -> int:
        return self._rack.ahead(key_of(arrival), arrival.place, arrival.job, now, fits)

    def order(self, now: int, most: int, fits: Callable[[Shape], bool] | None = None) -> Iterator[int]:
        return (job for *_, job, _ in islice(self._rack.order(now, fits), most))

    def oldest(self) -> int | None:
        return self._rack.oldest()

    def adapt(self, settings: QueueSettings) -> bool:
        self._bounds = Bounds(None, settings.capacity, settings.overflow or REJECT)
        return True

    def drain(self) -> Iterator[Arrival]:
        rack, self._rack = self._rack, Rack(self.by_priority)
        return rack.arrivals(lambda key, tag: self._flows.name(tag))

    def _arrival(self, key: Key, place: int, job: int, tag: int) -> Arrival:
        return Arrival(job, "", self._flows.name(tag), key.priority, key.shape, place)

    def _in_one_line(self, groups: Sequence[Alike]) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return places, jobs and tags of jobs of several flows: they stand in one line here."""
        tags = [self._flows.tag(group.flow) for group in groups]
        if len(groups) == 1:
            return groups[0].places, groups[0].jobs, tags * len(groups[0].jobs)
        alone = (zip(group.places, group.jobs, repeat(tag)) for group, tag in zip(groups, tags, strict=True))
        places, jobs, each = zip(*sorted(chain.from_iterable(alone)), strict=True)
        return places, jobs, each

    def _left(self) -> None:
        if not self._rack.lines:
            self._flows = FlowNames()  # those of jobs that are gone need not be remembered


def key_of(arrival: Arrival) -> Key:
    """Return the line a job belongs to: flows stand together here."""
    return Key(arrival.shape, arrival.priority)
