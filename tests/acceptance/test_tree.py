"""The numbered properties of HTB in slots, on a real node: 1 ceiling, 2 guarantee, 3 work conservation,
4 equal turns, 5 priority on the excess only, 6 locality, 7 rate, 8 live change.

Commands are submitted by HTTP and run by a real worker; what begins when is read from the events. Trees and
changes are drawn; every begin is judged by `Replay`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.acceptance.replay import Replay
from tests.acceptance.tenants import Stage, begun_in, command, examples, settle, submit_all
from tests.acceptance.watch import Happened

SLOTS = 10  # of the stage
SECONDS = 0.02
PATHS = ("a", "a/x", "a/y", "b", "b/x", "c")
Settings = dict[str, Any]


def lift(stage: Stage, branch: str) -> None:
    """Forget all settings of a branch, parents last: they cannot be assured less than their children."""
    for path in (*reversed(PATHS), None):
        queue = branch if path is None else f"{branch}/{path}"
        assert stage.node.http.put(f"/v1/queues/{queue}", json={}).status_code == 200


def judge(branch: str, events: list[Happened], slots: int = SLOTS) -> Replay:
    """Play all that happened; nothing may be wrong."""
    replay = Replay(branch, slots)
    for _ in replay.play(events):
        pass
    assert not replay.wrong, "\n".join(replay.wrong[:5])
    return replay


# --- 1, 2, 3, 5, 6, 8: whatever is set, and changed -------------------------------------------------------
@st.composite
def trees(draw: st.DrawFn) -> dict[str, Settings]:
    """Draw settings that do not contradict each other."""
    a, b = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    x = draw(st.integers(0, a))
    assured = {"a": a, "a/x": x, "a/y": draw(st.integers(0, a - x)), "b": b, "b/x": draw(st.integers(0, b))}
    tree: dict[str, Settings] = {}
    for path in PATHS:
        own = assured.get(path, 0)
        limit = draw(st.sampled_from([None, None, own + 1, own + 3, own or 1]))
        tree[path] = {"assured": own, "limit": limit, "lend": draw(st.integers(0, 3)) > 0}
        tree[path] |= {"priority": draw(st.integers(0, 1)), "weight": draw(st.sampled_from([0.5, 1, 3]))}
    return tree


changes = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.one_of(
            st.fixed_dictionaries({"limit": st.sampled_from([None, 0, 1, 4])}),
            st.fixed_dictionaries({"paused": st.booleans()}),
            st.fixed_dictionaries({"priority": st.integers(-1, 2)}),
            st.fixed_dictionaries({"assured": st.sampled_from([None, 1, 2]), "lend": st.booleans()}),
        ),
    ),
    max_size=6,
)


def check_begins(stage: Stage, tree: dict[str, Settings], script: list[tuple[str, Settings]]) -> None:
    """Run jobs of every queue below *tree*, change what *script* says meanwhile; judge each begin."""
    branch = stage.fresh_branch(assured=SLOTS)
    for path, wanted in tree.items():
        settle(stage.node, f"{branch}/{path}", **wanted)
    ids = stage.load(branch, [command(f"{branch}/{path}", SECONDS) for path in PATHS] * 14)
    since = stage.open(branch)
    for path, change in script:
        stage.watch.let_happen(12)
        # Those that would contradict another setting are refused, and no begin may know of them.
        assert stage.node.http.patch(f"/v1/queues/{branch}/{path}", json=change).status_code in (200, 422)
    lift(stage, branch)
    replay = judge(branch, stage.drain(branch, ids, since))
    assert replay.begins == len(ids), "begun once each, nothing lost or killed"


@given(trees(), changes)
@examples(5)
def test_every_begin_is_one_that_the_tree_allows(
    stage: Stage, tree: dict[str, Settings], script: list[tuple[str, Settings]]
) -> None:
    check_begins(stage, tree, script)


@pytest.mark.long
@pytest.mark.timeout(600)
@given(trees(), changes)
@examples(200)
def test_every_begin_of_many_trees(
    stage: Stage, tree: dict[str, Settings], script: list[tuple[str, Settings]]
) -> None:
    check_begins(stage, tree, script)


# --- 1, 3, 8: limits that move under load -----------------------------------------------------------------
WALK: list[Settings] = [
    *({"limit": limit} for limit in (None, None, 0, 1, 2, 4, 8)),
    {"paused": True}, {"rate": "40/s", "burst": 2},
    *[{"paused": False}, {"rate": None, "burst": None}] * 3,
]  # fmt: skip


@pytest.mark.parametrize(
    "steps", [40, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_limits_that_walk_under_load_are_never_exceeded_and_never_wedge(stage: Stage, steps: int) -> None:
    dice = random.Random(steps)
    branch = stage.fresh_branch(limit=8)
    ids = stage.load(branch, [command(f"{branch}/{path}", SECONDS) for path in PATHS] * (steps * 2))
    since = stage.open(branch)
    for _ in range(steps):
        settle(stage.node, f"{branch}/{dice.choice(PATHS)}", **dice.choice(WALK))
        settle(stage.node, branch, limit=dice.choice([2, 4, 8]))
        stage.watch.let_happen(15, seconds=0.2)
    stage.watch.catch_up()
    walked = sum(map(begun_in(branch), stage.watch.events[since:]))
    lift(stage, branch)
    replay = judge(branch, stage.drain(branch, ids, since))
    print(f"\n{steps} changes, {walked} begins meanwhile, {replay.begins} in all, {len(replay.wrong)} wrong")
    assert replay.begins == len(ids)
    assert walked > 2 * steps, "too little happened to mean anything"


# --- 2, 3, 5, 6: the examples, as they stand in the rule --------------------------------------------------
EXAMPLES: list[tuple[dict[str, Settings], dict[str, int]]] = [
    (
        {
            "a": {"assured": 4, "limit": 10}, "a/1": {"assured": 3, "limit": 10},
            "a/2": {"assured": 1, "limit": 10}, "b": {"assured": 6, "limit": 10},
        },
        {"a/1": 3, "a/2": 1, "b": 6},
    ),
    ({"a": {"assured": 4, "limit": 10}, "b": {"assured": 6, "limit": 10}}, {"b": 10}),
    (
        {"a": {"assured": 2, "limit": 10, "priority": 1}, "b": {"assured": 2, "limit": 10}},
        {"a": 8, "b": 2},
    ),
    ({"a": {"assured": 3, "limit": 3}}, {"a": 3}),
    ({"a": {"assured": 2, "limit": 4}, "b": {"assured": 3, "limit": 5}}, {"a": 4, "b": 5}),
    (
        {"a": {"assured": 6}, "a/x": {"assured": 3}, "a/y": {"assured": 3}, "b": {"assured": 4}},
        {"a/x": 6, "b": 4},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "expected"), EXAMPLES)
def test_what_runs_is_what_the_examples_say(
    stage: Stage, tree: dict[str, Settings], expected: dict[str, int]
) -> None:
    """The last one is there first and has all it can get; then all are, and each slot changes hands once."""
    branch = stage.fresh_branch(assured=SLOTS)
    for path, wanted in tree.items():
        settle(stage.node, f"{branch}/{path}", **wanted)
    *others, first = expected
    ids = submit_all(stage.node, [command(f"{branch}/{first}", SECONDS)] * 60)
    ids += submit_all(stage.node, [command(f"{branch}/{path}", SECONDS) for path in others] * 40)
    events = stage.drain(branch, ids)
    complete = max(number for number, event in enumerate(events) if event.kind == "job.submitted")
    replay, settled = Replay(branch, SLOTS), 0
    before = {event.job for event in events[:complete] if event.kind == "job.begun"}
    last = max((n for n, event in enumerate(events) if event.kind == "job.ended" and event.job in before),
               default=0)  # fmt: skip
    since = events[max(complete, last)].commit
    played = iter(sorted({event.commit for event in events}))
    for _ in replay.play(events):
        backlogged = all(replay.waiting[f"{branch}/{path}"] for path in expected)
        if next(played) > since and backlogged:
            settled += 1
            running = {path: replay.running[f"{branch}/{path}"] for path in expected}
            assert running == expected
    assert not replay.wrong
    assert settled > 5, "all of them waited too short a time to mean anything"


# --- 2: kept slots ----------------------------------------------------------------------------------------
def test_a_kept_slot_is_there_at_once(stage: Stage) -> None:
    branch = stage.fresh_branch(assured=SLOTS)
    kept = f"{branch}/kept"
    settle(stage.node, kept, assured=2, lend=False)
    stage.load(branch, [command(f"{branch}/flood", SECONDS)] * 300)
    since = stage.open(branch)
    stage.watch.until(begun_in(branch), 30, since)
    submit_all(stage.node, [command(kept, 0.2)] * 2)
    stage.watch.until(begun_in(kept), 2, since)
    stage.watch.let_happen(60, seconds=5)
    events = stage.close(branch)
    judge(branch, events)
    came = {event.commit for event in events if event.queue == kept and event.kind == "job.submitted"}
    assert {event.commit for event in events if event.queue == kept and event.kind == "job.begun"} == came


# --- 4: turns among equals --------------------------------------------------------------------------------
@given(st.lists(st.integers(1, 3), min_size=2, max_size=8))
@examples(3)
def test_each_of_equal_tenants_begins_in_any_window(stage: Stage, queues: list[int]) -> None:
    """Whatever their numbers of queues: at least once in any 2 N + slots begins."""
    branch = stage.fresh_branch()
    window = 2 * len(queues) + SLOTS
    jobs = [
        command(f"{branch}/t{tenant}/q{turn % count}", SECONDS)
        for turn in range(4 * window)
        for tenant, count in enumerate(queues)
    ]
    events = stage.run(branch, jobs, 3 * window)
    begun = [event.queue.split("/")[1] for event in events if event.kind == "job.begun"]
    for first in range(3 * window - window):
        assert len(set(begun[first : first + window])) == len(queues)


# --- 7: rate ----------------------------------------------------------------------------------------------
@given(st.sampled_from([20.0, 40.0, 60.0]), st.integers(1, 5))
@examples(2)
def test_starts_keep_to_the_rate(stage: Stage, rate: float, burst: int) -> None:
    """A queue starts full, and has no more than that after it was idle; others are not delayed."""
    branch = stage.fresh_branch()
    rated = f"{branch}/rated"
    settle(stage.node, rated, rate=f"{rate:g}/s", burst=burst)
    stage.load(branch, [command(rated, 0.01)] * (burst + 12))
    since = stage.open(branch)
    stage.watch.until(begun_in(rated), burst + 12, since)
    settle(stage.node, branch, paused=True)
    again = submit_all(stage.node, [command(rated, 0.01)] * (burst + 6))
    stage.watch.let_happen(10**6, seconds=burst / rate)  # idle until the bucket is full again
    settle(stage.node, branch, paused=False)
    events = stage.drain(branch, again, since)
    judge(branch, events)
    opened = [e.commit for e in events if e.queue == branch and e.kind == "queue.changed" and not e.detail]
    for commit in opened[-2:]:
        at_once = sum(event.commit == commit and event.kind == "job.begun" for event in events)
        assert burst <= at_once <= burst + 1
