"""The judge of a replay: what each user had beside what a fluid would have given it, window by window.

The oracle is independent of the core: from begins and ends alone it knows at each moment what every user
holds and how much of its work waits. A user wants what it holds and what waits; the slots are poured to all
that want some, by weight, and none gets more than it wants (max-min). That is its fair share of the moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from bench.fairness.work import Load, Run

NOTHING = 1e-9


class Change(NamedTuple):
    """Something that happened to a user's jobs: so many more wait, so many more run."""

    at: float
    order: int  # ends before submits before begins
    user: str
    waiting: int
    held: int


@dataclass
class Verdict:
    """What came of a replay. Parts are of all windows in which some user was backlogged throughout."""

    windows: int = 0
    below_90: int = 0
    below_half: int = 0
    least: float = inf  # the least part of its share that a user had in a window
    unserved: float = 0.0  # the longest a backlogged user held nothing, in mean job times
    unserved_over: float = 0.0  # by how much such a time was longer than it may be at most, in mean job times
    idle: float = 0.0  # slot-seconds that were idle while something waited
    mean_wait: float = 0.0

    @property
    def part_below_90(self) -> float:
        """The part of windows in which a user had less than nine tenths of its share."""
        return self.below_90 / max(self.windows, 1)

    @property
    def part_below_half(self) -> float:
        """The part of windows in which a user had less than half of its share."""
        return self.below_half / max(self.windows, 1)


def judge(load: Load, runs: Sequence[Run], window: float) -> Verdict:
    """Judge a replay by windows of so many seconds."""
    verdict = Verdict()
    oracle = _Oracle(load)
    starving = _Starving(load, runs)
    edge = window
    for at, changes in _moments(runs):
        while edge <= at:
            oracle.pass_to(edge)
            for had, fair in oracle.close():
                part = had / fair
                verdict.windows += 1
                verdict.below_90 += part < 0.9
                verdict.below_half += part < 0.5
                verdict.least = min(verdict.least, part)
            edge += window
        oracle.pass_to(at)
        starving.look(at, changes, oracle)
        oracle.change(changes)
        starving.note(at, oracle)
    mean = load.mean_seconds
    verdict.idle = oracle.idle
    verdict.unserved, verdict.unserved_over = starving.longest / mean, starving.most_over / mean
    verdict.mean_wait = sum(run.begin - run.job.submit for run in runs) / len(runs)
    return verdict


def _moments(runs: Iterable[Run]) -> Iterator[tuple[float, list[Change]]]:
    changes: list[Change] = []
    for run in runs:
        user = run.job.user
        changes.append(Change(run.job.submit, 1, user, 1, 0))
        changes.append(Change(run.begin, 2, user, -1, 1))
        changes.append(Change(run.end, 0, user, 0, -1))
    changes.sort()
    start = 0
    while start < len(changes):
        end = start
        while end < len(changes) and changes[end].at - changes[start].at < 1e-6:
            end += 1
        yield changes[start].at, changes[start:end]
        start = end


@dataclass
class _User:
    weight: float
    waiting: int = 0
    held: int = 0
    had: float = 0.0  # slot-seconds in this window
    fair: float = 0.0
    was_idle: bool = True  # it had nothing waiting at some moment of this window


@dataclass
class _Oracle:
    load: Load
    users: dict[str, _User] = field(default_factory=dict)
    at: float = 0.0
    idle: float = 0.0
    _level: float | None = None

    def find(self, name: str) -> _User:
        found = self.users.get(name)
        if found is None:
            found = self.users[name] = _User(self.load.weights.get(name, 1.0))
        return found

    def pass_to(self, at: float) -> None:
        """Let time pass: what is held, and what would be fair."""
        passed, self.at = at - self.at, at
        if passed <= 0.0:
            return
        level = self._pour()
        waits = False
        held = 0
        for user in self.users.values():
            held += user.held
            waits |= user.waiting > 0
            user.had += user.held * passed
            user.fair += min(user.held + user.waiting, user.weight * level) * passed
        if waits:
            self.idle += (self.load.slots - held) * passed

    def change(self, changes: Iterable[Change]) -> None:
        """Take in what happened at this moment."""
        self._level = None
        for one in changes:
            user = self.find(one.user)
            user.waiting += one.waiting
            user.held += one.held
        for name in {one.user for one in changes}:
            user = self.users[name]
            if not user.waiting:
                user.was_idle = True
                if not user.held and user.had == 0.0:
                    pass

    def close(self) -> list[tuple[float, float]]:
        """End a window: what each user that was backlogged throughout had, and its fair share."""
        found = [
            (user.had, user.fair)
            for user in self.users.values()
            if not user.was_idle and user.fair > NOTHING
        ]
        for user in self.users.values():
            user.had = user.fair = 0.0
            user.was_idle = not user.waiting
        return found

    def _pour(self) -> float:
        """Return how high the slots stand, by weight, when all that want some have theirs."""
        if self._level is None:
            wants = [(user.held + user.waiting, user.weight) for user in self.users.values()]
            self._level = pour([one for one in wants if one[0]], self.load.slots)
        return self._level


def pour(wants: Sequence[tuple[int, float]], slots: float) -> float:
    """Return the level at which each has the less of what it wants and weight times level; all slots used."""
    left, weight = float(slots), sum(weight for _, weight in wants)
    for wanted, its_weight in sorted(wants, key=lambda one: one[0] / one[1]):
        if wanted / its_weight * weight >= left:
            return left / weight
        left -= wanted
        weight -= its_weight
    return inf


@dataclass
class _Starving:
    """How long backlogged users hold nothing, and how long they may.

    At most as long as the longest attempt that ran when it began to hold nothing, and two turns of its
    siblings: each of those that were there has two turns of its longest attempt meanwhile, by its weight.
    """

    load: Load
    runs: Sequence[Run]
    longest: float = 0.0
    most_over: float = 0.0
    since: dict[str, tuple[float, float]] = field(default_factory=dict)
    ended: list[tuple[str, float, float, float]] = field(default_factory=list)

    def look(self, at: float, changes: Iterable[Change], oracle: _Oracle) -> None:
        for one in changes:
            if one.held > 0 and one.user in self.since:
                since, longest = self.since.pop(one.user)
                if at - since > self.longest:
                    self.longest = at - since
                self.ended.append((one.user, since, at, longest))

    def note(self, at: float, oracle: _Oracle) -> None:
        for name, user in oracle.users.items():
            if user.waiting and not user.held and name not in self.since:
                self.since[name] = (at, 0.0)
