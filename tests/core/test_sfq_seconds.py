"""Fair queueing by seconds, whatever is drawn: shares of slot-seconds, ties, and flows that come back."""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from fairway.core.model import SLOT
from tests.drawing import drawn

from .fair import FairQueue, run

NAMES = ("a", "b", "c", "d")
weights = st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=2, max_size=4)


class Shift:
    """A fair queue by seconds with some slots and a clock; every flow has work all the time."""

    def __init__(self, slots: int, weights: list[float]) -> None:
        self.names = NAMES[: len(weights)]
        self.queue = FairQueue(charge="seconds", flow_weights=dict(zip(self.names, weights, strict=True)))
        self.slots = slots
        self.had: Counter[str] = Counter()
        self._running: list[tuple[float, int, str, float]] = []  # end, number, flow, took
        self._number = 0
        for name in self.names:
            self.queue.put(name, 2)

    def begin(self, took: dict[str, float]) -> str:
        """Begin a job, as soon as a slot is free; return its flow."""
        while len(self._running) == self.slots:
            self._end_one()
        flow = self.queue.begin()
        assert flow is not None
        self.queue.put(flow)
        self.queue.discipline.hold(flow, SLOT)
        self._number += 1
        end = self.queue.discipline.pace.mono + took[flow]
        heappush(self._running, (end, self._number, flow, took[flow]))
        self.had[flow] += took[flow]  # type: ignore[assignment]
        return flow

    def end_all(self) -> None:
        """Wait until nothing runs any more."""
        while self._running:
            self._end_one()

    def _end_one(self) -> None:
        self.queue.discipline.pace.mono, _, flow, took = heappop(self._running)
        self.queue.discipline.release(flow, SLOT, took)


# --- shares ------------------------------------------------------------------------------------------------
@given(
    weights=weights, slots=st.integers(1, 4), longer=st.lists(st.integers(1, 10), min_size=4, max_size=4),
    seed=st.integers(0, 2**16),
)  # fmt: skip
@drawn(25)
def test_seconds_are_as_the_weights_whatever_jobs_take(
    weights: list[float], slots: int, longer: list[int], seed: int
) -> None:
    """Some flows' jobs take ten times as long as others'."""
    dice, shift = random.Random(seed), Shift(slots, weights)
    for _ in range(2000):
        shift.begin({name: dice.uniform(0.5, 1.5) * longer[n] / 10 for n, name in enumerate(shift.names)})
    total = sum(shift.had.values())
    for name, weight, tenths in zip(shift.names, weights, longer, strict=False):
        due = total * weight / sum(weights)
        assert abs(shift.had[name] - due) <= 0.05 * due + 0.15 * tenths, "more than one job beside its share"


@given(flows=st.integers(2, 9), seconds=st.sampled_from([0.0, 1.0, 60.0]), begins=st.integers(1, 100))
@drawn(60)
def test_ties_go_to_the_flow_served_longest_ago(flows: int, seconds: float, begins: int) -> None:
    queue = FairQueue(charge="seconds")
    names = [f"f{number}" for number in range(flows)]
    for name in names:
        queue.put(name, begins + flows)
    served = queue.serve(begins + flows, seconds=seconds)
    for start in range(begins + 1):
        assert set(served[start : start + flows]) == set(names)


# --- flows that come back ----------------------------------------------------------------------------------
@given(
    before=st.integers(0, 5), away=st.integers(1, 400), weight=st.sampled_from([1.0, 2.0, 5.0]),
    delayed=st.booleans(),
)  # fmt: skip
@drawn(60)
def test_who_was_away_has_no_claim_on_that_time(before: int, away: int, weight: float, delayed: bool) -> None:
    """It may have had a job all the time that was not due."""
    queue = FairQueue(charge="seconds", flow_weights={"b": weight})
    queue.put("b", before)
    queue.put("b", int(delayed), delay=10)
    queue.put("a", 1000)
    queue.serve(before + away, seconds=1.0)
    while queue.due("b"):
        queue.serve(1, seconds=1.0)
    queue.now += 10
    queue.put("b", 200)
    counts = Counter(queue.serve(120, seconds=1.0))
    assert abs(counts["b"] - 120 * weight / (1 + weight)) <= 2 + weight


@given(jobs=st.integers(1, 20), weight=st.sampled_from([1.0, 2.0, 5.0]), seconds=st.sampled_from([1.0, 30.0]))
@drawn(60)
def test_who_has_had_more_does_not_start_anew_by_leaving(jobs: int, weight: float, seconds: float) -> None:
    """It leaves after each of its jobs, and comes back at once."""
    queue = FairQueue(charge="seconds", flow_weights={"b": weight})
    queue.discipline.pace.ahead = seconds  # as would be learnt
    queue.put("a", 2000)
    had: Counter[str] = Counter()
    for _ in range(jobs):
        queue.put("b", 1)
        while queue.due("b"):
            flow = queue.begin()
            assert flow is not None
            took = seconds if flow == "b" else 1.0
            run(queue.discipline, flow, took)
            had[flow] += took  # type: ignore[assignment]
    assert had["b"] <= weight * had["a"] + 2 * seconds + weight


@given(
    slots=st.integers(1, 6), flows=st.integers(1, 4), begins=st.integers(4, 40), seconds=st.floats(0.01, 1e4)
)
@drawn(60)
def test_a_newcomer_is_next_whatever_the_others_hold(
    slots: int, flows: int, begins: int, seconds: float
) -> None:
    shift = Shift(slots, [1.0] * flows)
    for _ in range(begins):
        shift.begin(dict.fromkeys(shift.names, seconds))
    shift.queue.put("new")
    assert shift.queue.begin() == "new"


# --- many flows --------------------------------------------------------------------------------------------
def test_flows_that_run_are_not_looked_through_at_each_end() -> None:
    """More than are kept when they owe nothing: all of them run, and none can be forgotten."""
    queue = FairQueue(charge="seconds")
    own = queue.discipline
    looks = Counter[str]()
    look_through = own._forget_some
    own._forget_some = lambda: (looks.update(["look"]), look_through())  # type: ignore[method-assign]
    for number in range(12_000):
        queue.put(f"f{number}")
        own.hold(queue.begin(), SLOT // 100)
    for number in range(500):
        own.release(f"f{number}", SLOT // 100, 1.0)
    assert looks["look"] <= 2
    assert own._accounts["f11999"].held == SLOT // 100
