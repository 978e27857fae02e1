"""What the tree's rule leads to: the numbered properties of HTB in slots, and its examples.

1 ceiling, 2 guarantee, 3 work conservation, 4 excess by weight, 5 priority on the excess only, 6 locality,
7 rate, 8 live change.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.model import QueueSettings
from tests.drawing import drawn

from .workshop import Workshop

S = QueueSettings


def steady(shop: Workshop, *paths: str) -> dict[str, int]:
    """Return what runs of each queue once things have settled."""
    shop.keep_full(*paths)
    shop.run(until=40.5)
    return {path: shop.running[path] for path in paths}


# --- the examples ----------------------------------------------------------------------------------------
def test_everybody_gets_what_is_assured() -> None:
    shop = Workshop(
        10, a=S(assured=4, limit=10), a__1=S(assured=3, limit=10), a__2=S(assured=1, limit=10),
        b=S(assured=6, limit=10),
    )  # fmt: skip
    assert steady(shop, "a/1", "a/2", "b") == {"a/1": 3, "a/2": 1, "b": 6}


def test_one_alone_borrows_everything() -> None:
    shop = Workshop(10, a=S(assured=4, limit=10), b=S(assured=6, limit=10))
    assert steady(shop, "b") == {"b": 10}


def test_the_excess_goes_to_the_higher_priority() -> None:
    shop = Workshop(10, a=S(assured=2, limit=10, priority=1), b=S(assured=2, limit=10))
    assert steady(shop, "a", "b") == {"a": 8, "b": 2}


def test_a_limit_leaves_slots_idle() -> None:
    assert steady(Workshop(10, a=S(assured=3, limit=3)), "a") == {"a": 3}
    shop = Workshop(10, a=S(assured=2, limit=4), b=S(assured=3, limit=5))
    assert steady(shop, "a", "b") == {"a": 4, "b": 5}
    assert shop.free == 1


# --- 4: the excess by weight -----------------------------------------------------------------------------
def parts(*weights: float) -> list[float]:
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("slots", [2, 4, 8, 11])
@pytest.mark.parametrize("seconds", [0.01, 1.0, 60.0])
@pytest.mark.parametrize("longer", [1, 10])
def test_shares_are_as_the_weights_whatever_the_durations(slots: int, seconds: float, longer: int) -> None:
    shop = Workshop(slots, a=S(weight=1), b=S(weight=2), c=S(weight=5))
    dice = random.Random(slots)
    shop.keep_full("a", seconds=lambda: dice.uniform(0.5, 1.5) * seconds * longer)
    shop.keep_full("b", "c", seconds=lambda: dice.uniform(0.5, 1.5) * seconds)
    shop.run(2000)
    assert shop.shares("a", "b", "c") == pytest.approx(parts(1, 2, 5), rel=0.05)


def test_thirty_tenants_on_four_slots_are_equal() -> None:
    tenants = [f"t{number}" for number in range(30)]
    shop = Workshop(4)
    shop.keep_full(*tenants)
    shop.run(3000)
    assert shop.shares(*tenants) == pytest.approx([1 / 30] * 30, rel=0.1)


def test_a_tenant_with_many_queues_gets_no_more() -> None:
    shop = Workshop(4)
    shop.keep_full("one", *(f"many/{number}" for number in range(50)))
    shop.run(2000)
    assert shop.shares("one", "many") == pytest.approx([0.5, 0.5], rel=0.05)


@given(st.integers(2, 12), st.integers(1, 8), st.integers(0, 2**16))
@drawn(60)
def test_each_of_equal_tenants_begins_in_any_window(tenants: int, slots: int, seed: int) -> None:
    dice, names = random.Random(seed), [f"t{number}" for number in range(tenants)]
    shop = Workshop(slots)
    shop.keep_full(*names, seconds=1.0)
    shop.run(tenants * 20)
    window = 2 * tenants + slots
    start = dice.randrange(len(shop.begun) - window)
    assert set(shop.begun[start : start + window]) == set(names)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=5), st.sampled_from([2, 4, 8]), st.integers(0, 2**16))
@drawn(15)
def test_drawn_weights_and_durations_give_those_shares(weights: list[int], slots: int, seed: int) -> None:
    dice = random.Random(seed)
    names = [f"t{number}" for number in range(len(weights))]
    shop = Workshop(slots)
    for name, weight in zip(names, weights, strict=True):
        shop.set(name, S(weight=weight))
        mean = dice.choice([0.2, 1.0, 2.0])
        shop.keep_full(name, seconds=lambda mean=mean: dice.uniform(0.5, 1.5) * mean)
    shop.run(4000)
    ceiling = max(weights) / sum(weights) * slots  # a share below one slot is reached in turns
    assert ceiling > 0
    assert shop.shares(*names) == pytest.approx(parts(*weights), rel=0.08)


def test_who_comes_back_gets_nothing_for_the_time_it_was_away() -> None:
    shop = Workshop(4)
    shop.keep_full("a", "b")
    shop.run(400)
    shop.stop("b")
    shop.run(2000)
    shop.keep_full("b")
    before = len(shop.begun)
    shop.run(before + 200)
    assert Counter(shop.begun[before:])["b"] == pytest.approx(100, abs=6)


Z_CASES = {
    "it was alone, and idle for a moment": (S(), []),
    "one is held to its assured slot": (S(assured=1, limit=1), ["z"]),
    "one of lower priority waits": (S(priority=-1), ["z"]),
    "one is held to a limit": (S(limit=1), ["z"]),
}


@pytest.mark.parametrize("case", Z_CASES)
def test_nobody_holds_the_clock_back_for_a_newcomer(case: str) -> None:
    """Who was busy for long is not kept waiting as long by one that comes now."""
    settings_of_z, beside = Z_CASES[case]
    shop = Workshop(4, z=settings_of_z)
    shop.keep_full("a", *beside)
    shop.run(until=1000)
    if not beside:
        shop.stop("a")
        shop.run(until=1010)
    shop.keep_full("b")
    shop.run(until=shop.tree.mono + 2.5)
    shop.keep_full("a")
    before = len(shop.begun)
    shop.run(before + 400)
    counts = Counter(shop.begun[before:])
    assert counts["a"] == pytest.approx(counts["b"], rel=0.08)


def test_a_limit_that_is_lifted_is_no_claim_on_the_past() -> None:
    shop = Workshop(10, z=S(limit=1))
    shop.keep_full("a", "z")
    shop.run(until=1000)
    shop.set("z", S())
    before = len(shop.begun)
    shop.run(before + 400)
    counts = Counter(shop.begun[before:])
    assert counts["a"] == pytest.approx(counts["z"], rel=0.1)


def test_a_newcomer_among_many_is_next() -> None:
    shop = Workshop(4)
    shop.keep_full(*(f"t{number}" for number in range(50)))
    shop.run(1000)
    shop.put("new")
    before = len(shop.begun)
    shop.run(before + 60)
    assert "new" in shop.begun[before : before + 55]


def test_a_changed_weight_shows_at_once_and_keeps_the_past() -> None:
    shop = Workshop(8)
    shop.keep_full("a", "b")
    shop.run(1000)
    shop.set("a", S(weight=3))
    before = dict(shop.slot_seconds)
    shop.run(2000)
    had = [shop.slot_seconds[name] - before[name] for name in ("a", "b")]
    assert had[0] / sum(had) == pytest.approx(0.75, rel=0.05)


# --- 1, 2, 3, 5, 6: whatever is set -----------------------------------------------------------------------
PATHS = ("a", "a/x", "a/y", "b", "b/x", "c")
LEAVES = ("a/x", "a/y", "b/x", "c")
drawn_settings = st.fixed_dictionaries(
    {
        path: st.builds(
            S,
            limit=st.sampled_from([None, 1, 2, 4]),
            weight=st.sampled_from([0.5, 1.0, 3.0]),
            priority=st.integers(0, 1),
        )
        for path in PATHS
    }
)


@given(drawn_settings, st.integers(1, 8), st.sets(st.sampled_from(LEAVES), min_size=1), st.integers(0, 2**16))
@drawn(150)
def test_no_limit_is_broken_and_no_slot_idles(
    drawn: dict[str, QueueSettings], slots: int, busy: set[str], seed: int
) -> None:
    dice, shop = random.Random(seed), Workshop(slots)
    for path, wanted in drawn.items():
        shop.set(path, wanted)
    shop.keep_full(*sorted(busy), seconds=lambda: dice.uniform(0.1, 3.0))
    for _ in range(30):
        shop.run(len(shop.begun) + 10, until=shop.tree.mono + 2)
        open_leaves = [leaf for leaf in busy if not any(q.full for q in shop.tree.grow(leaf).path_up())]
        assert not (shop.free and open_leaves and len(shop.begun) % 10), (
            "a free slot and a job that may begin"
        )
    for path, wanted in drawn.items():
        assert wanted.limit is None or shop.most[path] <= wanted.limit


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2**16))
@drawn(100)
def test_a_slot_does_not_go_to_a_borrower_while_somebody_is_owed(
    assured_a: int, assured_b: int, extra: int, seed: int
) -> None:
    dice = random.Random(seed)
    shop = Workshop(
        assured_a + assured_b + extra, a=S(assured=assured_a), b=S(assured=assured_b), c=S(priority=5)
    )
    shop.keep_full("c", seconds=lambda: dice.uniform(0.5, 2.0))
    shop.run(20)
    shop.keep_full("a", "b", seconds=lambda: dice.uniform(0.5, 2.0))
    before = len(shop.begun)
    shop.run(before + 200)
    for path, ran in list(zip(shop.begun, shop.ran, strict=True))[before:]:
        owed = {name for name, much in (("a", assured_a), ("b", assured_b)) if ran[name] < much}
        assert not owed or path in owed


def test_a_sibling_has_the_idle_slots_before_a_stranger() -> None:
    shop = Workshop(
        10, a=S(assured=6), a__x=S(assured=3), a__y=S(assured=3), b=S(assured=4)
    )  # fmt: skip
    assert steady(shop, "a/x", "b") == {"a/x": 6, "b": 4}


# --- 7: rate ---------------------------------------------------------------------------------------------
@given(st.sampled_from([0.5, 1.0, 4.0]), st.integers(1, 5), st.integers(0, 2**16))
@drawn(20)
def test_no_more_starts_than_the_rate_allows(rate: float, burst: int, seed: int) -> None:
    dice = random.Random(seed)
    shop = Workshop(50, a=S(rate=f"{rate}/s", burst=burst))
    shop.keep_full("a", "free", seconds=lambda: dice.uniform(0.1, 2.0))
    shop.run(until=60.0)
    starts = [at for path, at in zip(shop.begun, shop.begun_at, strict=True) if path == "a"]
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            assert last - first + 1 <= burst + rate * (starts[last] - starts[first]) + 1 + 1e-6
    # A token also waits for a slot, and where no second one fits in beside it, what comes meanwhile is lost.
    assert len(starts) >= rate * 50, "it is used as far as it goes"
    assert sum(1 for path in shop.begun if path == "free") > 500, "the others are not delayed"


def test_a_new_leader_starts_with_an_empty_bucket() -> None:
    shop = Workshop(10)
    shop.tree.fresh = True
    shop.set("a", S(rate="1/s", burst=5))
    shop.tree.fresh = False
    shop.keep_full("a", seconds=0.1)
    shop.run(until=2.5)
    assert len(shop.begun) == 2


# --- settings ---------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([None, 0, 1, 3])), min_size=1, max_size=30))
@drawn(60)
def test_limits_that_move_are_never_exceeded_by_a_begin_and_never_wedge(script: list[Any]) -> None:
    shop = Workshop(6)
    shop.keep_full(*LEAVES, seconds=0.5)
    for path, limit in script:
        shop.set(path, S(limit=limit))
        before = Counter({q.path: q.in_use for q in shop.tree.queues.values()})
        shop.run(len(shop.begun) + 5, until=shop.tree.mono + 2)
        for queue in shop.tree.queues.values():
            ceiling = queue.settings.limit
            assert ceiling is None or queue.in_use <= max(ceiling, before[queue.path])
    for path in PATHS:
        shop.set(path, S())
    count = len(shop.begun)
    shop.run(count + 50, until=shop.tree.mono + 60)
    assert len(shop.begun) == count + 50
