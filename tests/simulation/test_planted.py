"""The simulation is itself tested: every bug that is planted must be caught, for the right reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from .mix import mix_of
from .planted import BUGS, LASTING_BUGS, Planting
from .run import check_seed
from .witness import Violation

MOST_SEEDS = 300


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name: str) -> None:
    check(*BUGS[name], range(MOST_SEEDS))


@pytest.mark.parametrize("name", LASTING_BUGS)
def test_a_planted_bug_is_caught_in_a_world_that_lasts(name: str) -> None:
    check(*LASTING_BUGS[name], [seed for seed in range(MOST_SEEDS) if mix_of(seed).stories])


def check(plant: Planting, words: Sequence[str], seeds: Sequence[int]) -> None:
    """Assert that a bug is caught in one of these worlds, and that one of *words* is said of it."""
    with plant():
        caught = first_violation(seeds)
    assert any(word in caught for word in words), caught


def first_violation(seeds: Sequence[int]) -> str:
    """Return the first line of the first violation among the seeds."""
    for seed in seeds:
        try:
            check_seed(seed)
        except Violation as violation:
            return str(violation).splitlines()[0]
    return f"nothing was caught in {len(seeds)} worlds"
