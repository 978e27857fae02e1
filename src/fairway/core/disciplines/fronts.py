"""Who is first among many, for each who asks by what fits it: O(log n), however many others there are.

Kinds of workers ask again and again, each with its own `fits`. For each of them there is a heap of those that
it may have, by their standing: what it may not have it has looked at once. A change is written into a log,
which an asker reads on when it asks the next time: to make a change costs the same however many kinds of
workers there are, and each pays for reading it when it asks. What was noted before something changed is
void. Where standings rise by themselves as time passes, what was noted last is a lower bound, and looked at
again before it is believed. An asker that did not read while the log was begun anew is forgotten: the worker
may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from fairway.core.model import Shape

Fits = Callable[[Shape], bool]
#: What decides, the least first; no two are equal. None: nothing of it is due.
Standing = tuple[float, int, int]

#: What all askers together may have noted: some 100 bytes each.
MOST_NOTES = 1_000_000

One = TypeVar("One")


class Fronts(Generic[One]):
    """Those of *everybody* that have a *standing*, each offered to whom it *suits*."""

    __slots__ = ("_askers", "_everybody", "_log", "_rises", "_standing", "_start", "_suits")

    def __init__(
        self,
        everybody: Callable[[], Collection[One]],
        standing: Callable[[One], Standing | None],
        suits: Callable[[One, Fits], bool],
        rises: bool = False,
    ) -> None:
        self._everybody, self._standing, self._suits = everybody, standing, suits
        self._rises = rises  # standings, as time passes
        self._askers: dict[Fits, _Asker[One]] = {}
        self._log: list[One] = []
        self._start = 0  # how many entries the log had before this one's first

    def changed(self, one: One) -> None:
        """Something about one of them is not as it was: what is due, whom it suits, its standing."""
        if self._askers:
            log = self._log
            log.append(one)
            if len(log) > 64 and len(log) > 2 * len(self._everybody()):
                self._renew()

    def best(self, fits: Fits, some: Collection[One] | None = None) -> One | None:
        """Return who is first among those that suit, or None; *some* are all of those, if they are known."""
        asker = self._askers.get(fits)
        if asker is None:
            self._make_room()
            asker = self._askers[fits] = _Asker(-1)
        if asker.seen != self._start + len(self._log):
            self._catch_up(asker, fits, some)
        heap = asker.heap
        while heap:
            noted, number, one = heap[0]
            standing = self._standing(one)
            if standing == noted and self._suits(one, fits):
                return one
            if standing is not None and asker.newest.get(one) == number and standing > noted:
                heapreplace(heap, (standing, number, one))  # nothing has happened to it: time has passed
            else:
                heappop(heap)
        return None

    def askers(self) -> Collection[Fits]:
        """Return who has asked lately."""
        return self._askers.keys()

    def forget(self) -> None:
        """All is different: who asks next starts anew."""
        self._askers.clear()
        self._log.clear()

    def _catch_up(self, asker: _Asker[One], fits: Fits, some: Collection[One] | None) -> None:
        log, heap, start = self._log, asker.heap, self._start
        seen, asker.seen = asker.seen, start + len(log)
        everybody = self._everybody() if some is None else some
        if (
            seen < start
            or max(len(heap), len(asker.newest)) > 4 * len(everybody) + 64
            or len(log) - (seen - start) > 4 * len(everybody)
        ):
            heap.clear()
            for number, one in enumerate(everybody):
                standing = self._standing(one)
                if standing is not None and self._suits(one, fits):
                    heap.append((standing, number, one))
            heapify(heap)
            if self._rises:
                asker.newest = {one: number for _, number, one in heap}
            return
        for number in range(seen - start, len(log)):
            one = log[number]
            standing = self._standing(one)
            if standing is not None and self._suits(one, fits):
                heappush(heap, (standing, start + number, one))
                if self._rises:
                    asker.newest[one] = start + number

    def _make_room(self) -> None:
        """Forget those who asked longest ago, if all together have noted too much."""
        while self._askers and sum(len(one.heap) + 1 for one in self._askers.values()) > MOST_NOTES:
            last = sorted(self._askers, key=lambda fits: self._askers[fits].seen)
            for fits in last[: len(last) // 2 + 1]:
                del self._askers[fits]

    def _renew(self) -> None:
        """Begin the log anew. Who has not read it to its end starts anew, who has not read in it is gone."""
        self._askers = {fits: one for fits, one in self._askers.items() if one.seen >= self._start}
        self._start += len(self._log)
        self._log.clear()


class _Asker(Generic[One]):
    """What one kind of worker may have, as far as it has read the log."""

    __slots__ = ("heap", "newest", "seen")

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.newest: dict[One, int] = {}  # the number of what was noted of each last, where standings rise
        self.heap: list[tuple[Standing, int, One]] = []  # the number tells notes of equal standing apart
