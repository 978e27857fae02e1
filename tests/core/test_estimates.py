"""How long jobs of a task take: a running average, silent until it is worth something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.estimates import ENOUGH, MOST, Estimates


def learnt(*seconds: float) -> Estimates:
    estimates = Estimates()
    for one in seconds:
        estimates.add("t", one)
    return estimates


def test_too_few_runs_say_nothing() -> None:
    assert Estimates().find("t") is None
    assert learnt(*[1.0] * (ENOUGH - 1)).find("t") is None
    assert learnt(*[1.0] * ENOUGH).find("t") == pytest.approx(1.0)


def test_tasks_are_learnt_apart() -> None:
    estimates = learnt(*[1.0] * ENOUGH)
    assert estimates.find("u") is None


@given(st.lists(st.floats(0, 1000), min_size=ENOUGH, max_size=100))
def test_an_estimate_lies_among_what_was_seen(seconds: list[float]) -> None:
    found = learnt(*seconds).find("t")
    assert found is not None
    assert min(seconds) - 1e-6 <= found <= max(seconds) + 1e-6


def test_a_change_is_followed() -> None:
    found = learnt(*[1.0] * 100, *[5.0] * 100).find("t")
    assert found is not None
    assert found > 4.9


def test_memory_is_bounded() -> None:
    estimates = Estimates()
    for number in range(MOST + 10):
        estimates.add(f"t{number}", 1.0)
    assert len(estimates._runs) == MOST
