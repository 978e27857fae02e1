"""Worlds that are drawn: long tails, bursts, users of very different size, jobs from milliseconds to days.

Each kind is a function of a seeded dice and a number of jobs. Users come in sessions: a burst of jobs, then
nothing for a while, so that contention, lonely work and idle slots alternate. The slots are chosen so that
the work fills them for about the part `FULL` of the time that the users' submits take.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from bench.fairness.work import Job, Load

FULL = 1.0
Dice = random.Random
#: Draws how long a job of a user takes, by the user's number.
Lengths = Callable[[Dice, int], float]


class Kind(NamedTuple):
    """How the users of a world behave."""

    users: int
    lengths: Lengths
    slots: int = 16
    skew: float = 1.0  # how much more the largest users have than the small ones, as a power
    burst: float = 80.0  # jobs of a session, on average
    weights: tuple[float, ...] = (1.0,)


def draw(kind: str, seed: int, jobs: int = 8000) -> Load:
    """Draw a world of some kind."""
    dice = Dice(f"{kind} {seed}")
    made = KINDS[kind]
    sizes = [(number + 1.0) ** -made.skew for number in range(made.users)]
    counts = [max(round(jobs * size / sum(sizes)), 1) for size in sizes]
    lengths = [[made.lengths(dice, user) for _ in range(count)] for user, count in enumerate(counts)]
    span = sum(map(sum, lengths)) / (made.slots * FULL)
    drawn: list[tuple[float, str, float]] = []
    for user, seconds in enumerate(lengths):
        drawn += [
            (at, f"u{user}", took)
            for at, took in zip(_sessions(dice, len(seconds), span, made.burst), seconds, strict=True)
        ]
    drawn.sort()
    weights = {f"u{user}": made.weights[user % len(made.weights)] for user in range(made.users)}
    return Load(
        f"{kind} {seed}",
        [Job(number, user, at, took) for number, (at, user, took) in enumerate(drawn, 1)],
        made.slots,
        {user: weight for user, weight in weights.items() if weight != 1.0},
    )


def _sessions(dice: Dice, count: int, span: float, burst: float) -> list[float]:
    """Draw when a user's jobs come: in bursts of very different size, each within a moment."""
    times: list[float] = []
    while len(times) < count:
        start = dice.uniform(0.0, span)
        size = min(1 + int(dice.expovariate(1.0) ** 2 * burst / 2), count - len(times))
        gap = dice.choice((0.0, 0.0, span / count / 50))
        times += [start + gap * number for number in range(size)]
    return times


def _equal(dice: Dice, user: int) -> float:
    return 60.0


def _alike(dice: Dice, user: int) -> float:
    return dice.uniform(30.0, 90.0)


def _memoryless(dice: Dice, user: int) -> float:
    return dice.expovariate(1 / 60.0) + 0.001


def _tail(dice: Dice, user: int) -> float:
    """Pareto: most are short, a few take as much as all others together; a day at most."""
    return min(10.0 * dice.paretovariate(1.2), 86_400.0)


def _milliseconds_to_days(dice: Dice, user: int) -> float:
    return min(max(math.exp(dice.gauss(2.0, 3.0)), 0.001), 3 * 86_400.0)


def _by_user(dice: Dice, user: int) -> float:
    """Each user has a length of its own, three powers of ten apart; its jobs vary around it."""
    return float(10.0 ** (user * 7919 % 31 / 10)) * math.exp(dice.gauss(0.0, 0.7))


def _two_lengths(dice: Dice, user: int) -> float:
    """Every fourth user runs jobs of hours, the others of seconds."""
    return dice.uniform(1800.0, 7200.0) if user % 4 == 1 else dice.uniform(2.0, 20.0)


def _held(dice: Dice, user: int) -> float:
    """One job in thirty goes on for very long: a slot that is held while its user wants no more."""
    return dice.uniform(3000.0, 9000.0) if dice.random() < 1 / 30 else dice.uniform(5.0, 30.0)


KINDS: dict[str, Kind] = {
    "equal": Kind(24, _equal),
    "alike": Kind(24, _alike, weights=(1.0, 2.0, 5.0)),
    "memoryless": Kind(30, _memoryless),
    "tail": Kind(30, _tail),
    "days": Kind(40, _milliseconds_to_days, slots=32),
    "by_user": Kind(30, _by_user, skew=0.8),
    "two_lengths": Kind(24, _two_lengths, skew=0.6),
    "held": Kind(20, _held, slots=10),
    "floods": Kind(12, _tail, burst=400.0, weights=(1.0, 3.0)),
    "crowd": Kind(200, _by_user, slots=24, skew=0.5, burst=30.0),
}
