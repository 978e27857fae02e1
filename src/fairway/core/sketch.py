"""A distribution of seconds in a handful of numbers: buckets that grow by a fifth each, from 1 ms to a month.

A percentile read from it is off by a tenth at most. It holds 130 buckets at most, however much goes in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from math import log2

LEAST = 0.001  # seconds; what is shorter counts as this
STEPS = 4  # buckets from a number to its double
LAST = 128  # index of the last bucket


class Sketch:
    """How often something took about so long. The weights are its owner's: newer ones may count for more."""

    __slots__ = ("weights",)

    def __init__(self) -> None:
        self.weights: dict[int, float] = {}

    def add(self, seconds: float, weight: float) -> None:
        """Count something that took so long."""
        index = 0 if seconds <= LEAST else min(int(STEPS * log2(seconds / LEAST)) + 1, LAST)
        self.weights[index] = self.weights.get(index, 0.0) + weight

    def merge(self, other: Sketch) -> None:
        """Take in what another has counted."""
        weights = self.weights
        for index, weight in other.weights.items():
            weights[index] = weights.get(index, 0.0) + weight

    def scale(self, factor: float) -> None:
        """Make all that was counted so far count for less; what hardly does is forgotten."""
        scaled = ((index, weight * factor) for index, weight in self.weights.items())
        self.weights = {index: weight for index, weight in scaled if weight > 1e-200}

    def quantiles(self, parts: Iterable[float]) -> list[float]:
        """Return the seconds below which each of these parts lies; nothing if nothing was counted."""
        counted = sorted(self.weights.items())
        total = sum(weight for _, weight in counted)
        if total <= 0.0:
            return []
        reached = list(accumulate(weight for _, weight in counted))
        last = len(counted) - 1
        return [_middle(counted[min(bisect_left(reached, part * total), last)][0]) for part in parts]


def _middle(index: int) -> float:
    """Return the middle of a bucket; nothing shorter than a millisecond is told apart."""
    return LEAST * 2.0 ** ((index - 0.5) / STEPS) if index else LEAST
