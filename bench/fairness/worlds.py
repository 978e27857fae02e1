"""Jobs that are drawn: long tails, bursts, users of very different size, lengths from milliseconds to days.

A world is of a kind and has a seed; the same two give the same jobs. Users come in sessions: a burst of
jobs, then nothing for a while, so that contention, lonely work and idle slots alternate. The time in which
all of them come is chosen so that the slots would be just full, or there is more work than they can do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.fairness.work import Job, Load

DAY = 86_400.0
SHORTEST = 0.001
Dice = random.Random
#: Draws how long the jobs of a user take, by the user's number: as many as are asked for.
Lengths = Callable[[Dice, int], Iterator[float]]


class Kind(NamedTuple):
    """How the users of a world behave."""

    users: int
    lengths: Lengths
    slots: int = 16
    skew: float = 1.0  # how much more the largest users have than the small ones, as a power
    burst: float = 80.0  # jobs of a session, on average
    weights: tuple[float, ...] = (1.0,)
    full: float = 1.0  # the work by what the slots can do while it comes
    has_tasks: bool = False  # each user's jobs are a task of its own, so that their length can be learnt


def draw(kind: str, seed: int, jobs: int = 8000) -> Load:
    """Draw a world of some kind."""
    return make(kind, KINDS[kind], seed, jobs)


def make(kind: str, made: Kind, seed: int, jobs: int) -> Load:
    """Draw a world of a kind that may have no place in the table."""
    dice = Dice(f"{kind} {seed}")
    sizes = [(number + 1.0) ** -made.skew for number in range(made.users)]
    counts = [max(round(jobs * size / sum(sizes)), 1) for size in sizes]
    lengths = [_some(made.lengths(dice, user), count) for user, count in enumerate(counts)]
    span = sum(map(sum, lengths)) / (made.slots * made.full)
    drawn: list[tuple[float, int, float]] = []
    for user, seconds in enumerate(lengths):
        times = _sessions(dice, len(seconds), span, made.burst)
        drawn += [(at, user, took) for at, took in zip(times, seconds, strict=True)]
    drawn.sort()
    weights = {f"u{user}": made.weights[user % len(made.weights)] for user in range(made.users)}
    return Load(
        f"{kind} {seed}",
        [
            Job(number, f"u{user}", at, took, f"t{user}" if made.has_tasks else "")
            for number, (at, user, took) in enumerate(drawn, 1)
        ],
        made.slots,
        {user: weight for user, weight in weights.items() if weight != 1.0},
        kind,
    )


def _some(lengths: Iterator[float], count: int) -> list[float]:
    return [min(max(next(lengths), SHORTEST), 3 * DAY) for _ in range(count)]


def _sessions(dice: Dice, count: int, span: float, burst: float) -> list[float]:
    """Draw when a user's jobs come: in bursts of very different size, each within a moment."""
    times: list[float] = []
    while len(times) < count:
        start = dice.uniform(0.0, span)
        size = min(1 + int(dice.expovariate(1.0) ** 2 * burst / 2), count - len(times))
        gap = dice.choice((0.0, 0.0, span / count / 50))
        times += [start + gap * number for number in range(size)]
    return times


# --- lengths -----------------------------------------------------------------------------------------------
def equal(dice: Dice, user: int) -> Iterator[float]:
    """All jobs take a minute."""
    while True:
        yield 60.0


def _alike(dice: Dice, user: int) -> Iterator[float]:
    while True:
        yield dice.uniform(30.0, 90.0)


def _memoryless(dice: Dice, user: int) -> Iterator[float]:
    while True:
        yield dice.expovariate(1 / 60.0) + SHORTEST


def _tail(dice: Dice, user: int) -> Iterator[float]:
    """Pareto: most are short, a few take as much as all others together; a day at most."""
    while True:
        yield min(10.0 * dice.paretovariate(1.2), DAY)


def _milliseconds_to_days(dice: Dice, user: int) -> Iterator[float]:
    while True:
        yield math.exp(dice.gauss(2.0, 3.0))


def _by_user(dice: Dice, user: int) -> Iterator[float]:
    """Each user has a length of its own, three powers of ten apart; its jobs vary around it."""
    while True:
        yield float(10.0 ** (user * 7919 % 31 / 10)) * math.exp(dice.gauss(0.0, 0.7))


def _two_lengths(dice: Dice, user: int) -> Iterator[float]:
    """Every fourth user runs jobs of hours, the others of seconds."""
    while True:
        yield dice.uniform(1800.0, 7200.0) if user % 4 == 1 else dice.uniform(2.0, 20.0)


def _one_long_in(count: int) -> Lengths:
    """One job in so many goes on for very long: a slot that is held while its user may want no more."""

    def lengths(dice: Dice, user: int) -> Iterator[float]:
        while True:
            yield dice.uniform(3000.0, 9000.0) if dice.random() < 1 / count else dice.uniform(5.0, 30.0)

    return lengths


def _log_normal(between: float, within: float) -> Lengths:
    """Each user has a mean of its own; both by the normal law of logarithms, so many sigmas apart."""

    def lengths(dice: Dice, user: int) -> Iterator[float]:
        its_own = dice.gauss(3.0, between)
        while True:
            yield math.exp(its_own + dice.gauss(0.0, within))

    return lengths


KINDS: dict[str, Kind] = {
    "equal": Kind(24, equal),
    "alike": Kind(24, _alike, weights=(1.0, 2.0, 5.0)),
    "memoryless": Kind(30, _memoryless),
    "tail": Kind(30, _tail),
    "days": Kind(40, _milliseconds_to_days, slots=32, full=1.3),
    "by_user": Kind(30, _by_user, skew=0.8, has_tasks=True),
    "two_lengths": Kind(24, _two_lengths, skew=0.6, has_tasks=True),
    "held": Kind(20, _one_long_in(300), slots=10),
    "hogs": Kind(20, _one_long_in(30), slots=10),  # long jobs take more than nine tenths of all slot-seconds
    "floods": Kind(12, _tail, burst=400.0, weights=(1.0, 3.0)),
    "crowd": Kind(200, _by_user, slots=24, skew=0.5, burst=30.0, full=1.3),
    "users_60_on_8": Kind(60, _log_normal(1.0, 1.0), slots=8, skew=0.6, burst=30.0),
    "users_60_on_32": Kind(60, _log_normal(1.5, 1.0), slots=32, skew=0.6, full=1.3, has_tasks=True),
    "users_150_on_16": Kind(150, _log_normal(1.5, 1.5), skew=0.5, burst=30.0),
    "users_30_on_16": Kind(30, _log_normal(2.0, 1.0), has_tasks=True),
    "users_20_on_4": Kind(20, _log_normal(1.0, 2.0), slots=4, burst=40.0),
    "weighted": Kind(40, _log_normal(1.5, 1.0), slots=8, skew=0.6, burst=30.0, weights=(1.0, 2.0, 5.0)),
}
