"""Jobs' begins and ends, and beside them a fluid: what each user holds, what waits, and what would be fair.

The oracle is independent of the core; submits, begins and ends are all it knows. At each moment a user wants
what it holds and what waits of it. The slots are poured to all that want some, by weight, and none is given
more than it wants (max-min): that is its fair share of the moment, as if slots could be divided and jobs
moved. Idle is what no job holds although one waits; every job of a replay fits every slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import NamedTuple

from bench.fairness.work import Run

END, SUBMIT, BEGIN = range(3)


class Change(NamedTuple):
    """Something that happened to a job: at one time ends come first, begins last."""

    at: float
    kind: int
    number: int
    run: Run


def moments(runs: Iterable[Run]) -> Iterator[tuple[float, list[Change]]]:
    """Yield each time at which something happened, with all that did."""
    changes: list[Change] = []
    for run in runs:
        job = run.job
        changes.append(Change(job.submit, SUBMIT, job.number, run))
        changes.append(Change(run.begin, BEGIN, job.number, run))
        changes.append(Change(run.end, END, job.number, run))
    changes.sort()
    for at, some in groupby(changes, attrgetter("at")):
        yield at, list(some)


@dataclass(slots=True)
class User:
    """What a user has of a moment, and has had since it was last counted."""

    weight: float
    waiting: int = 0
    held: int = 0
    had: float = 0.0  # slot-seconds
    fair: float = 0.0
    was_content: bool = True  # nothing of it waited at some moment


@dataclass
class Oracle:
    """All users as they are now. Time passes first, then things change."""

    slots: int
    weights: Mapping[str, float]
    users: dict[str, User] = field(default_factory=dict)
    at: float = 0.0
    since: float = 0.0  # when it was last counted what users have had
    idle: float = 0.0  # slot-seconds
    _wanting: dict[str, User] = field(default_factory=dict)
    _level: float | None = None

    def pass_to(self, at: float) -> None:
        """Let time pass: what is held, and what would be fair."""
        passed, self.at = at - self.at, at
        if passed <= 0.0:
            return
        if self._level is None:
            wants = [(user.held + user.waiting, user.weight) for user in self._wanting.values()]
            self._level = pour(wants, self.slots)
        held, waits = 0, False
        for user in self._wanting.values():
            held += user.held
            waits |= user.waiting > 0
            user.had += user.held * passed
            user.fair += min(user.held + user.waiting, user.weight * self._level) * passed
        if waits:
            self.idle += (self.slots - held) * passed

    def change(self, changes: Iterable[Change]) -> None:
        """Take in what happened at this moment."""
        self._level = None
        touched: dict[str, User] = {}
        for one in changes:
            name = one.run.job.user
            user = touched[name] = self.find(name)
            user.waiting += (one.kind == SUBMIT) - (one.kind == BEGIN)
            user.held += (one.kind == BEGIN) - (one.kind == END)
        for name, user in touched.items():
            if not user.waiting:
                user.was_content = True
            elif self.at == self.since:
                user.was_content = False
            if user.waiting or user.held:
                self._wanting[name] = user
            else:
                self._wanting.pop(name, None)

    def find(self, name: str) -> User:
        """Return a user, known before or not."""
        found = self.users.get(name)
        if found is None:
            found = self.users[name] = User(self.weights.get(name, 1.0))
        return found


def pour(wants: Sequence[tuple[int, float]], slots: float) -> float:
    """Return the level at which each has the less of what it wants and weight times level; all slots used."""
    left, weight = float(slots), sum(weight for _, weight in wants)
    for wanted, its_weight in sorted(wants, key=lambda one: one[0] / one[1]):
        if wanted / its_weight * weight >= left:
            return left / weight
        left -= wanted
        weight -= its_weight
    return inf
