"""The numbered properties of SFQ, on a real node: 1 equal share, 2 weighted, 3 first come first served inside
a flow, 4 a newcomer is soon next, 5 work conserving, 6 no hoarding, 7 overflow, 8 hashed lines; and seconds.

Commands are submitted by HTTP and run by a real worker; the order of begins is read from the events.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.acceptance.replay import Replay
from tests.acceptance.tenants import (
    Stage,
    begun_in,
    command,
    examples,
    shares,
    submit_all,
)
from tests.acceptance.watch import Happened

SLOTS = 10  # of the stage
SECONDS = 0.01


def begun(events: Sequence[Happened]) -> list[str]:
    """Return the jobs in the order of their begins; no slot was free for any that waited."""
    replay = Replay(events[0].queue, SLOTS)
    for _ in replay.play(events):
        pass
    assert not replay.wrong, "\n".join(replay.wrong[:5])
    return [event.job for event in events if event.kind == "job.begun"]


def serve(stage: Stage, flows: Sequence[str], **wanted: object) -> list[tuple[str, int]]:
    """Let a job of each flow wait, in this order; serve them; return (flow, which of its) as they began."""
    queue = stage.fresh_branch(discipline="sfq", **wanted)
    ids = stage.load(queue, [command(queue, SECONDS, flow) for flow in flows])
    count = Counter[str]()
    names: dict[str, tuple[str, int]] = {}
    for job, flow in zip(ids, flows, strict=True):
        names[job] = flow, count[flow]
        count[flow] += 1
    order = begun(stage.drain(queue, ids, stage.open(queue)))
    assert sorted(order) == sorted(ids), "begun once each"
    return [names[job] for job in order]


def first_come_first_served(order: Sequence[tuple[str, int]]) -> bool:
    """Say whether each flow was served in the order in which its jobs came."""
    flows = {flow for flow, _ in order}
    own = {flow: [number for name, number in order if name == flow] for flow in flows}
    return all(numbers == sorted(numbers) for numbers in own.values())


# --- 1, 2, 3, 5: shares -----------------------------------------------------------------------------------
def check_shares(stage: Stage, weights: Sequence[int], seed: int) -> None:
    """Flows of these weights wait in a drawn order; judge each begin until one of them runs out."""
    names = [f"f{number}" for number in range(len(weights))]
    flows = [name for name, weight in zip(names, weights, strict=True) for _ in range(8 * weight)]
    random.Random(seed).shuffle(flows)
    order = serve(stage, flows, quantum=1, flow_weights=dict(zip(names, weights, strict=True)))
    assert first_come_first_served(order)
    served = [flow for flow, _ in order]
    whole = min(len(served) - served[::-1].index(name) for name in names)  # one of them has run out there
    for i, j in combinations(range(len(names)), 2):
        wi, wj = weights[i], weights[j]
        for had in accumulate(served[:whole], _count(names[i], names[j]), initial=(0, 0)):
            assert abs(had[0] / wi - had[1] / wj) < 1 + 1 / wi + 1 / wj
    if len(set(weights)) == 1 and weights[0] == 1:
        check_windows(served[:whole], names)


def check_windows(served: Sequence[str], names: Sequence[str]) -> None:
    """In any window of W begins each of N flows has n with |n − W/N| ≤ 1 − 1/N."""
    for first in range(len(served)):
        counts = Counter[str]()
        for width, flow in enumerate(served[first:], 1):
            counts[flow] += 1
            for name in names:
                assert abs(counts[name] - width / len(names)) <= 1 - 1 / len(names) + 1e-9


def _count(one: str, other: str):  # type: ignore[no-untyped-def]
    return lambda had, flow: (had[0] + (flow == one), had[1] + (flow == other))


def test_equal_flows_get_equal_parts_of_any_window(stage: Stage) -> None:
    check_shares(stage, [1, 1, 1, 1], seed=1)


@given(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=2, max_size=5), st.integers(0, 2**16))
@examples(3)
def test_flows_get_parts_by_weight(stage: Stage, weights: list[int], seed: int) -> None:
    check_shares(stage, weights, seed)


@pytest.mark.long
@pytest.mark.timeout(600)
@given(st.lists(st.sampled_from([1, 1, 1, 2, 3, 5]), min_size=2, max_size=6), st.integers(0, 2**16))
@examples(150)
def test_many_flows_get_parts_by_weight(stage: Stage, weights: list[int], seed: int) -> None:
    check_shares(stage, weights, seed)


# --- 4, 5, 6: who comes back ------------------------------------------------------------------------------
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
@examples(4)
def test_who_was_away_is_soon_next_and_has_saved_nothing(
    stage: Stage, others: int, quantum: int, weight: int
) -> None:
    queue = stage.fresh_branch(discipline="sfq", quantum=quantum, flow_weights={"away": weight})
    backlog = [command(queue, SECONDS, f"f{number % others}") for number in range(400)]
    [early, *_] = stage.load(queue, [command(queue, SECONDS, "away"), *backlog])
    since = stage.open(queue)
    stage.watch.until(lambda event: event.kind == "job.ended" and event.job == early, 1, since)
    late = submit_all(stage.node, [command(queue, SECONDS, "away")] * 12)
    [first, *_] = stage.watch.until(lambda event: event.kind == "job.begun" and event.job in late, 1, since)
    stage.watch.until(begun_in(queue), quantum * weight + 1, stage.watch.events.index(first))
    events = stage.close(queue)
    assert begun(events)[0] == early
    came = next(number for number, event in enumerate(events) if event.job == late[0])
    after = [event.job in late for event in events[came:] if event.kind == "job.begun"]
    before = after.index(True)
    assert before <= quantum * others, "each of the others begins one turn before it at most"
    assert after.index(False, before) - before <= quantum * weight, "its first turn is as long as any"


# --- 7: overflow ------------------------------------------------------------------------------------------
@given(st.lists(st.sampled_from("aaabc"), min_size=8, max_size=20), st.sampled_from(["newest", "oldest"]))
@examples(3)
def test_what_is_too_much_is_taken_from_the_longest_flow(stage: Stage, flows: list[str], which: str) -> None:
    queue = stage.fresh_branch(discipline="sfq", capacity=6, overflow=f"drop_{which}", paused=True)
    waiting: list[tuple[str, str]] = []
    for flow in flows:
        [job] = submit_all(stage.node, [command(queue, SECONDS, flow)])
        waiting.append((flow, job))
        if len(waiting) > 6:
            counts = Counter(flow for flow, _ in waiting)
            states = {job: stage.node.job(job) for _, job in waiting}
            [dropped] = [one for one in waiting if states[one[1]]["state"] == "cancelled"]
            assert states[dropped[1]]["outcome"]["reason"] == "dropped"
            assert counts[dropped[0]] == max(counts.values()), "a short flow lost one"
            own = [one for one in waiting if one[0] == dropped[0]]
            assert dropped == own[-1 if which == "newest" else 0]
            waiting.remove(dropped)
    stage.drain(queue, [job for _, job in waiting], stage.open(queue))


def test_a_flow_at_its_depth_refuses_only_its_own(stage: Stage) -> None:
    queue = stage.fresh_branch(discipline="sfq", depth=3, paused=True)
    ids = submit_all(stage.node, [command(queue, SECONDS, "a")] * 3)
    refused = stage.node.http.post("/v1/jobs", json=command(queue, SECONDS, "a"))
    assert (refused.status_code, refused.json()["code"]) == (429, "queue_full")
    ids += submit_all(stage.node, [command(queue, SECONDS, "b")] * 3)
    order = begun(stage.drain(queue, ids, stage.open(queue)))
    assert sorted(order) == sorted(ids)


# --- 8: hashed lines --------------------------------------------------------------------------------------
@given(st.lists(st.sampled_from("abcde"), min_size=20, max_size=40))
@examples(2)
def test_one_hashed_line_is_first_come_first_served(stage: Stage, flows: list[str]) -> None:
    count = Counter[str]()
    came = []
    for flow in flows:
        came.append((flow, count[flow]))
        count[flow] += 1
    assert serve(stage, flows, divisor=1) == came


def test_a_new_seed_loses_and_doubles_nothing(stage: Stage) -> None:
    flows = [f"f{number % 9}" for number in range(180)]
    order = serve(stage, flows, divisor=3, perturb=1, limit=2)
    assert first_come_first_served(order)


# --- seconds ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("begins", "within"), [(600, 0.1), pytest.param(2000, 0.05, marks=pytest.mark.long)])
def test_seconds_are_shared_whatever_the_jobs_take(stage: Stage, begins: int, within: float) -> None:
    """One flow's jobs take ten times as long as the others'."""
    weights = {"long": 1, "one": 1, "two": 2}
    queue = stage.fresh_branch(discipline="sfq", charge="seconds", flow_weights=weights)
    flows = ["long"] * (begins // 5) + ["one", "two"] * begins
    ids = stage.load(queue, [command(queue, 0.2 if flow == "long" else 0.02, flow) for flow in flows])
    flow_of = dict(zip(ids, flows, strict=True))
    stage.watch.until(begun_in(queue), begins, stage.open(queue))
    events = [event._replace(queue=flow_of.get(event.job, "")) for event in stage.close(queue)]
    got = shares(events, begins, *weights)
    print(f"\nseconds of flows by weight 1:1:2, the first one's jobs 10 × longer: {got}")
    assert got.agree([0.25, 0.25, 0.5], within), got
