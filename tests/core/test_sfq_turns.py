"""Fair queueing by jobs, whatever is drawn: 4 a newcomer is soon next, 6 no hoarding, 8 a new seed."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.model import Alike
from tests.drawing import drawn

from .fair import SHAPE, FairQueue

PERIOD = 1000  # microseconds between two seeds


# --- 4: a newcomer -----------------------------------------------------------------------------------------
@given(
    quantum=st.integers(1, 5),
    backlogs=st.lists(st.sampled_from([6, 10, 40, 300]), min_size=1, max_size=8),
    before=st.integers(0, 30),
    known=st.integers(0, 3),
    delay=st.sampled_from([0, 500]),
)
@drawn(100)
def test_a_job_of_an_idle_flow_waits_for_one_turn_of_each_other(
    quantum: int, backlogs: list[int], before: int, known: int, delay: int
) -> None:
    """It may have been here before, or have had a job that was not due yet."""
    queue = FairQueue(quantum=quantum)
    queue.put("new", known)
    queue.put("new", 1 if delay else 0, delay=delay)
    others = [f"f{number}" for number in range(len(backlogs))]
    for name, backlog in zip(others, backlogs, strict=True):
        queue.put(name, backlog)
    queue.serve(before)
    while queue.due("new"):
        queue.serve(1)
    active = sum(queue.due(name) for name in others)
    queue.now += delay
    queue.put("new", 0 if delay else 1)
    waited = list(takewhile(lambda flow: flow != "new", queue.serve(10**6)))
    assert len(waited) <= quantum * active


@pytest.mark.parametrize("backlog", [10, 1_000_000])
def test_a_newcomer_does_not_see_the_backlog(backlog: int) -> None:
    queue = FairQueue(quantum=1)
    for number in range(3):
        first = number * backlog
        jobs = list(range(first, first + backlog))
        queue.flow.update(dict.fromkeys(jobs, f"f{number}"))
        alike = Alike("q", f"f{number}", 0, SHAPE, jobs, [0] * backlog)
        assert queue.discipline.put_alike([alike])  # type: ignore[attr-defined]
    queue.serve(4)
    queue.put("new")
    assert "new" in queue.serve(4)


# --- 6: no hoarding ----------------------------------------------------------------------------------------
history = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 4), st.sampled_from([0, 0, 50, 5000])),
        st.tuples(st.just("serve"), st.integers(1, 12)),
        st.tuples(st.just("wait"), st.sampled_from([1, 60, 6000])),
    ),
    max_size=12,
)


@given(
    quantum=st.integers(1, 6), weight=st.sampled_from([0.5, 1.0, 1.5, 3.0]), others=st.integers(1, 4),
    past=history, idle=st.integers(0, 10**9),
)  # fmt: skip
@drawn(200)
def test_the_first_round_after_idling_is_one_quantum(
    quantum: int, weight: float, others: int, past: list[Any], idle: int
) -> None:
    """Whatever a flow left unused, or had coming later, it has one quantum by its weight when it returns."""
    queue = FairQueue(quantum=quantum, flow_weights={"x": weight})
    for number in range(others):
        queue.put(f"f{number}", 400)
    for kind, *words in past:
        if kind == "put":
            queue.put("x", words[0], delay=words[1])
        elif kind == "serve":
            queue.serve(words[0])
        else:
            queue.now += words[0]
    while queue.due("x"):
        queue.serve(1)
    queue.serve(idle % 20)
    queue.now += idle
    queue.put("x", 30)
    served = queue.serve(400)
    first_round = list(takewhile(lambda flow: flow == "x", served[served.index("x") :]))
    assert len(first_round) < quantum * weight + 1


# --- 3, 8: a new seed --------------------------------------------------------------------------------------
@given(names=st.sets(st.text(min_size=1, max_size=8), min_size=2, max_size=2), begins=st.integers(3, 6))
@drawn(40)
def test_flows_that_are_hashed_together_are_not_so_under_every_seed(names: set[str], begins: int) -> None:
    """Two flows, two lines. In one line they come as they came, in two they take turns: both is seen."""
    first, second = sorted(names)
    queue = FairQueue(divisor=2, quantum=1, perturb=PERIOD / 1e6)
    periods = 40
    queue.put(first, periods * begins)
    queue.put(second, periods * begins)
    turns = [queue.serve(begins)]
    for _ in range(periods - 1):
        queue.now += PERIOD
        turns.append(queue.serve(begins))
    together = [turn == [first] * begins for turn in turns]
    assert True in together, "never hashed together"
    assert False in together, "always hashed together"
    queue.serve(10**6)
    assert sorted(queue.begun) == list(queue.flow)


@given(
    script=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from("abcdefgh"), st.integers(1, 4)),
            st.tuples(st.just("serve"), st.integers(1, 6), st.just(0)),
            st.tuples(st.just("wait"), st.integers(1, 3 * PERIOD), st.just(0)),
        ),
        max_size=40,
    ),
    divisor=st.integers(1, 5),
    charge=st.sampled_from(["jobs", "seconds"]),
)
@drawn(150)
def test_a_new_seed_loses_doubles_and_overtakes_nothing(script: list[Any], divisor: int, charge: str) -> None:
    queue = FairQueue(divisor=divisor, perturb=PERIOD / 1e6, charge=charge)
    for kind, what, count in script:
        if kind == "put":
            queue.put(what, count)
        elif kind == "serve":
            queue.serve(what, seconds=1.0)
        else:
            queue.now += what
        assert len(queue.discipline) == len(queue.flow) - len(queue.begun)
    while queue.serve(1, seconds=1.0):
        queue.now += PERIOD // 3
    assert sorted(queue.begun) == list(queue.flow)
    for flow in set(queue.flow.values()):
        own = [job for job in queue.begun if queue.flow[job] == flow]
        assert own == sorted(own), "not as they came"
