"""Who competes for slots: no credit for what was not wanted, no debt for what nobody else wanted.

Sums are held against a naive reckoning, whatever happens; then what the rule leads to in the tree, and among
flows that share seconds.
"""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core.account import Account
from fairway.core.contest import MOST_BEFORE, Contest
from fairway.core.discipline import Still
from fairway.core.disciplines.sfq import Sfq
from fairway.core.model import SLOT, Arrival, Held, QueueSettings, Shape, TaskInfo, Timers
from fairway.core.plan import Begun
from fairway.core.scheduler import Core
from fairway.core.tree import Tree
from tests.drawing import drawn

from .stage import WALL, Stage
from .workshop import Workshop

COMMON, RARE = Shape("command"), Shape("command", tags=("gpu",))


class Only:
    """A kind of worker that takes one shape."""

    def __init__(self, shape: Shape) -> None:
        self.fits = shape.is_like

    def attached(self, path: str) -> bool:
        return True


# --- sums --------------------------------------------------------------------------------------------------
def level_of(accounts: list[Account], mono: float) -> float:
    """Return what some have had on average, by weight, said naively."""
    return sum(one.used_until(mono) + one.loan for one in accounts) / sum(one.weight for one in accounts)


def competing_in(contest: Contest, accounts: list[Account]) -> list[Account]:
    """Return those that compete."""
    return [account for account in accounts if account.contest is contest]


def end(one: Account, units: int, seconds: float, mono: float, ahead: float) -> None:
    """Let something of an account end, as the tree does it where nobody waits for other workers."""
    one.end(units, seconds, mono)
    if one.contest is not None and one.contest.is_off(one, mono, ahead):
        one.contest.bound(one, mono, ahead, None)


@given(st.integers(2, 5), st.integers(0, 2**32))
@drawn(200)
def test_its_level_is_what_those_that_compete_have_had_on_average(many: int, seed: int) -> None:
    """Whoever joins, leaves, begins, ends, is weighed anew, assured slots or let off, in any order."""
    dice, contest, mono, ahead = random.Random(seed), Contest(), 0.0, 2.0
    accounts = [Account() for _ in range(many)]
    for _ in range(80):
        mono += dice.choice([0.0, 0.01, 1.0, 100.0])
        one = dice.choice(accounts)
        match dice.randrange(6):
            case 0 if one.contest is None:
                contest.join(one, mono, ahead, dice.choice([None, *competing_in(contest, accounts)]))
            case 0:
                contest.leave(one, mono)
            case 1:
                one.hold(dice.choice([1, SLOT // 2, SLOT]), mono)
            case 2 if one.held:
                end(one, dice.randint(1, one.held), dice.uniform(0.0, 50.0), mono, ahead)
            case 3:
                one.reweigh(dice.choice([0.5, 1.0, 5.0]), mono)
            case 4:
                one.assure(dice.choice([0, SLOT]), mono)
            case 5:
                contest.forgive(one, dice.uniform(0.0, 20.0), mono)
        competing = competing_in(contest, accounts)
        if competing:
            assert contest.level(mono) == pytest.approx(level_of(competing, mono), abs=1e-6)


@given(st.integers(0, 2**32), st.sampled_from([0.01, 1.0, 60.0]))
@drawn(100)
def test_nobody_owes_more_than_one_turn(seed: int, ahead: float) -> None:
    dice, contest, mono = random.Random(seed), Contest(), 0.0
    accounts = [Account() for _ in range(3)]
    for one in accounts:
        one.weight = dice.choice([1.0, 2.0, 5.0])
        contest.join(one, mono, ahead, None)
    for _ in range(30):
        one, seconds = dice.choice(accounts), dice.uniform(0.0, 20.0) * ahead
        one.hold(SLOT, mono)
        mono += seconds
        end(one, SLOT, seconds, mono, ahead)
        others = [account for account in accounts if account is not one]
        beside = one.used - level_of(others, mono) * one.weight
        assert beside <= MOST_BEFORE * max(ahead, one.longest) + 1e-6


def test_who_joins_is_the_next_and_pays_for_it_with_its_first_begin() -> None:
    contest, accounts = Contest(), [Account() for _ in range(4)]
    for number, one in enumerate(accounts[:3]):
        contest.join(one, 0.0, 1.0, None)
        one.hold(SLOT, 0.0)
        end(one, SLOT, 1.0 + number / 10, 1.0, 1.0)
    new, first = accounts[3], min(accounts[:3], key=lambda one: one.standing(1.0, 1.0))
    level = contest.level(1.0)
    contest.join(new, 1.0, 1.0, first)
    assert new.standing(1.0, 1.0) <= first.standing(1.0, 1.0)
    assert contest.level(1.0) == pytest.approx(level)
    new.hold(SLOT, 1.0)
    assert new.used == pytest.approx(level) and new.loan == 0.0


def test_a_newcomer_that_is_weighed_anew_is_still_the_next() -> None:
    contest, old, other, new = Contest(), Account(), Account(), Account()
    for one in (old, other):
        contest.join(one, 0.0, 1.0, None)
        one.hold(SLOT, 0.0)
    old.end(SLOT, 1.0, 1.0)
    other.end(SLOT, 5.0, 5.0)
    contest.join(new, 5.0, 1.0, old)
    new.reweigh(3.0, 5.0)
    assert new.standing(5.0, 1.0) <= old.standing(5.0, 1.0)
    new.hold(SLOT, 5.0)
    assert new.used / new.weight == pytest.approx(3.0), "and has had as much as the others, on average"


def test_who_leaves_and_returns_keeps_what_it_owes_while_others_compete() -> None:
    contest, patient, eager = Contest(), Account(), Account()
    contest.join(patient, 0.0, 10.0, None)
    contest.join(eager, 0.0, 10.0, None)
    eager.hold(SLOT, 0.0)
    contest.leave(eager, 0.0)
    end(eager, SLOT, 8.0, 8.0, 10.0)
    contest.join(eager, 8.0, 10.0, None)
    assert (patient.used, eager.used) == (0.0, pytest.approx(8.0))


def test_what_was_had_before_anybody_competed_is_forgotten() -> None:
    contest, alone, new = Contest(), Account(), Account()
    contest.join(alone, 0.0, 1.0, None)
    alone.hold(10 * SLOT, 0.0)
    contest.leave(alone, 0.0)  # ten jobs run, none waits
    contest.join(new, 990.0, 1.0, None)
    alone.longest = 1000.0  # so that the bound on debts plays no part
    contest.join(alone, 1000.0, 1.0, None)
    assert alone.used - new.used == pytest.approx(
        100.0
    )  # ten slots, for the ten seconds that the other waited


# --- what it leads to --------------------------------------------------------------------------------------
def test_a_slot_that_is_held_saves_up_no_claim() -> None:
    """One holds one of ten slots for long and wants no more; then it wants as much as the other."""
    shop = Workshop(10)
    shop.put("x", 1, seconds=2000.0)
    shop.run(until=0.0)
    shop.keep_full("y")
    shop.run(until=500.0)
    shop.keep_full("x")
    before = shop.slot_seconds.copy()
    shop.run(until=800.0)
    had = {path: shop.slot_seconds[path] - before[path] for path in "xy"}
    assert had["x"] / sum(had.values()) == pytest.approx(0.5, abs=0.02)


class Town:
    """A core with ten slots; tenants have a queue each, or are flows of one that shares seconds."""

    def __init__(self, flows: bool, slots: int = 10, **settings: Any) -> None:
        self.stage = Stage(core=Core(Timers(beat=1e9, lease=1e9)))
        self.stage.join("w", slots)
        self.flows, self.number = flows, 0
        self.takes: dict[int, float] = {}
        self.ends: list[tuple[int, int]] = []
        self.begun: list[tuple[float, str]] = []
        self.had = Counter[str]()
        if flows:
            self.stage.set("q", discipline="sfq", charge="seconds", **settings)

    def submit(self, who: str, jobs: int, seconds: float) -> None:
        """Let jobs of a tenant come."""
        for _ in range(jobs):
            self.number += 1
            self.takes[self.number] = seconds
            where: dict[str, Any] = {"queue": "q", "flow": who} if self.flows else {"queue": who}
            self.stage.submit(self.number, **where)

    def run(self, until: float) -> None:
        """Let time pass."""
        stage = self.stage
        while True:
            for job in stage.begun():
                heappush(self.ends, (stage.micros + int(self.takes[job] * 1e6), job))
                self.begun.append((stage.micros / 1e6, self._who(job)))
            then = min(self.ends[0][0] if self.ends else int(until * 1e6), int(until * 1e6))
            for job in stage.live:
                self.had[self._who(job)] += max(then - stage.micros, 0) / 1e6  # type: ignore[assignment]
            stage.micros = max(then, stage.micros)
            if stage.micros >= until * 1e6:
                return
            while self.ends and self.ends[0][0] <= stage.micros:
                _, job = heappop(self.ends)
                stage.finish(job, seconds=self.takes[job])

    def _who(self, job: int) -> str:
        live = self.stage.live[job]
        return live.flow or live.queue.path


@pytest.mark.parametrize("flows", [False, True], ids=["tree", "flows"])
@pytest.mark.parametrize(("seconds", "waits"), [(100, False), (1000, False), (500, True)])
def test_work_that_nobody_else_wanted_is_no_debt(flows: bool, seconds: int, waits: bool) -> None:
    """One alone keeps all slots busy for long; ten seconds before they are free another comes, too."""
    town = Town(flows)
    town.submit("y", 10 * (1000 // seconds) + (10 if waits else 0), seconds)
    town.run(990.0)
    town.submit("x", 6500, 1.0)
    town.submit("y", 6500, 1.0)
    town.run(1000.5)
    before = town.had.copy()
    town.run(1600.0 + (seconds if waits else 0))
    had = {who: town.had[who] - before[who] for who in "xy"}
    if not waits:
        assert had["x"] / sum(had.values()) == pytest.approx(0.5, abs=0.02)
        assert min(at for at, who in town.begun if who == "y" and at >= 1000.0) < 1012.0
    assert min(at for at, who in town.begun if who == "x") < 1001.0


@pytest.mark.parametrize("flows", [False, True], ids=["tree", "flows"])
def test_long_jobs_pay_for_what_they_hold_while_others_wait(flows: bool) -> None:
    """Of three on one slot one has jobs a hundred times as long: it has a third of the time all the same."""
    town = Town(flows, slots=1)
    town.submit("long", 40, 100.0)
    for who in ("a", "b"):
        town.submit(who, 3000, 1.0)
    town.run(6000.0)
    assert town.had["long"] / town.had.total() == pytest.approx(1 / 3, abs=0.04)


@pytest.mark.parametrize("perturb", [10.0, 70.0])
def test_a_new_seed_lets_nobody_go_free(perturb: float) -> None:
    """Flows are hashed anew while a long job runs, again and again: its flow pays for all that it held."""
    town = Town(True, slots=1, divisor=4096, perturb=perturb)
    town.submit("long", 40, 100.0)
    for who in ("a", "b"):
        town.submit(who, 3000, 1.0)
    town.run(6000.0)
    assert town.had["long"] / town.had.total() == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.parametrize("due", [600.0, 601.0], ids=["at a new seed", "after it"])
def test_what_becomes_due_at_a_new_seed_has_saved_up_no_claim(due: float) -> None:
    town = Town(True, slots=1, divisor=4096, perturb=60.0)
    assert WALL % 60_000_000 == 0, "a new seed comes every full minute"
    for who in ("a", "b"):
        town.submit(who, 1500, 1.0)
    for number in range(900_000, 900_300):
        town.takes[number] = 1.0
        town.stage.submit(number, queue="q", flow="late", delay=due - (town.stage.micros + 1) / 1e6)
    town.run(due)
    before = town.had.copy()
    town.run(due + 240.0)
    assert town.had["late"] == pytest.approx(80.0, abs=3.0)
    assert town.had["a"] - before["a"] == pytest.approx(80.0, abs=3.0)


def test_a_new_discipline_knows_what_each_flow_holds() -> None:
    """Else an end would give back what another attempt of its flow holds, begun since then."""
    town = Town(True, slots=3)
    town.stage.set("q", discipline="priority")
    town.submit("a", 2, 100.0)
    town.submit("b", 1, 50.0)
    town.run(10.0)
    town.stage.set("q", discipline="sfq")
    own = town.stage.core.world.tree.grow("q").own
    assert isinstance(own, Sfq)
    assert {name: account.held for name, account in own._accounts.items()} == {"a": 2 * SLOT, "b": SLOT}
    town.run(60.0)
    town.submit("b", 1, 100.0)
    town.run(110.0)
    assert (own._accounts["a"].held, own._accounts["b"].held) == (0, SLOT)


# --- who cannot be served ----------------------------------------------------------------------------------
@pytest.mark.parametrize("flows", [False, True], ids=["tree", "flows"])
@pytest.mark.parametrize("gpu", [False, True], ids=["no worker has it", "its worker is busy"])
def test_one_that_waits_for_other_workers_changes_nothing_among_the_rest(flows: bool, gpu: bool) -> None:
    """It falls behind all others, who share what it cannot use; jobs of one are a hundred times as long."""
    town = Town(flows, slots=1)
    rare = Shape("command", tags=("gpu",))
    where: dict[str, Any] = {"queue": "q", "flow": "stuck"} if flows else {"queue": "stuck"}
    if gpu:
        town.stage.join("g", 1, tags=("gpu",), queues=("q", "stuck"))
        town.takes[900_001] = 1e6
        town.stage.submit(900_001, shape=rare, **where)
    town.stage.submit(900_002, shape=rare, **where)
    town.takes[900_002] = 1e6
    for who, jobs, seconds in (("long", 40, 100.0), ("a", 3000, 1.0), ("b", 3000, 1.0)):
        town.submit(who, jobs, seconds)
    town.run(6000.0)
    had = {who: town.had[who] for who in ("long", "a", "b")}
    assert had["long"] / sum(had.values()) == pytest.approx(1 / 3, abs=0.05), had


def test_a_newcomer_is_level_with_those_it_competes_with_and_not_with_one_that_is_stuck() -> None:
    contest, stuck, busy, new = Contest(), Account(), Account(), Account()
    contest.join(stuck, 0.0, 1.0, None)
    contest.join(busy, 0.0, 1.0, None)
    busy.hold(SLOT, 0.0)
    contest.join(new, 100.0, 1.0, busy)
    assert new.used + new.loan == pytest.approx(busy.used_until(100.0))


@pytest.mark.parametrize("flows", [False, True], ids=["tree", "flows"])
def test_to_wait_for_a_rare_worker_is_no_claim_on_the_others(flows: bool) -> None:
    town = Town(flows, slots=2)
    rare = Shape("command", tags=("gpu",))
    where: dict[str, Any] = {"queue": "q", "flow": "stuck"} if flows else {"queue": "stuck"}
    town.stage.join("g", 1, tags=("gpu",), queues=("q", "other"))
    town.takes[900_000] = town.takes[900_001] = 1e6
    holder: dict[str, Any] = {"queue": "q", "flow": "other"} if flows else {"queue": "other"}
    town.stage.submit(900_000, shape=rare, **holder)
    town.run(0.5)
    town.stage.join("idle", 1, tags=("gpu",), queues=("nobody",))
    town.stage.submit(900_001, shape=rare, **where)
    town.submit("a", 4000, 1.0)
    town.run(1000.0)
    town.submit("stuck", 1000, 1.0)
    before = town.had.copy()
    town.run(1200.0)
    had = {who: town.had[who] - before[who] for who in ("a", "stuck")}
    assert had["stuck"] / sum(had.values()) == pytest.approx(0.5, abs=0.05), had


class Pools:
    """Ten rare workers and a common one; `a` wants both kinds, `b` the common one. Rare jobs take 100 s."""

    def __init__(self, rare_jobs: int) -> None:
        self.free = {COMMON: 1, RARE: 10}
        self.ends: list[tuple[float, int, str, Shape, float]] = []
        self.begun: list[tuple[float, str]] = []  # on the common one
        self.number = 0
        for who, shape, jobs in (("b", COMMON, 2000), ("a", RARE, rare_jobs), ("a", COMMON, 2000)):
            for _ in range(jobs):
                self.number += 1
                self.put(Arrival(self.number, who, who, 0, shape, 0))

    def run(self, until: int, rare_until: int) -> None:
        """Let time pass; the rare workers are busy elsewhere from a time on."""
        for second in range(until):
            mono = float(second)
            self.pass_to(mono)
            while self.ends and self.ends[0][0] <= mono:
                _, _, who, shape, begun = heappop(self.ends)
                self.end(who, mono - begun)
                self.free[shape] += 1
            for shape in (RARE, COMMON):
                while (
                    self.free[shape] and (shape is COMMON or mono < rare_until) and (who := self.begin(shape))
                ):
                    self.free[shape] -= 1
                    took = 1.0 if shape is COMMON else 100.0
                    heappush(self.ends, (mono + took, len(self.begun), who, shape, mono))
                    if shape is COMMON:
                        self.begun.append((mono, who))


class TreePools(Pools):
    """Those are queues."""

    def __init__(self, rare_jobs: int) -> None:
        self.tree = Tree()
        self.kinds = {shape: Only(shape) for shape in (COMMON, RARE)}
        for kind in self.kinds.values():
            self.tree.welcome(kind)
        super().__init__(rare_jobs)

    def put(self, arrival: Arrival) -> None:
        self.tree.put(arrival, 0)

    def pass_to(self, mono: float) -> None:
        self.tree.mono = mono

    def begin(self, shape: Shape) -> str | None:
        found = self.tree.choose(self.kinds[shape], 0)
        if found is None:
            return None
        self.tree.take(*found, 1, SLOT, 0)
        return found[0].path

    def end(self, who: str, seconds: float) -> None:
        self.tree.release(self.tree.grow(who), 1, SLOT, seconds)
        self.tree.learn(seconds)


class FlowPools(Pools):
    """Those are flows of one queue by seconds."""

    def __init__(self, rare_jobs: int) -> None:
        self.own = Sfq(QueueSettings(discipline="sfq", charge="seconds"))
        self.pace = Still()
        self.own.pace = self.pace
        super().__init__(rare_jobs)

    def put(self, arrival: Arrival) -> None:
        self.own.put(arrival)

    def pass_to(self, mono: float) -> None:
        self.pace.mono = mono

    def begin(self, shape: Shape) -> str | None:
        offer = self.own.offer(shape.is_like, 0)
        if offer is None:
            return None
        self.own.take(offer, 1, 0)
        self.own.hold(offer.flow, SLOT)
        return offer.flow

    def end(self, who: str, seconds: float) -> None:
        self.own.release(who, SLOT, seconds)


@pytest.mark.parametrize("pools", [TreePools, FlowPools])
@pytest.mark.parametrize("waiting", [0, 5])
def test_who_stands_alone_for_a_rare_worker_owes_one_turn_all_the_same(pools: Any, waiting: int) -> None:
    """It had ten rare workers for long; some of its jobs may still wait for those, which are gone."""
    town = pools(100 + waiting)
    town.run(2000, rare_until=1000)
    back = min(at for at, who in town.begun if who == "a" and at >= 1000.0)
    assert back <= 1110.0


def test_a_queue_that_was_idle_when_its_priority_changed_owes_nothing() -> None:
    shop = Workshop(1)
    shop.keep_full("p/c", seconds=10.0)
    shop.put("p/a", 20, seconds=10.0)
    shop.run(until=600.0)
    lower = QueueSettings(priority=-1)
    shop.set("p/b", lower)
    shop.put("p/b", 5, seconds=10.0)
    shop.set("p/a", lower)
    shop.put("p/a", 5, seconds=10.0)
    a, b = shop.tree.queues["p/a"], shop.tree.queues["p/b"]
    assert a.level(shop.tree.mono) == b.level(shop.tree.mono)


def test_what_a_new_leader_finds_running_is_given_back_by_the_flow_that_holds_it() -> None:
    """A part of a slot, as it turns out when the worker joins: else its flow would hold the rest for ever."""
    stage = Stage()
    stage.set("q", discipline="sfq", charge="seconds")
    shape = Shape("python", "async")
    for job in (1, 2, 3):
        arrival = Arrival(job, "q", "a", 0, shape, stage.now.wall)
        begun = Begun(job, 1, 0, 0, 0, (), stage.rules, None, b"{}")
        stage.absorb(happened.Found(arrival, begun, "w", "w", 0, False))
    stage.join(
        "w", 1, tasks=(TaskInfo("async", is_async=True),), holds=tuple(Held(job, 1) for job in (1, 2, 3))
    )
    stage.step(1.0)
    own = stage.core.world.tree.grow("q").own
    assert isinstance(own, Sfq) and own._accounts["a"].held == 3 * (SLOT // 100)
    stage.finish(1, 2, 3)
    assert own._accounts["a"].held == 0
