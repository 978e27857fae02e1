"""Fair queueing inside a queue: the numbered properties of SFQ.

1 equal share, 2 weighted, 3 first come first served inside a flow, 4 a newcomer is soon next, 5 work
conserving, 6 no hoarding, 7 overflow, 8 hashed lines; and shares of seconds.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.disciplines.sfq import Sfq
from fairway.core.events import Reported, Submitted
from fairway.core.model import SLOT, Arrival, QueueSettings, Result, Shape
from tests.drawing import drawn

from .fair import run
from .stage import COMMAND, Stage

CPU, GPU = Shape("cpu"), Shape("gpu")
S = QueueSettings


def everything(shape: Shape) -> bool:
    return True


class Line:
    """One fair queue, its jobs numbered as they come."""

    def __init__(self, **wanted: Any) -> None:
        self.sfq = Sfq(S(discipline="sfq", **wanted))
        self.flow: dict[int, str | None] = {}
        self.now = 1
        self.count = 0

    def put(self, flow: str | None, jobs: int = 1, shape: Shape = CPU, priority: int = 0) -> None:
        for _ in range(jobs):
            self.count += 1
            self.flow[self.count] = flow
            place = -1_000_000_000 + self.count
            self.sfq.put(Arrival(self.count, "q", flow, priority, shape, place))

    def surplus(self) -> Arrival | None:
        """Ask for the surplus after the last job."""
        place = -1_000_000_000 + self.count
        return self.sfq.surplus(Arrival(self.count, "q", self.flow[self.count], 0, CPU, place))

    def serve(self, begins: int, most: int = 1, fits: Any = everything) -> list[str | None]:
        """Begin so many jobs, or all there are; return their flows in order."""
        served: list[str | None] = []
        while len(served) < begins:
            offer = self.sfq.offer(fits, self.now)
            if offer is None:
                break
            served += [self.flow[job] for job in self.sfq.take(offer, most, self.now).jobs]
        return served


# --- 1, 2: shares ----------------------------------------------------------------------------------------
@given(st.integers(2, 9), st.integers(0, 200), st.integers(1, 200))
@drawn(150)
def test_flows_get_equal_parts_of_any_window(flows: int, start: int, width: int) -> None:
    line = Line(quantum=1)
    for number in range(flows):
        line.put(f"f{number}", 450 // flows + 60)
    window = line.serve(450)[start : start + width]
    counts = Counter(window)
    for number in range(flows):
        assert abs(counts[f"f{number}"] - len(window) / flows) <= 1 - 1 / flows + 1e-9


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.0]), min_size=2, max_size=6), st.integers(1, 400))
@drawn(150)
def test_flows_get_parts_by_weight(weights: list[float], begins: int) -> None:
    names = [f"f{number}" for number in range(len(weights))]
    line = Line(quantum=1, flow_weights=dict(zip(names, weights, strict=True)))
    for name in names:
        line.put(name, 450)
    counts = Counter(line.serve(begins))
    for i, wi in zip(names, weights, strict=True):
        for j, wj in zip(names, weights, strict=True):
            assert abs(counts[i] / wi - counts[j] / wj) < 1 + 1 / wi + 1 / wj + 1e-9


@given(st.integers(1, 6), st.integers(2, 5))
@drawn(100)
def test_a_quantum_is_how_many_follow_each_other(quantum: int, flows: int) -> None:
    line = Line(quantum=quantum)
    for number in range(flows):
        line.put(f"f{number}", 3 * quantum)
    served = line.serve(10**6)
    rounds = [name for _ in range(3) for number in range(flows) for name in [f"f{number}"] * quantum]
    assert served == rounds


def test_without_a_quantum_flows_share_what_one_slot_takes() -> None:
    line = Line()
    line.put("a", 300)
    line.put("b", 300)
    assert line.serve(200, most=100) == ["a", "b"] * 100
    assert line.serve(4, most=1) == ["a", "b", "a", "b"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=12
    ),
    st.integers(1, 4),
    st.integers(2, 30),
    st.sampled_from([None, 2]),
)
@drawn(150)
def test_many_at_once_come_as_one_by_one(
    jobs: list[tuple[str, int, int]], quantum: int, most: int, divisor: int | None
) -> None:
    """What a slot takes together, from several flows, is what it would be given one after the other."""
    one, many = (Line(quantum=quantum, divisor=divisor, flow_weights={"a": 3.0, "b": 0.5}) for _ in range(2))
    for flow, count, priority in jobs:
        one.put(flow, count, priority=priority)
        many.put(flow, count, priority=priority)
    assert many.serve(1000, most=most) == one.serve(1000)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), min_size=1, max_size=12),
    st.integers(2, 30),
    st.sampled_from([None, 2]),
)
@drawn(150)
def test_flows_that_share_a_slot_begin_one_job_at_a_time(
    jobs: list[tuple[str, int]], most: int, divisor: int | None
) -> None:
    line = Line(divisor=divisor, flow_weights={"a": 3.0, "b": 0.5})
    for flow, count in jobs:
        line.put(flow, count)
    begun: list[int] = []
    while (offer := line.sfq.offer(everything, line.now)) is not None:
        served = line.sfq.take(offer, most, line.now)
        flows = [line.flow[job] for job in served.jobs]
        assert served.flows is None or served.flows == flows
        if divisor is None:
            counts = Counter(flows)
            assert flows == [flow for turn in range(most) for flow in counts if counts[flow] > turn]
        begun += served.jobs
    assert len(begun) == line.count
    for flow in "abcd":
        own = [job for job in begun if line.flow[job] == flow]
        assert own == sorted(own)


def test_a_changed_weight_holds_from_the_next_turn_without_a_new_queue() -> None:
    line = Line(quantum=1)
    line.put("a", 600)
    line.put("b", 600)
    assert Counter(line.serve(40)) == {"a": 20, "b": 20}
    assert line.sfq.adapt(S(discipline="sfq", quantum=1, flow_weights={"a": 3.0}))
    assert Counter(line.serve(400)) == {"a": 300, "b": 100}
    assert line.sfq.adapt(S(discipline="sfq", quantum=1))
    assert Counter(line.serve(100)) == {"a": 50, "b": 50}


@pytest.mark.parametrize("wanted", [{"charge": "seconds"}, {"divisor": 7}, {"divisor": 7, "perturb": 5.0}])
def test_what_lines_are_made_from_takes_a_new_queue(wanted: dict[str, Any]) -> None:
    line = Line(quantum=1)
    assert not line.sfq.adapt(S(discipline="sfq", quantum=1, **wanted))


def test_who_began_together_is_told_by_flow() -> None:
    line = Line(quantum=1)
    line.put("a", 3)
    line.put("b", 1)
    offer = line.sfq.offer(everything, line.now)
    assert offer is not None
    served = line.sfq.take(offer, 10, line.now)
    assert served.jobs == [1, 4, 2, 3] and served.flows == ["a", "b", "a", "a"] and not served.more


# --- 3, 4, 5, 6 ------------------------------------------------------------------------------------------
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["a", "b", "c", None]), st.booleans()),
        st.tuples(st.just("serve"), st.sampled_from(["cpu", "gpu", "any"])),
    ),
    max_size=120,
)


@given(
    steps, st.sampled_from([None, 1, 2]), st.sampled_from([None, 1, 2]), st.sampled_from(["jobs", "seconds"])
)
@drawn(200)
def test_inside_a_flow_first_come_first_served_and_nothing_idles(
    script: list[Any], quantum: int | None, divisor: int | None, charge: str
) -> None:
    line = Line(quantum=quantum, divisor=divisor, charge=charge, perturb=0.000_01 if divisor else None)
    waiting: dict[tuple[str | None, Shape], list[int]] = {}
    for step in script:
        line.now += 3
        if step[0] == "put":
            shape = CPU if step[2] else GPU
            line.put(step[1], shape=shape)
            waiting.setdefault((step[1], shape), []).append(line.count)
            continue
        fitting = {"cpu": [CPU], "gpu": [GPU], "any": [CPU, GPU]}[step[1]]
        offer = line.sfq.offer(lambda shape, fitting=fitting: shape in fitting, line.now)
        there = [jobs for (_, shape), jobs in waiting.items() if shape in fitting and jobs]
        assert (offer is None) == (not there), "a free slot and a job that may begin"
        if offer is not None:
            own = waiting[line.flow[offer.job], offer.shape]
            assert offer.job == own[0], "not the first of its flow and shape"
            assert line.sfq.take(offer, 1, line.now).jobs == [own.pop(0)]
            if charge == "seconds":
                run(line.sfq, offer.flow, 1.0)
    assert len(line.sfq) == sum(map(len, waiting.values()))


@pytest.mark.parametrize("backlog", [10, 100_000])
@pytest.mark.parametrize("charge", ["jobs", "seconds"])
def test_one_job_of_an_idle_flow_is_soon_next_whatever_the_others_have(backlog: int, charge: str) -> None:
    line = Line(charge=charge)
    for number in range(5):
        line.put(f"f{number}", backlog // 5)
    line.serve(3)
    line.put("new")
    served = line.serve(6)
    assert "new" in served


def test_who_was_idle_has_saved_nothing() -> None:
    line = Line(quantum=2)
    line.put("a", 200)
    line.put("b", 1)
    line.serve(100)
    line.put("b", 50)
    assert Counter(line.serve(20))["b"] == 10
    assert Counter(line.serve(4))["b"] == 2


# --- seconds ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 2.0, 5.0)])
@pytest.mark.parametrize("slots", [1, 4])
def test_seconds_are_shared_whatever_the_jobs_take(weights: tuple[float, ...], slots: int) -> None:
    """Flow 0's jobs take ten times as long as the others'."""
    names = [f"f{number}" for number in range(len(weights))]
    line = Line(charge="seconds", flow_weights=dict(zip(names, weights, strict=True)))
    dice, had = random.Random(7), Counter[str]()
    for name in names:
        line.put(name, 2500)
    running: list[tuple[float, int, str, float]] = []
    for number in range(2000):
        if len(running) == slots:
            running.sort()
            line.sfq.pace.mono, _, name, took = running.pop(0)
            line.sfq.release(name, SLOT, took)
        [name_of] = line.serve(1)
        name = str(name_of)
        took = dice.uniform(0.5, 1.5) * (10 if name == "f0" else 1)
        line.sfq.hold(name, SLOT)
        running.append((line.sfq.pace.mono + took, number, name, took))
        had[name] += took  # type: ignore[assignment]
    shares = [had[name] / sum(had.values()) for name in names]
    assert shares == pytest.approx([weight / sum(weights) for weight in weights], rel=0.05)


# --- 8: hashed lines -------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-1, 1)), max_size=40))
@drawn(100)
def test_one_hashed_line_is_a_line(drawn: list[tuple[str, int]]) -> None:
    line = Line(divisor=1)
    for flow, priority in drawn:
        line.put(flow, priority=priority)
    offers = []
    while (offer := line.sfq.offer(everything, 1)) is not None:
        offers.append((-offer.priority, offer.job))
        line.sfq.take(offer, 1, 1)
    assert offers == sorted(offers)


@given(
    st.lists(st.sampled_from("abcdefgh"), max_size=60),
    st.integers(1, 5),
    st.lists(st.integers(0, 9), max_size=20),
)
@drawn(100)
def test_a_new_seed_loses_and_doubles_nothing(drawn: list[str], divisor: int, waits: list[int]) -> None:
    line = Line(divisor=divisor, perturb=0.000_005)
    for flow in drawn:
        line.put(flow)
    served: list[int] = []
    for wait in [*waits, *[1] * len(drawn)]:
        line.now += wait
        offer = line.sfq.offer(everything, line.now)
        if offer is not None:
            served += line.sfq.take(offer, 1, line.now).jobs
    assert sorted(served) == list(range(1, len(drawn) + 1))
    for flow in set(drawn):
        own = [job for job in served if line.flow[job] == flow]
        assert own == sorted(own)


# --- cost ------------------------------------------------------------------------------------------------
def test_flows_that_no_worker_fits_are_looked_at_once() -> None:
    line = Line()
    for number in range(2000):
        line.put(f"blocked{number}", shape=GPU)
    line.put("free", 51)
    looked = 0

    def fits(shape: Shape) -> bool:
        nonlocal looked
        looked += 1
        return shape is CPU

    assert line.serve(1, fits=fits) == ["free"]
    looked = 0
    assert line.serve(50, fits=fits) == ["free"] * 50
    assert looked < 50 * 10


# --- 7: overflow -----------------------------------------------------------------------------------------
def test_a_flow_at_its_depth_refuses_only_its_own() -> None:
    line = Line(depth=3)
    line.put("a", 3)
    assert line.sfq.refusal({"a": 1}) == "3 wait of flow 'a' and the depth is 3"
    assert line.sfq.refusal({"b": 3}) is None
    assert line.sfq.refusal({"b": 4}) is not None


def test_a_full_queue_refuses_everybody_and_counts_all_flows_together() -> None:
    line = Line(capacity=3)
    line.put("a", 2)
    assert line.sfq.refusal({"b": 1}) is None
    assert line.sfq.refusal({"b": 1, "c": 1}) == "2 jobs wait and its capacity is 3"


@pytest.mark.parametrize(("overflow", "gone"), [("drop_newest", 5), ("drop_oldest", 1), ("reject", 7)])
def test_what_is_too_much_is_taken_from_the_longest_flow(overflow: str, gone: int) -> None:
    line = Line(capacity=6, overflow=overflow)
    line.put("a", 5)
    line.put("b", 1)
    assert line.surplus() is None
    line.put("b", 1)
    surplus = line.surplus()
    assert surplus is not None
    assert (surplus.job, surplus.flow) == (gone, "b" if overflow == "reject" else "a")
    assert line.sfq.remove(surplus)


@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(1, 5), st.integers(1, 12))
@drawn(100)
def test_bounds_hold_and_a_short_flow_loses_nothing(drawn: list[str], depth: int, capacity: int) -> None:
    line = Line(depth=depth, capacity=capacity, overflow="drop_newest")
    waiting: list[int] = []
    for flow in drawn:
        line.put(flow)
        waiting.append(line.count)
        surplus = line.surplus()
        if surplus is not None:
            counts = Counter(line.flow[job] for job in waiting)
            assert counts[surplus.flow] == max(counts.values()) or counts[surplus.flow] > depth
            assert line.sfq.remove(surplus)
            waiting.remove(surplus.job)
        counts = Counter(line.flow[job] for job in waiting)
        assert len(line.sfq) == len(waiting) <= capacity
        assert max(counts.values(), default=0) <= depth


# --- what was wrong once -----------------------------------------------------------------------------------
def seconds_served(line: Line, begins: int) -> Counter[str | None]:
    """Serve jobs of one second each."""
    counts = Counter[str | None]()
    for _ in range(begins):
        [flow] = line.serve(1, fits=lambda shape: shape is CPU)
        run(line.sfq, flow, 1.0)
        counts[flow] += 1
    return counts


def test_a_flow_that_no_worker_fits_does_not_hold_the_clock_back() -> None:
    line = Line(charge="seconds")
    line.put("stuck", shape=GPU)
    line.put("a", 2000)
    seconds_served(line, 1000)
    line.put("b", 400)
    assert seconds_served(line, 400)["b"] == pytest.approx(200, abs=2)


def test_an_idle_moment_is_no_new_beginning() -> None:
    line = Line(charge="seconds")
    line.put("a", 1000)
    seconds_served(line, 1000)
    line.put("b", 400)
    seconds_served(line, 10)
    line.put("a", 400)
    assert seconds_served(line, 300)["a"] == pytest.approx(150, abs=6)


def test_flows_that_went_away_are_not_remembered_for_ever() -> None:
    line = Line(charge="seconds")
    for number in range(25_000):
        line.put(f"user{number}")
        seconds_served(line, 1)
    assert len(line.sfq._accounts) <= 10_001


def test_what_ends_that_began_under_another_discipline_is_no_credit() -> None:
    line = Line(charge="seconds")
    line.put("a", 100)
    line.put("b", 100)
    line.sfq.release("a", SLOT, 3600.0)
    assert seconds_served(line, 100)["b"] == pytest.approx(50, abs=2)


def test_jobs_that_end_together_are_charged_each_to_its_own_flow() -> None:
    """A worker tells of several ends at once: a long job is not averaged with another flow's short one."""
    stage = Stage()
    stage.join("w", slots=2)
    stage.set("q", discipline="sfq", charge="seconds")
    for job, flow, pause in ((1, "long", 9.0), (2, "short", 1.0)):
        stage.absorb(Submitted([Arrival(job, "q", flow, 0, COMMAND, stage.now.wall)]))
        assert stage.begun() == [job]
        stage.micros += int(pause * 1e6)
    stage.absorb(Reported("w", [Result(1, 1, "ok", b"1", 10.0), Result(2, 1, "ok", b"1", 1.0)], 0.5))
    own = stage.core.world.tree.grow("q").own
    assert isinstance(own, Sfq)
    assert {flow: round(one.slot_seconds) for flow, one in own._accounts.items()} == {"long": 10, "short": 1}
