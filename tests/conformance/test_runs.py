"""Runs of ids are found, and nothing is lost or doubled by looking for them."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fairway.stores.postgres.runs import LEAST, split_runs

blocks = st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 2 * LEAST)), max_size=8)


@given(blocks, st.randoms(use_true_random=False))
def test_runs_and_the_rest_are_all_there_is(blocks: list[tuple[int, int]], dice: Random) -> None:
    jobs = list({first + number for first, count in blocks for number in range(count)})
    dice.shuffle(jobs)
    runs, rest = split_runs(jobs)
    assert sorted([*rest, *(job for first, last in runs for job in range(first, last + 1))]) == sorted(jobs)
    assert all(last - first + 1 >= LEAST for first, last in runs)
    assert all(first - 1 not in jobs and last + 1 not in jobs for first, last in runs)
