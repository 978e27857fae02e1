"""The tree's rule, whatever is drawn: 4 equal children take turns, 5 priority on the excess only, 6 locality,
7 rate, 8 live change. Judged by who began when, what ran then, and what was set."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.disciplines import DISCIPLINES
from fairway.core.model import QueueSettings
from tests.drawing import drawn

from .workshop import Workshop, inside

S = QueueSettings
seeds = st.integers(0, 2**16)


def durations(seed: int) -> Any:
    """Return what draws how long a job takes."""
    dice = random.Random(seed)
    return lambda: dice.uniform(0.5, 2.0)


def running(ran: Counter[str], top: str) -> int:
    """Count what ran in a branch."""
    return sum(count for path, count in ran.items() if inside(path, top))


# --- 4: turns ----------------------------------------------------------------------------------------------
@given(
    tenants=st.integers(2, 12), slots=st.integers(1, 11), seed=seeds, assured=st.sampled_from([None, 1, 2]),
    seconds=st.one_of(st.sampled_from([0.0, 0.001]), st.floats(0.01, 10.0), st.floats(10.0, 3000.0)),
    spread=st.sampled_from([1.0, 1.2, 2.0]), weight=st.sampled_from([0.5, 1.0, 3.0]),
)  # fmt: skip
@drawn(80)
def test_equal_children_take_turns(
    tenants: int, slots: int, seconds: float, assured: int | None, weight: float, spread: float, seed: int
) -> None:
    """Ties go to the one served longest ago; also among those that are owed more slots than there are.

    However long jobs take, and whether slots are freed at the same moment or one by one.
    """
    names, dice = [f"t{number}" for number in range(tenants)], random.Random(seed)
    shop = Workshop(slots)
    for name in names:
        shop.set(name, S(assured=assured, weight=weight))
    shop.keep_full(*names, seconds=lambda: seconds * dice.uniform(1.0, spread))
    shop.run(tenants * 8 + 2 * slots)
    window = 2 * tenants + slots
    for start in range(len(shop.begun) - window + 1):
        assert set(shop.begun[start : start + window]) == set(names)


# --- 5: priority -------------------------------------------------------------------------------------------
some_children = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, 0, 1, 4]), st.integers(-1, 1)), min_size=2, max_size=5
)


@given(children=some_children, extra=st.integers(0, 4), seed=seeds)
@drawn(80)
def test_the_excess_goes_by_priority_and_what_is_assured_does_not(
    children: list[tuple[int, int | None, int]], extra: int, seed: int
) -> None:
    """A child is (assured, how much more it may have, priority); all have work throughout."""
    wanted = {
        f"c{number}": S(
            assured=assured or None, limit=None if room is None else assured + room, priority=priority
        )
        for number, (assured, room, priority) in enumerate(children)
    }
    shop = Workshop(sum(one[0] for one in children) + extra, **wanted)
    shop.keep_full(*wanted, seconds=durations(seed))
    shop.run(150, until=100.0)
    for path, ran in zip(shop.begun, shop.ran, strict=True):
        owed = {name for name, one in wanted.items() if ran[name] < (one.assured or 0)}
        if owed:
            assert path in owed, "a slot for a borrower while one is owed"
        else:
            able = [one for name, one in wanted.items() if one.limit is None or ran[name] < one.limit]
            assert wanted[path].priority == max(one.priority for one in able), "the lower one borrows"
    for name, one in wanted.items():
        assert shop.running[name] >= (one.assured or 0) or shop.free, "the lower one lost what is assured"


# --- 6: locality -------------------------------------------------------------------------------------------
@given(
    own=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    shared=st.integers(0, 2), extra=st.integers(0, 3),
    script=st.lists(st.sampled_from(["a/x", "a/y", "b/x", "b/y"]), min_size=1, max_size=6),
    priority=st.integers(0, 2), seed=seeds,
)  # fmt: skip
@drawn(80)
def test_what_a_sibling_leaves_goes_to_siblings_first(
    own: list[int], shared: int, extra: int, script: list[str], priority: int, seed: int
) -> None:
    """Two branches with two queues each, which have work and have none; strangers would like to borrow."""
    leaves = dict(zip(("a/x", "a/y", "b/x", "b/y"), own, strict=True))
    assured = {top: sum(leaves[f"{top}/{name}"] for name in "xy") + shared for top in "ab"} | leaves
    shop = Workshop(assured["a"] + assured["b"] + extra, c=S(priority=priority, weight=5.0))
    for path, much in assured.items():
        shop.set(path, S(assured=much or None))
    busy: set[str] = {"c"}
    shop.keep_full("c", seconds=durations(seed))
    for path in script:
        if path in busy:
            busy.remove(path)
            shop.stop(path)
        else:
            busy.add(path)
            shop.keep_full(path, seconds=durations(seed))
        before = len(shop.begun)
        shop.run(before + 40)
        for begun, ran in list(zip(shop.begun, shop.ran, strict=True))[before:]:
            owed = {one[0] for one in busy - {"c"} if owes(one[0], assured, ran, busy)}
            assert not owed or begun[0] in owed, "what its branch is assured went to a stranger"
            at_home = {one for one in busy if begun[0] == one[0] and ran[one] < assured.get(one, 0)}
            assert not at_home or begun in at_home, "what it is assured went to its sibling"


def owes(top: str, assured: dict[str, int], ran: Counter[str], busy: set[str]) -> bool:
    """Say whether a branch, or a queue in it that has work, has less than it is assured."""
    below = any(ran[one] < assured[one] for one in busy if inside(one, top))
    return below or running(ran, top) < assured[top]


# --- 7: rate -----------------------------------------------------------------------------------------------
@given(
    rate=st.sampled_from([0.5, 1.0, 4.0, 20.0]), burst=st.integers(1, 6), on=st.sampled_from(["a", "a/x"]),
    phases=st.lists(
        st.tuples(st.sampled_from(["work", "pause", "full", "weight"]), st.integers(1, 12)),
        min_size=1, max_size=6,
    ),
    seed=seeds,
)  # fmt: skip
@drawn(60)
def test_starts_keep_to_the_rate_also_after_idling(
    rate: float, burst: int, on: str, phases: list[tuple[str, int]], seed: int
) -> None:
    """It idles because it is paused, or because its limit leaves no room; then it has work again."""
    dice = random.Random(seed)
    wanted = S(rate=f"{rate}/s", burst=burst)
    shop = Workshop(60)
    shop.set(on, wanted)
    shop.keep_full("a/x", seconds=lambda: dice.uniform(0.05, 1.0))
    changes: dict[str, dict[str, Any]] = {
        "pause": {"paused": True}, "full": {"limit": 0}, "weight": {"weight": 3.0}, "work": {},
    }  # fmt: skip
    for kind, seconds in phases:
        shop.set(on, replace(wanted, **changes[kind]))
        shop.run(until=shop.tree.mono + seconds)
        shop.set(on, wanted)
        shop.run(until=shop.tree.mono + 3.0)
    starts = [at for path, at in zip(shop.begun, shop.begun_at, strict=True) if path == "a/x"]
    saved = [number - rate * at for number, at in enumerate(starts)]
    for most, least in zip(saved, accumulate(saved, min), strict=True):
        assert most - least <= burst + 1e-6, "more than burst + rate * seconds + 1 starts"
    assert sum(1 for at in starts if at == 0.0) == (burst if phases[0][0] in ("work", "weight") else 0)


# --- 8: live change ----------------------------------------------------------------------------------------
@given(
    before=st.sampled_from([1.0, 2.0, 5.0]), after=st.sampled_from([0.5, 1.0, 2.0, 5.0]),
    slots=st.sampled_from([2, 4, 8]), seconds=st.sampled_from([0.1, 1.0, 10.0]), past=st.integers(100, 600),
)  # fmt: skip
@drawn(40)
def test_a_changed_weight_holds_at_once_and_nobody_pays_for_the_past(
    before: float, after: float, slots: int, seconds: float, past: int
) -> None:
    shop = Workshop(slots, a=S(weight=before))
    shop.keep_full("a", "b", seconds=seconds)
    shop.run(past)
    shop.set("a", S(weight=after))
    start, had = len(shop.begun), shop.slot_seconds.copy()
    shop.run(start + 40 * slots)
    gained = {name: shop.slot_seconds[name] - had[name] for name in ("a", "b")}
    share = gained["a"] / sum(gained.values())
    assert share == pytest.approx(after / (after + 1), abs=0.08)


PATHS = ("a", "b", "c")
changes = st.one_of(
    st.tuples(st.just("limit"), st.sampled_from([None, 0, 1, 3])),
    st.tuples(st.just("assured"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("priority"), st.integers(-1, 1)),
    st.tuples(st.just("paused"), st.booleans()),
    st.tuples(st.just("weight"), st.sampled_from([0.5, 1.0, 4.0])),
    st.tuples(st.just("discipline"), st.sampled_from([None, *DISCIPLINES])),
    st.tuples(st.just("rate"), st.sampled_from([None, "2/s"])),
)


@given(
    jobs=st.lists(st.integers(0, 30), min_size=3, max_size=3), slots=st.integers(1, 6),
    script=st.lists(st.tuples(st.sampled_from(PATHS), changes, st.integers(0, 4)), max_size=25),
)  # fmt: skip
@drawn(150)
def test_a_change_holds_from_the_next_begin_and_loses_nothing(
    jobs: list[int], slots: int, script: list[tuple[str, tuple[str, Any], int]]
) -> None:
    shop = Workshop(slots)
    for path, count in zip(PATHS, jobs, strict=True):
        shop.put(path, count)
    wanted = dict.fromkeys(PATHS, S())
    for path, (field, value), begins in script:
        wanted[path] = replace(wanted[path], **{field: value})
        ran, start = shop.running.copy(), len(shop.begun)
        shop.set(path, wanted[path])
        assert shop.running == ran, "a change ends nothing"
        shop.run(start + begins, until=shop.tree.mono + 1.5)
        left = {name: count - shop.begun[:start].count(name) for name, count in zip(PATHS, jobs, strict=True)}
        for begun, then in list(zip(shop.begun, shop.ran, strict=True))[start:]:
            check_begin(begun, then, wanted, left)
            left[begun] -= 1
    for path in PATHS:
        shop.set(path, S())
    shop.run()
    assert [shop.begun.count(path) for path in PATHS] == jobs
    assert not +shop.running and shop.free == slots


def check_begin(
    begun: str, ran: Counter[str], wanted: dict[str, QueueSettings], left: dict[str, int]
) -> None:
    """One begins that may, and none was before it by what is set; tokens are not looked at."""
    able = [
        name
        for name, one in wanted.items()
        if left[name] and not one.paused and (one.limit is None or ran[name] < one.limit)
    ]
    assert begun in able, "it may not begin anything"
    free = [name for name in able if wanted[name].rate is None]
    owed = {name for name in able if ran[name] < (wanted[name].assured or 0)}
    if owed.intersection(free):
        assert begun in owed, "a slot for a borrower while one is owed"
    elif begun not in owed:
        assert wanted[begun].priority >= max((wanted[name].priority for name in free), default=-9)
