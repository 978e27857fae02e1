"""How deep a job stands where to count everything would take too long: counted to 1,000, then guessed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.disciplines import DISCIPLINES, make_discipline
from fairway.core.model import Arrival, QueueSettings, Shape
from tests.drawing import drawn

from .fair import SHAPE, FairQueue

COUNTED = 1000


@given(
    backlogs=st.lists(st.sampled_from([1, 20, 200, 900, 2500]), min_size=2, max_size=12),
    weights=st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=12, max_size=12),
    charge=st.sampled_from(["jobs", "seconds"]), served=st.integers(0, 60), seed=st.integers(0, 2**16),
)  # fmt: skip
@drawn(30)
def test_in_a_fair_queue_all_flows_have_come_as_far_as_its_own(
    backlogs: list[int], weights: list[float], charge: str, served: int, seed: int
) -> None:
    names = [f"f{number}" for number in range(len(backlogs))]
    queue = FairQueue(charge=charge, flow_weights=dict(zip(names, weights, strict=False)))
    for name, backlog in zip(names, backlogs, strict=True):
        queue.put(name, backlog)
    queue.serve(served, 1.0 if charge == "seconds" else None)
    order = list(queue.discipline.order(queue.now, 10**6))
    dice = random.Random(seed)
    for position in sorted(dice.sample(range(len(order)), min(len(order), 12))):
        job = order[position]
        found = queue.discipline.ahead(Arrival(job, "q", queue.flow[job], 0, SHAPE, 0), queue.now)
        if position <= COUNTED:
            assert found == position
        else:
            assert found == pytest.approx(position, rel=0.02, abs=8 * len(names))


def test_of_very_many_flows_some_are_looked_at() -> None:
    queue = FairQueue(quantum=1)
    for _ in range(5):
        for number in range(3000):
            queue.put(f"f{number}")
    order = list(queue.discipline.order(queue.now, 10**6))
    for position in (500, 4000, 8000, 14_000):
        job = order[position]
        found = queue.discipline.ahead(Arrival(job, "q", queue.flow[job], 0, SHAPE, 0), queue.now)
        assert found == pytest.approx(position, rel=0.02, abs=3000)  # where in a round is not looked at


@pytest.mark.parametrize("name", sorted(set(DISCIPLINES) - {"sfq"}))
def test_of_very_many_lines_some_are_looked_at(name: str) -> None:
    """Each has a tag of its own, so each is a line of its own."""
    discipline, dice = make_discipline(QueueSettings(discipline=name)), random.Random(7)
    jobs = {
        number: Arrival(number, "q", None, 0, Shape("command", tags=(f"t{number}",)), dice.randrange(10**6))
        for number in range(1, 6001)
    }
    for job in jobs.values():
        discipline.put(job)
    order = list(discipline.order(10**6, 10**6))
    assert len(order) == len(jobs)
    for position in (0, 999, 2000, 4000, 5999):
        found = discipline.ahead(jobs[order[position]], 10**6)
        assert found == (position if position <= COUNTED else pytest.approx(position, abs=1000))
