"""Jobs that wait while their user holds nothing: how long such a stretch lasts, and how long it may.

Nothing that runs is interrupted, so a user that comes may have to wait for as long as the longest attempt
that runs then. After that it is at most two turns of its siblings away from being served. In a turn each
sibling that ran in the stretch runs its longest attempt of the stretch once, and one with more weight than
the user as many of them as it has times its weight; the slots share that work:

    may = longest attempt at its begin + 2 · Σ max(1, weight of sibling / weight of user) · longest / slots

Where the stretch begins with the end of an attempt of the user's own, a turn of a sibling is as long as that
one at least: as much as the user had in its turn they have in theirs. That is a bound in the sense of fair
queueing: it does not grow with what the siblings have waiting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from bench.fairness.oracle import BEGIN, END, Oracle, moments
from bench.fairness.work import Load, Run

TURNS = 2


class Stretch(NamedTuple):
    """A time in which a user has work waiting and holds nothing, as long as it can be made."""

    user: str
    begin: float
    end: float
    may: float  # last, in seconds

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end - self.begin

    @property
    def over(self) -> float:
        """By how much it is longer than it may be; below nothing if it is not."""
        return self.seconds - self.may


def stretches(load: Load, runs: Sequence[Run]) -> Iterator[Stretch]:
    """Yield every stretch of a replay, in the order of their ends."""
    began = sorted(runs, key=attrgetter("begin"))
    begins = [run.begin for run in began]
    oracle = Oracle(load.slots, load.weights)
    running: dict[int, Run] = {}
    unserved: dict[str, tuple[float, list[Run], float]] = {}  # since when, what ran then, its own last one
    for at, changes in moments(runs):
        ended = _longest(one.run for one in changes if one.kind == END)
        for one in changes:
            if one.kind == BEGIN:
                running[one.number] = one.run
            elif one.kind == END:
                del running[one.number]
        oracle.change(changes)
        for name in {one.run.job.user for one in changes}:
            user = oracle.users[name]
            if user.waiting and not user.held:
                if name not in unserved:
                    unserved[name] = (at, list(running.values()), ended.get(name, 0.0))
            elif name in unserved:
                since, ran, own = unserved.pop(name)
                meanwhile = began[bisect_left(begins, since) : bisect_left(begins, at)]
                yield Stretch(name, since, at, _may(load, name, ran, meanwhile, own))


def _may(load: Load, user: str, ran: Iterable[Run], meanwhile: Iterable[Run], own: float) -> float:
    """Return how long a user may be left with nothing, after an attempt of its *own* that took so long."""
    first, then = _longest(ran), _longest(meanwhile)
    weight = load.weights.get(user, 1.0)
    turn = sum(
        max(load.weights.get(name, 1.0) / weight, 1.0) * max(first.get(name, 0.0), then.get(name, 0.0), own)
        for name in first.keys() | then.keys()
        if name != user
    )
    return max([own, *first.values()]) + TURNS * turn / load.slots


def _longest(runs: Iterable[Run]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for run in runs:
        job = run.job
        if job.seconds > found.get(job.user, 0.0):
            found[job.user] = job.seconds
    return found
