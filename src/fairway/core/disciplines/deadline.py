"""Earliest deadline first; jobs without one come last, by place. Priority plays no part.

Jobs without a deadline stand in an ordinary fifo. Those with one stand here whole, by job: in a line by
place, and once they are due in a rack by deadline. Which are due is known as of the time somebody asked last
for a job; when it is later now, those that became due meanwhile are moved first, and when the wall clock was
set back all are looked through. Who only reads moves nothing: what became due since is counted in. Equal
deadlines are served in the order of the ids.

That an expired job is not served is not seen to here: it is taken out before anybody asks (core/expiry.py).
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain, islice

from fairway.core.deadlines import deadline_of
from fairway.core.discipline import Offer, Served
from fairway.core.disciplines.bounds import REJECT, Bounds
from fairway.core.disciplines.fifo import Fifo
from fairway.core.disciplines.looking import Served as Ranked
from fairway.core.disciplines.ordered import key_of
from fairway.core.disciplines.rack import Key, Rack
from fairway.core.lines import Line
from fairway.core.model import Alike, Arrival, QueueSettings, Shape

NEVER = (1 << 63) - 1


class Deadline:
    """Serves by deadline, then what has none."""

    name = "deadline"
    by_seconds = False

    def __init__(self, settings: QueueSettings) -> None:
        self._rest = Fifo(replace(settings, capacity=None))  # those without a deadline
        self._jobs: dict[int, Arrival] = {}  # those with one
        self._places = Line()  # of all of those
        self._later = Line()  # places of those that are not due
        self._due = _all_due()  # deadlines of those that are
        self._seen = 0
        self._bounds = Bounds(None, settings.capacity, settings.overflow or REJECT)

    def __len__(self) -> int:
        return len(self._jobs) + len(self._rest)

    def put(self, arrival: Arrival) -> None:
        if deadline_of(arrival) is None:
            self._rest.put(arrival)
            return
        self._jobs[arrival.job] = arrival
        self._places.put(arrival.place, arrival.job)
        self._stand(arrival)

    def put_alike(self, groups: Sequence[Alike]) -> bool:
        new = all(self._jobs.keys().isdisjoint(group.jobs) for group in groups)
        return new and self._rest.put_alike(groups)

    def remove(self, arrival: Arrival) -> bool:
        if not self._has(arrival):
            return self._rest.remove(arrival)
        self._unstand(self._leave(arrival.job))
        return True

    def offer(self, fits: Callable[[Shape], bool], now: int) -> Offer | None:
        self._pass_time(now)
        first = self._due.first(fits, NEVER) if self._due.lines else None
        if first is None:
            return self._rest.offer(fits, now)
        key, _, job = first
        arrival = self._jobs[job]
        return Offer(job, key.shape, key.priority, arrival.flow, arrival.place, self._due)

    def take(self, offer: Offer, most: int, now: int) -> Served:
        if offer.job not in self._jobs:
            return self._rest.take(offer, most, now)
        jobs, _, _ = self._due.pop(Key(offer.shape, offer.priority), most, NEVER)
        taken = [self._leave(job) for job in jobs]
        more = offer.shape in self._due.ready
        return Served(jobs, [one.place for one in taken], more, [one.flow for one in taken])

    def hold(self, flow: str | None, units: int) -> None:
        """Nobody pays here: jobs are served in their order."""

    def release(self, flow: str | None, units: int, seconds: float) -> None:
        """Nobody pays here: jobs are served in their order."""

    def wait(self, flow: str | None, units: int, seconds: float) -> None:
        """Nobody pays here: jobs are served in their order."""

    def refusal(self, coming: Mapping[str | None, int]) -> str | None:
        return self._bounds.refusal(len(self), {}, coming)

    def surplus(self, arrival: Arrival) -> Arrival | None:
        if self._bounds.capacity is None or len(self) <= self._bounds.capacity:
            return None
        if self._bounds.rejects:
            return arrival
        oldest, some = self._bounds.drops_oldest, list[Arrival]()
        if len(self._rest):
            some.append(self._rest.oldest_job() if oldest else self._rest.newest_job())
        if self._jobs:
            some.append(self._jobs[self._places.first()[1] if oldest else self._places.last()[1]])
        return (min if oldest else max)(some, key=lambda one: (one.place, one.job))

    def shapes(self, now: int) -> Collection[Shape]:
        self._pass_time(now)
        rest = self._rest.shapes(now)
        return ChainMap(self._due.ready, self._rest.ready).keys() if self._jobs else rest

    def next_due(self, now: int) -> int | None:
        self._pass_time(now)
        own = self._later.first_place() if self._later else None
        return min((at for at in (own, self._rest.next_due(now)) if at is not None), default=None)

    # --- looking: changes nothing, whatever `now` is -----------------------------------------------------
    def due_count(self, now: int) -> int:
        return self._places.count_until(now) + self._rest.due_count(now)

    def due_by_shape(self, now: int) -> dict[Shape, int]:
        counted = self._due.due_by_shape(NEVER) + Counter(self._rest.due_by_shape(now))
        counted.update(job.shape for job in self._due_since(now))
        counted.subtract(job.shape for job in self._not_due_yet(now))
        return dict(+counted)

    def holds(self, arrival: Arrival) -> bool:
        return self._has(arrival) or self._rest.holds(arrival)

    def ahead(self, arrival: Arrival, now: int, fits: Callable[[Shape], bool] | None = None) -> int:
        deadline = deadline_of(self._jobs.get(arrival.job, arrival))
        own = (NEVER if deadline is None else deadline, arrival.job)
        before = self._due.ahead(key_of(arrival), *own, NEVER, fits)
        before += sum(rank[1:3] < own for rank in self._ranked(self._due_since(now), fits))
        before -= sum(rank[1:3] < own for rank in self._ranked(self._not_due_yet(now), fits))
        return before if deadline is not None else before + self._rest.ahead(arrival, now, fits)

    def order(self, now: int, most: int, fits: Callable[[Shape], bool] | None = None) -> Iterator[int]:
        late = {job.job for job in self._not_due_yet(now)}
        ranked = merge(self._due.order(NEVER, fits), self._ranked(self._due_since(now), fits))
        first = (job for *_, job, _ in ranked if job not in late)
        return islice(chain(first, self._rest.order(now, most, fits)), most)

    def _due_since(self, now: int) -> Iterator[Arrival]:
        """Yield the jobs with a deadline that have become due since time passed here."""
        return (self._jobs[job] for _, job in self._later.between(self._seen, now))

    def _not_due_yet(self, now: int) -> Iterator[Arrival]:
        """Yield those that are due here, but not by the clock of who asks: it was set back."""
        return (self._jobs[job] for _, job in self._places.between(now, self._seen))

    def _ranked(self, jobs: Iterable[Arrival], fits: Callable[[Shape], bool] | None) -> list[Ranked]:
        """Return jobs as the rack of what is due has them, in the order of service."""
        fitting = (job for job in jobs if fits is None or fits(job.shape))
        return sorted((0, deadline_of(job) or 0, job.job, job.shape) for job in fitting)

    def oldest(self) -> int | None:
        own = self._places.first_place() if self._places else None
        return min((at for at in (own, self._rest.oldest()) if at is not None), default=None)

    def adapt(self, settings: QueueSettings) -> bool:
        self._bounds = Bounds(None, settings.capacity, settings.overflow or REJECT)
        return True

    def drain(self) -> Iterator[Arrival]:
        jobs, self._jobs = self._jobs, {}
        self._places, self._later, self._due = Line(), Line(), _all_due()
        return chain(jobs.values(), self._rest.drain())

    def _has(self, arrival: Arrival) -> bool:
        found = self._jobs.get(arrival.job)
        return found is not None and found[3:6] == arrival[3:6]  # priority, shape, place

    def _leave(self, job: int) -> Arrival:
        arrival = self._jobs.pop(job)
        self._places.remove(arrival.place, job)
        return arrival

    def _stand(self, arrival: Arrival) -> None:
        """Put a job with a deadline where it belongs, as of the time that was seen."""
        if arrival.place > self._seen:
            self._later.put(arrival.place, arrival.job)
        else:
            self._due.put(key_of(arrival), deadline_of(arrival) or 0, arrival.job)

    def _unstand(self, arrival: Arrival) -> None:
        if not self._later.remove(arrival.place, arrival.job):
            self._due.remove(key_of(arrival), deadline_of(arrival) or 0, arrival.job)

    def _pass_time(self, now: int) -> None:
        """Move what has become due since; or look through all if the wall clock was set back."""
        if now < self._seen and self._places.count_until(now) < self._places.count_until(self._seen):
            self._later, self._due, self._seen = Line(), _all_due(), now
            for arrival in self._jobs.values():
                self._stand(arrival)
        self._seen = now
        while self._later and self._later.first_place() <= now:
            for job in self._later.pop(1, now)[0]:
                self._stand(self._jobs[job])


def _all_due() -> Rack:
    """Return a rack for jobs by deadline, all of which are due."""
    rack = Rack(by_priority=False)
    rack.pass_time(NEVER)
    return rack
