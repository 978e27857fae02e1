"""A rack of lines: waiting jobs of many shapes and priorities, and which of them is next for whom.

Each line holds jobs of one shape, priority and flow by place. A line is due when its front is; which are due
is known as of the time that was passed last, and by a heap of those that are not. With a few lines all are
looked at; with many (a tenant may name a tag of its own for each job) whoever asks has a heap of those that
fit it (`fronts.py`), so that what nobody can run costs nobody anything. Who only reads does not make time
pass here (`looking.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from fairway.core.disciplines.fronts import Fits, Fronts, Standing
from fairway.core.disciplines.looking import Key as Key
from fairway.core.disciplines.looking import LinesLook, Served
from fairway.core.lines import Line
from fairway.core.model import Arrival, Shape

FEW = 8  # lines that are looked at one by one
NOWHERE = (1, 0, 0)  # behind everything

#: Hears of a rack that the first line of a shape has become due (1), or the last is so no more (-1).
Hears = Callable[["Rack", Shape, int], None]


class Rack:
    """Lines by (shape, priority, flow), served by rank, then place. Owned by a discipline or a flow."""

    __slots__ = (
        "_armed",
        "_ends",
        "_fronts",
        "_hears",
        "_later",
        "_looked",
        "_seen",
        "by_priority",
        "count",
        "lines",
        "ready",
    )

    def __init__(self, by_priority: bool, hears: Hears | None = None) -> None:
        self.by_priority = by_priority  # whether a higher priority goes first
        self.lines: dict[Key, Line] = {}
        self.count = 0
        self.ready: dict[Shape, int] = {}  # the shapes of which a job is due → how many lines are
        self._hears = hears
        self._later: list[tuple[int, int, Key]] = []  # when a line becomes due
        self._armed = 0
        self._seen = 0
        self._fronts: Fronts[Key] | None = None  # of many lines: who is next for whom
        self._ends: dict[bool, Fronts[Key]] | None = None  # and who came first, and last
        self._looked: LinesLook | None = None  # what was told of these lines as they are now

    # --- jobs come and go ----------------------------------------------------------------------------
    def put(self, key: Key, place: int, job: int, tag: int = 0) -> None:
        """Let a job wait."""
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line()
        line.put(place, job, tag)
        self.count += 1
        self._looked = None
        if line.first() == (place, job):
            self._look(key, line)
        elif self._ends is not None:
            self._changed(key)

    def put_many(
        self, key: Key, places: Sequence[int], jobs: Sequence[int], tags: Sequence[int] = ()
    ) -> bool:
        """Let jobs of one line wait; False, and nothing changed, if they cannot stand together."""
        line = self.lines.get(key) or Line()
        if not line.put_many(places, jobs, tags):
            return False
        self.lines[key] = line
        self.count += len(jobs)
        self._looked = None
        self._look(key, line)
        return True

    def adopt(self, key: Key, line: Line) -> None:
        """Take over a line that stood elsewhere."""
        self.lines[key] = line
        self.count += len(line)
        self._look(key, line)

    def remove(self, key: Key, place: int, job: int) -> bool:
        """Take a job out; False if it does not stand here at that place."""
        line = self.lines.get(key)
        if line is None or not line.remove(place, job):
            return False
        self.count -= 1
        self._looked = None
        self._look(key, line)
        return True

    def pop(self, key: Key, most: int, now: int) -> tuple[list[int], list[int], list[int]]:
        """Take the first jobs of a line; more than one only if no other line could come between."""
        if now > self._seen:
            self.pass_time(now)
        line = self.lines[key]
        taken = line.pop(most if len(self.lines) == 1 else 1, now)
        self.count -= len(taken[0])
        self._looked = None
        if not line or line.first_place() > now:
            self._look(key, line)
        elif self._fronts is not None or self._ends is not None:
            self._changed(key)
        return taken

    # --- who is next -----------------------------------------------------------------------------------
    def first(self, fits: Fits, now: int) -> tuple[Key, int, int] | None:
        """Return line, place and job of the next due job among the shapes that fit."""
        lines = self.lines
        if len(lines) == 1:  # the common case, and the hottest line of a drain
            [(key, line)] = lines.items()
            place, job = line.first()
            return (key, place, job) if place <= now and fits(key.shape) else None
        self.pass_time(now)
        found = self._first_of_few(fits) if len(lines) <= FEW else self._first_of_many(fits)
        return None if found is None else (found, *lines[found].first())

    def suits(self, fits: Fits) -> bool:
        """Say whether something that fits was due at last sight. No time passes by that."""
        return self.first(fits, self._seen) is not None

    def _first_of_few(self, fits: Fits) -> Key | None:
        self._fronts = None
        best: Standing | None = None
        chosen: Key | None = None
        for key, line in self.lines.items():
            if line.is_due and fits(key.shape):
                place, job = line.first()
                standing = (-key.priority if self.by_priority else 0, place, job)
                if best is None or standing < best:
                    best, chosen = standing, key
        return chosen

    def _first_of_many(self, fits: Fits) -> Key | None:
        if self._fronts is None:
            self._fronts = Fronts(lambda: self.lines, self._standing, lambda key, fits: fits(key.shape))
        return self._fronts.best(fits)

    def _standing(self, key: Key) -> Standing | None:
        line = self.lines.get(key)
        if line is None or not line.is_due:
            return None
        place, job = line.first()
        return (-key.priority if self.by_priority else 0, place, job)

    # --- looking: changes nothing ----------------------------------------------------------------------
    def order(self, now: int, fits: Fits | None = None) -> Iterator[Served]:
        """Return the due jobs, of the shapes that fit if told so, in the order of service."""
        return self._look_only().order(now, fits)

    def ahead(self, key: Key, place: int, job: int, now: int, fits: Fits | None = None) -> int:
        """Count the due jobs before this one; where there are many lines, exact to 1,000 and then a guess."""
        return self._look_only().ahead(key, place, job, now, fits)

    def _look_only(self) -> LinesLook:
        if self._looked is None:
            self._looked = LinesLook(self.lines, self.by_priority)
        return self._looked

    def due_count(self, now: int) -> int:
        """Count the due jobs."""
        return sum(line.count_until(now) for line in self.lines.values())

    def due_by_shape(self, now: int) -> Counter[Shape]:
        """Count the due jobs, shape by shape."""
        counted = Counter[Shape]()
        for key, line in self.lines.items():
            counted[key.shape] += line.count_until(now)
        return counted

    def holds(self, key: Key, place: int, job: int) -> bool:
        """Say whether a job stands here at that place."""
        line = self.lines.get(key)
        return line is not None and line.holds(place, job)

    def oldest(self) -> int | None:
        """Return the least place of a job here."""
        return min((line.first_place() for line in self.lines.values()), default=None)

    # --- who came first, and last: for those who make room -----------------------------------------------
    def oldest_job(self) -> tuple[Key, int, int, int]:
        """Return line, place, id and tag of the job with the least place; there must be one."""
        key = self._outermost(newest=False)
        line = self.lines[key]
        return (key, *line.first(), line.first_tag())

    def newest_job(self) -> tuple[Key, int, int, int]:
        """Return line, place, id and tag of the job with the greatest place; there must be one."""
        key = self._outermost(newest=True)
        return (key, *self.lines[key].last())

    def _outermost(self, newest: bool) -> Key:
        """Return the line of the oldest or newest job of all."""
        if len(self.lines) <= FEW:
            self._ends = None
            return min(self.lines, key=lambda key: self._end_of(key, newest) or NOWHERE)
        if self._ends is None:
            self._ends = {}
        if newest not in self._ends:
            self._ends[newest] = Fronts(lambda: self.lines, lambda key: self._end_of(key, newest), _always)
        found = self._ends[newest].best(_anything)
        assert found is not None
        return found

    def _end_of(self, key: Key, newest: bool) -> Standing | None:
        line = self.lines.get(key)
        if line is None:
            return None
        if newest:
            place, job, _ = line.last()
            return (0, -place, -job)
        return (0, *line.first())

    def arrivals(
        self, flow_of: Callable[[Key, int], str | None] = lambda key, tag: key.flow
    ) -> Iterator[Arrival]:
        """Yield every job here."""
        for key, line in self.lines.items():
            for place, job, tag in line.tagged():
                yield Arrival(job, "", flow_of(key, tag), key.priority, key.shape, place)

    # --- what is due -----------------------------------------------------------------------------------
    def pass_time(self, now: int) -> None:
        """Let lines be due whose fronts have become so; look at all if the clock was set back."""
        if now == self._seen:
            return
        set_back, self._seen = now < self._seen, now
        if set_back:
            self._later = []
            for key, line in list(self.lines.items()):
                self._look(key, line)
        later = self._later
        while later and later[0][0] <= now:
            key = heappop(later)[2]
            found = self.lines.get(key)
            if found is not None and not found.is_due:
                self._look(key, found)

    def next_due(self) -> int | None:
        """Return when the next line becomes due of which no job is."""
        later = self._later
        while later:
            place, _, key = later[0]
            line = self.lines.get(key)
            if line is not None and not line.is_due and line.first_place() == place:
                return place
            heappop(later)
        return None

    def _look(self, key: Key, line: Line) -> None:
        """The front of a line is another one: see whether it is due. An empty line goes."""
        place = line.first_place() if line else None
        is_due = place is not None and place <= self._seen
        if is_due is not line.is_due:
            line.is_due = is_due
            self._count(key.shape, 1 if is_due else -1)
        if place is None:
            del self.lines[key]
        elif not is_due:
            self._arm(key, place)
        self._changed(key)

    def _changed(self, key: Key) -> None:
        if self._fronts is not None:
            self._fronts.changed(key)
        if self._ends is not None:
            for fronts in self._ends.values():
                fronts.changed(key)

    def _arm(self, key: Key, place: int) -> None:
        self._armed += 1
        heappush(self._later, (place, self._armed, key))
        if len(self._later) > 4 * len(self.lines) + 64:
            waiting = ((line.first_place(), key) for key, line in self.lines.items() if not line.is_due)
            self._later = [(place, number, key) for number, (place, key) in enumerate(waiting)]
            heapify(self._later)

    def _count(self, shape: Shape, lines: int) -> None:
        left = self.ready.get(shape, 0) + lines
        if left:
            self.ready[shape] = left
        else:
            del self.ready[shape]
        if self._hears is not None and left == max(lines, 0):
            self._hears(self, shape, lines)


def _anything(shape: Shape) -> bool:
    return True


def _always(key: Key, fits: Fits) -> bool:
    return True
