"""Fair queueing by seconds, whatever is drawn: shares of slot-seconds, ties, and flows that come back.

A job is charged as the core does it: the estimate when it begins, every second what it has run over that, and
the rest, which may be negative, when it ends.
"""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import drawn

from .fair import FairQueue

NAMES = ("a", "b", "c", "d")
weights = st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=2, max_size=4)


class Shift:
    """A fair queue by seconds with some slots and a clock; every flow has work all the time."""

    def __init__(self, slots: int, weights: list[float]) -> None:
        self.names = NAMES[: len(weights)]
        self.queue = FairQueue(charge="seconds", flow_weights=dict(zip(self.names, weights, strict=True)))
        self.slots, self.time = slots, 0.0
        self.had: Counter[str] = Counter()
        self._running: list[tuple[float, int, str, float, float]] = []  # end, number, flow, took, charged
        self._number = 0
        for name in self.names:
            self.queue.put(name, 2)

    def begin(self, took: dict[str, float], estimated: dict[str, float]) -> str:
        """Begin a job, as soon as a slot is free; return its flow."""
        while len(self._running) == self.slots:
            self._pass(self._running[0][0])
        flow = self.queue.begin()
        assert flow is not None
        self.queue.put(flow)
        self.queue.discipline.charge(flow, estimated[flow])
        self._number += 1
        heappush(self._running, (self.time + took[flow], self._number, flow, took[flow], estimated[flow]))
        self.had[flow] += took[flow]  # type: ignore[assignment]
        return flow

    def end_all(self) -> None:
        """Wait until nothing runs any more."""
        while self._running:
            self._pass(self._running[0][0])

    def _pass(self, until: float) -> None:
        """Let time pass; on every second, and then, charge what is owed."""
        while self.time < until:
            self.time = min(float(int(self.time) + 1), until)
            self._running = [self._overrun(*one) for one in self._running]
        while self._running and self._running[0][0] <= until:
            _, _, flow, took, charged = heappop(self._running)
            self.queue.discipline.charge(flow, took - charged)

    def _overrun(
        self, end: float, number: int, flow: str, took: float, charged: float
    ) -> tuple[float, int, str, float, float]:
        over = took - (end - self.time) - charged
        if over > 0:
            self.queue.discipline.charge(flow, over)
            charged += over
        return end, number, flow, took, charged


# --- shares ------------------------------------------------------------------------------------------------
@given(
    weights=weights, slots=st.integers(1, 4), longer=st.lists(st.integers(1, 10), min_size=4, max_size=4),
    always=st.booleans(), seed=st.integers(0, 2**16),
)  # fmt: skip
@drawn(25)
def test_seconds_are_as_the_weights_whatever_jobs_take_and_were_thought_to(
    weights: list[float], slots: int, longer: list[int], always: bool, seed: int
) -> None:
    """Some flows' jobs take ten times as long as others'. Estimates are ten times too long, or too short:
    each by itself, or always those of one flow."""
    dice, shift = random.Random(seed), Shift(slots, weights)
    wrong = {name: 10 ** dice.uniform(-1, 1) for name in shift.names}
    took = dict[str, float]()
    for _ in range(2000):
        took = {name: dice.uniform(0.5, 1.5) * longer[n] / 10 for n, name in enumerate(shift.names)}
        if not always:
            wrong = {name: 10 ** dice.uniform(-1, 1) for name in shift.names}
        shift.begin(took, {name: took[name] * wrong[name] for name in shift.names})
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


@given(more=st.integers(1, 200), weight=st.sampled_from([1.0, 2.0, 5.0]), again=st.integers(1, 5))
@drawn(60)
def test_who_has_had_more_does_not_start_anew_by_leaving(more: int, weight: float, again: int) -> None:
    """Its last job took so many seconds more than was thought, and was told of when it had left."""
    queue = FairQueue(charge="seconds", flow_weights={"b": weight})
    queue.put("a", 400)
    queue.put("b", 1)
    assert sorted(queue.serve(2, seconds=1.0)) == ["a", "b"]
    for _ in range(again):
        queue.discipline.charge("b", more / again)
    queue.put("b", 5)
    waited = queue.serve(400, seconds=1.0).index("b")
    assert abs(waited - more / weight) <= 2


@given(
    slots=st.integers(2, 6), flows=st.integers(1, 4), begins=st.integers(4, 40),
    estimate=st.sampled_from([1.0, 10.0, 3600.0]), known=st.booleans(),
)  # fmt: skip
@drawn(60)
def test_a_newcomer_does_not_wait_because_estimates_were_too_long(
    slots: int, flows: int, begins: int, estimate: float, known: bool
) -> None:
    """Whatever jobs were thought to take: when they have ended, what counts is what they took."""
    shift = Shift(slots, [1.0] * flows)
    if known:
        shift.queue.put("new")
        assert "new" in shift.queue.serve(flows + 1, seconds=0.1)
    for _ in range(begins):
        shift.begin(dict.fromkeys(shift.names, 0.1), dict.fromkeys(shift.names, estimate))
    shift.end_all()
    shift.queue.put("new")
    assert "new" in shift.queue.serve(flows + 1, seconds=0.1)
