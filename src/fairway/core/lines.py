"""A line: waiting jobs of one kind in the order of their places, in 20 bytes each.

Most arrivals go to the end and most departures come from the front, so a line is a list of chunks of three
parallel arrays: places, jobs, and a small number that its owner gives each job (its flow). A job that comes
late, comes back or is due later is inserted where its place belongs; equal places stand by id, which is the
order of creation: so a job is found by bisection even where a bulk of ten thousand has one place. Ten million
waiting jobs are 200 MB this way; as tuples in a list they were over 1 GB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

CHUNK = 2048

Chunk = tuple["array[int]", "array[int]", "array[int]"]  # places, jobs, tags


class Line:
    """Sorted (place, job) pairs with a cheap front and end. Owned by one discipline."""

    __slots__ = ("_chunks", "_head", "_length", "is_due")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._head = 0  # entries of the first chunk that have left already
        self._length = 0
        self.is_due = False  # kept by the owner: whether its front was due at last sight

    def __len__(self) -> int:
        return self._length

    def first(self) -> tuple[int, int]:
        """Return (place, job) of the front; the line must not be empty."""
        places, jobs, _ = self._chunks[0]
        return places[self._head], jobs[self._head]

    def first_tag(self) -> int:
        """Return the tag of the front; the line must not be empty."""
        return self._chunks[0][2][self._head]

    def first_place(self) -> int:
        """Return the place of the front; the line must not be empty."""
        return self._chunks[0][0][self._head]

    def last_place(self) -> int:
        """Return the place of the end; the line must not be empty."""
        return self._chunks[-1][0][-1]

    def last(self) -> tuple[int, int, int]:
        """Return (place, job, tag) of the end; the line must not be empty."""
        places, jobs, tags = self._chunks[-1]
        return places[-1], jobs[-1], tags[-1]

    def put(self, place: int, job: int, tag: int = 0) -> None:
        """Insert a job by its place, and by its id among equals."""
        self._length += 1
        if not self._chunks:
            self._chunks.append(_chunk(place, job, tag))
            self._head = 0
            return
        places, jobs, tags = self._chunks[-1]
        last = places[-1]
        if place > last or (place == last and job > jobs[-1]):
            if len(places) >= CHUNK:
                self._chunks.append(_chunk(place, job, tag))
            else:
                places.append(place)
                jobs.append(job)
                tags.append(tag)
            return
        self._insert(place, job, tag)

    def put_many(self, places: Sequence[int], jobs: Sequence[int], tags: Sequence[int] = ()) -> bool:
        """Insert jobs given by place and id; False, and nothing changed, if they cannot stand together.

        They can if nobody here comes between them: then none of them is here already.
        """
        number = bisect_left(self._chunks, (places[0], jobs[0]), key=_last)
        if number < len(self._chunks):
            index = self._index(number, places[0], jobs[0])
            behind = self._chunks[number]
            if (behind[0][index], behind[1][index]) <= (places[-1], jobs[-1]):
                return False
            number = self._cut(number, index)
        zeros = array("i", (0,)) * (len(jobs) - len(tags))
        self._fill(number, array("q", places), array("q", jobs), array("i", tags) or zeros)
        self._length += len(jobs)
        return True

    def pop(self, most: int, until: int) -> tuple[list[int], list[int], list[int]]:
        """Take the job at the front, and up to *most* in all whose places are not later than *until*.

        May take fewer than there are. Returns jobs, places and tags.
        """
        places, jobs, tags = self._chunks[0]
        start, end = self._head, len(jobs)
        stop = min(start + most, end)
        if stop - start > 1 and places[stop - 1] > until:
            stop = max(start + 1, bisect_right(places, until, start, stop))
        taken = jobs[start:stop].tolist(), places[start:stop].tolist(), tags[start:stop].tolist()
        self._length -= stop - start
        self._head = stop
        if stop == end:
            self._chunks.pop(0)
            self._head = 0
        return taken

    def remove(self, place: int, job: int) -> bool:
        """Take a job out of the middle; False if it does not stand at that place."""
        found = self._find(place, job)
        if found is None:
            return False
        number, index = found
        places, jobs, tags = self._chunks[number]
        del places[index], jobs[index], tags[index]
        self._length -= 1
        if len(places) == (self._head if number == 0 else 0):
            self._chunks.pop(number)
            if number == 0:
                self._head = 0
        return True

    def holds(self, place: int, job: int) -> bool:
        """Say whether the job stands at that place."""
        return self._find(place, job) is not None

    def count_until(self, place: int) -> int:
        """Count the jobs whose place is not later than *place*."""
        if not self._length:
            return 0
        if self._chunks[-1][0][-1] <= place:
            return self._length
        whole = bisect_right(self._chunks, place, key=_last_place)
        before = sum(len(chunk[0]) for chunk in self._chunks[:whole])
        low = self._head if whole == 0 else 0
        return before + bisect_right(self._chunks[whole][0], place, low) - self._head

    def count_before(self, place: int, job: int) -> int:
        """Count the jobs that stand before this one, or would if it were here."""
        number = bisect_left(self._chunks, (place, job), key=_last)
        if number == len(self._chunks):
            return self._length
        before = sum(len(chunk[0]) for chunk in self._chunks[:number])
        return before + self._index(number, place, job) - self._head

    def between(self, after: int, until: int) -> Iterator[tuple[int, int]]:
        """Yield (place, job) of those whose place is later than *after* and not later than *until*."""
        for number in range(bisect_right(self._chunks, after, key=_last_place), len(self._chunks)):
            places, jobs, _ = self._chunks[number]
            start = self._head if number == 0 else 0
            low, high = bisect_right(places, after, start), bisect_right(places, until, start)
            yield from zip(places[low:high], jobs[low:high], strict=True)
            if high < len(places):
                return

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((place, job) for place, job, _ in self.tagged())

    def tagged(self) -> Iterator[tuple[int, int, int]]:
        """Yield (place, job, tag) of all, in order."""
        start = self._head
        for places, jobs, tags in self._chunks:
            for index in range(start, len(places)):
                yield places[index], jobs[index], tags[index]
            start = 0

    def _insert(self, place: int, job: int, tag: int) -> None:
        number = bisect_left(self._chunks, (place, job), key=_last)
        places, jobs, tags = self._chunks[number]
        index = self._index(number, place, job)
        if number == 0 and self._head and index == self._head:
            self._head -= 1  # a freed cell at the front: no need to move the rest
            places[self._head], jobs[self._head], tags[self._head] = place, job, tag
            return
        places.insert(index, place)
        jobs.insert(index, job)
        tags.insert(index, tag)
        if len(places) > 2 * CHUNK:
            self._split(number)

    def _cut(self, number: int, index: int) -> int:
        """See to it that a chunk begins at this entry; return the number of that chunk."""
        start = self._head if number == 0 else 0
        if index == 0:
            return number
        places, jobs, tags = self._chunks[number]
        parts = [(places[index:], jobs[index:], tags[index:])]
        if index > start:
            parts.insert(0, (places[start:index], jobs[start:index], tags[start:index]))
        self._chunks[number : number + 1] = parts
        if number == 0:
            self._head = 0
        return number + len(parts) - 1

    def _fill(self, number: int, places: array[int], jobs: array[int], tags: array[int]) -> None:
        """Put entries before a chunk: what the one before it has room for there, the rest in new ones."""
        done = 0
        if number:
            before = self._chunks[number - 1]
            done = max(CHUNK - len(before[0]), 0)
            before[0].extend(places[:done])
            before[1].extend(jobs[:done])
            before[2].extend(tags[:done])
        self._chunks[number:number] = [
            (places[at : at + CHUNK], jobs[at : at + CHUNK], tags[at : at + CHUNK])
            for at in range(done, len(places), CHUNK)
        ]

    def _split(self, number: int) -> None:
        chunk = self._chunks[number]
        start = self._head if number == 0 else 0
        if start:
            self._head = 0
        middle = (start + len(chunk[0])) // 2
        places, jobs, tags = chunk
        self._chunks[number : number + 1] = [
            (places[start:middle], jobs[start:middle], tags[start:middle]),
            (places[middle:], jobs[middle:], tags[middle:]),
        ]

    def _find(self, place: int, job: int) -> tuple[int, int] | None:
        number = bisect_left(self._chunks, (place, job), key=_last)
        if number == len(self._chunks):
            return None
        index = self._index(number, place, job)
        places, jobs, _ = self._chunks[number]
        return (number, index) if places[index] == place and jobs[index] == job else None

    def _index(self, number: int, place: int, job: int) -> int:
        """Return where (place, job) stands, or would stand, in a chunk."""
        places, jobs, _ = self._chunks[number]
        low = bisect_left(places, place, self._head if number == 0 else 0)
        return bisect_left(jobs, job, low, bisect_right(places, place, low))


def _chunk(place: int, job: int, tag: int) -> Chunk:
    return array("q", (place,)), array("q", (job,)), array("i", (tag,))


def _last(chunk: Chunk) -> tuple[int, int]:
    return chunk[0][-1], chunk[1][-1]


def _last_place(chunk: Chunk) -> int:
    return chunk[0][-1]
