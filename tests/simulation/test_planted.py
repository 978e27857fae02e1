"""The simulation is itself tested: every bug that is planted must be caught, for the right reason."""

from __future__ import annotations

import pytest

from .planted import BUGS
from .run import check_seed
from .witness import Violation

MOST_SEEDS = 300


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name: str) -> None:
    plant, words = BUGS[name]
    with plant():
        caught = first_violation()
    assert any(word in caught for word in words), caught


def first_violation() -> str:
    """Return the first line of the first violation among the seeds."""
    for seed in range(MOST_SEEDS):
        try:
            check_seed(seed)
        except Violation as violation:
            return str(violation).splitlines()[0]
    return f"nothing was caught in {MOST_SEEDS} worlds"
