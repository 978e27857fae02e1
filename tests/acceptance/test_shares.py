"""Who gets how much of a real node: tenants submit by HTTP, slot-seconds are counted from begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.acceptance.replay import Replay
from tests.acceptance.tenants import (
    Stage,
    begun_in,
    held_slots,
    open_stage,
    settle,
    shares,
    submit,
    warm_up,
    work,
)

SLOTS = 4
#: Long enough not to travel in bundles.
SECONDS = 0.012
many = pytest.mark.long


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_stage(tmp_path_factory.mktemp("shares"), SLOTS) as stage:
        warm_up(stage.node)
        yield stage


def check_weights(stage: Stage, begins: int) -> None:
    """Three tenants of weights 1, 2 and 5 with equal jobs have parts of 1, 2 and 5 eighths."""
    branch = stage.fresh_branch()
    tenants = {f"{branch}/{name}": weight for name, weight in zip("abc", (1, 2, 5), strict=True)}
    for tenant, weight in tenants.items():
        settle(stage.node, tenant, weight=weight)
    jobs = [work(tenant, SECONDS) for tenant, weight in tenants.items() for _ in range(begins * weight // 5)]
    got = shares(stage.run(branch, jobs, begins), begins, *tenants)
    print(f"\nweights 1:2:5, {begins} begins: {[f'{part:.3f}' for part in got.parts]}")
    assert got.agree([weight / 8 for weight in tenants.values()], 0.05), got


def test_three_tenants_share_by_weight(stage: Stage) -> None:
    check_weights(stage, 2000)


@many
@pytest.mark.parametrize("slots", [2, 8])
def test_weights_hold_on_any_number_of_slots(tmp_path: Path, slots: int) -> None:
    with open_stage(tmp_path, slots) as stage:
        warm_up(stage.node)
        check_weights(stage, 2000)


@pytest.mark.parametrize("begins", [900, pytest.param(6000, marks=many)])
def test_thirty_equal_tenants_have_equal_shares(stage: Stage, begins: int) -> None:
    branch = stage.fresh_branch()
    tenants = [f"{branch}/t{number}" for number in range(30)]
    jobs = [work(tenant, SECONDS) for tenant in tenants] * (begins // 20)
    got = shares(stage.run(branch, jobs, begins), begins, *tenants)
    least, most = 30 * min(got.parts), 30 * max(got.parts)
    print(f"\n30 tenants, {begins} begins: {least:.3f} to {most:.3f} of the equal share")
    assert got.agree([1 / 30] * 30, 0.1), got


@pytest.mark.parametrize("begins", [600, pytest.param(4000, marks=many)])
def test_fifty_queues_get_no_more_than_one(stage: Stage, begins: int) -> None:
    branch = stage.fresh_branch()
    some = [f"{branch}/many/q{number}" for number in range(50)]
    jobs = [work(f"{branch}/one", SECONDS)] * begins
    jobs += [work(queue, SECONDS) for queue in some] * (begins // 40)
    events = stage.run(branch, jobs, begins)
    got = shares(events, begins, f"{branch}/one", f"{branch}/many")
    print(f"\none queue against 50, {begins} begins: {got.parts[0]:.3f} and {got.parts[1]:.3f}")
    assert got.agree([0.5, 0.5], 0.05), got
    served = {held.queue for held in held_slots(events, begins)}
    assert served == {f"{branch}/one", *some}


@pytest.mark.parametrize(
    ("weights", "begins"), [((1, 1), 600), pytest.param((1, 2, 5), 8000, marks=many)], ids=["equal", "1:2:5"]
)
def test_jobs_ten_times_as_long_are_fewer(stage: Stage, weights: tuple[int, ...], begins: int) -> None:
    branch = stage.fresh_branch()
    tenants = [f"{branch}/t{number}" for number in range(len(weights))]
    for tenant, weight in zip(tenants, weights, strict=True):
        settle(stage.node, tenant, weight=weight)
    jobs = [work(tenants[0], 10 * SECONDS)] * (begins // 5)
    jobs += chain.from_iterable([work(tenant, SECONDS)] * begins for tenant in tenants[1:])
    got = shares(stage.run(branch, jobs, begins), begins, *tenants)
    print(f"\nweights {weights}, the first one's jobs 10 × longer: {[f'{part:.3f}' for part in got.parts]}")
    assert got.agree([weight / sum(weights) for weight in weights], 0.05), got


def test_one_alone_gets_everything(stage: Stage) -> None:
    branch = stage.fresh_branch()
    for number in range(20):
        settle(stage.node, f"{branch}/idle{number}", weight=1000, assured=0, priority=9)
    replay = Replay(branch, SLOTS)
    for _ in replay.play(stage.run(branch, [work(f"{branch}/busy", SECONDS)] * 400, 300)):
        if replay.waiting.total() and replay.begins:
            assert replay.in_use(branch) in (SLOTS, 0) or replay.settings[branch].get("paused")
    assert not replay.wrong
    assert replay.begins >= 300


def test_who_is_rated_or_full_delays_nobody(stage: Stage) -> None:
    """While there is work for the free one, every commit leaves all slots in use."""
    branch = stage.fresh_branch()
    settle(stage.node, f"{branch}/rated", rate="5/s", burst=1, priority=5)
    settle(stage.node, f"{branch}/full", limit=1, priority=5)
    jobs = [work(f"{branch}/rated", SECONDS)] * 50 + [work(f"{branch}/full", 0.3)] * 20
    events = stage.run(branch, jobs + [work(f"{branch}/free", SECONDS)] * 500, 300)
    replay, seen = Replay(branch, SLOTS), set[int]()
    for _ in replay.play(events):
        paused = replay.settings[branch].get("paused")
        if replay.begins and replay.waiting[f"{branch}/free"] and not paused:
            seen.add(replay.in_use(branch))
    assert not replay.wrong
    assert seen == {SLOTS}
    assert replay.waiting[f"{branch}/full"] and replay.waiting[f"{branch}/rated"], "nobody was held back"


@pytest.mark.parametrize("waiting", [4_000, pytest.param(1_000_000, marks=[many, pytest.mark.timeout(600)])])
def test_a_new_weight_shows_within_a_thousand_begins(stage: Stage, waiting: int) -> None:
    branch = stage.fresh_branch()
    a, b = f"{branch}/a", f"{branch}/b"
    settle(stage.node, branch, paused=True)
    for tenant in (a, b):
        submit(stage.node, tenant, waiting // 2, SECONDS)
    since = stage.open(branch)
    stage.watch.until(begun_in(branch), 200, since)
    settle(stage.node, a, weight=3)
    [change] = stage.watch.until(lambda event: (event.queue, event.kind) == (a, "queue.changed"), 1, since)
    changed = stage.watch.events.index(change, since)
    stage.watch.until(begun_in(branch), 1000, changed)
    stage.close(branch)
    got = shares(stage.watch.events[changed:], 1000, a, b)
    print(f"\nweight 1 → 3 with {waiting} waiting: {got.parts[0]:.3f} of the next 1,000 begins' slot-seconds")
    assert got.agree([0.75, 0.25], 0.05), got
