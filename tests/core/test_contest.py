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

from fairway.core.account import Account
from fairway.core.contest import MOST_BEFORE, MOST_BEHIND, Contest
from fairway.core.model import SLOT, Timers
from fairway.core.scheduler import Core
from tests.drawing import drawn

from .stage import Stage
from .workshop import Workshop


# --- sums --------------------------------------------------------------------------------------------------
def level_of(accounts: list[Account], mono: float) -> float:
    """Return what some have had on average, by weight, said naively."""
    return sum(one.used_until(mono) + one.loan for one in accounts) / sum(one.weight for one in accounts)


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
                contest.join(one, mono, ahead, dice.choice([None, dice.uniform(-5.0, contest.level(mono))]))
            case 0:
                contest.leave(one, mono)
            case 1:
                one.begin(dice.choice([1, SLOT // 2, SLOT]), mono)
            case 2 if one.held:
                one.end(dice.randint(1, one.held), dice.uniform(0.0, 50.0), mono, ahead)
            case 3:
                one.reweigh(dice.choice([0.5, 1.0, 5.0]), mono)
            case 4:
                one.assure(dice.choice([0, SLOT]), mono)
            case 5:
                contest.forgive(one, dice.uniform(0.0, 20.0), mono)
        competing = [account for account in accounts if account.contest is contest]
        if competing:
            assert contest.level(mono) == pytest.approx(level_of(competing, mono), abs=1e-6)


@given(st.integers(0, 2**32), st.sampled_from([0.01, 1.0, 60.0]))
@drawn(100)
def test_nobody_owes_or_saves_up_more_than_it_may(seed: int, ahead: float) -> None:
    dice, contest, mono = random.Random(seed), Contest(), 0.0
    accounts = [Account() for _ in range(3)]
    for one in accounts:
        one.weight = dice.choice([1.0, 2.0, 5.0])
        contest.join(one, mono, ahead, None)
    for _ in range(30):
        one, seconds = dice.choice(accounts), dice.uniform(0.0, 20.0) * ahead
        one.begin(SLOT, mono)
        mono += seconds
        one.end(SLOT, seconds, mono, ahead)
        others = [account for account in accounts if account is not one]
        beside = one.used - level_of(others, mono) * one.weight
        assert beside <= MOST_BEFORE * max(ahead, one.longest) + 1e-6
        assert beside >= -MOST_BEHIND * ahead * one.weight - 1e-6


def test_who_joins_is_the_next_and_pays_for_it_with_its_first_begin() -> None:
    contest, accounts = Contest(), [Account() for _ in range(4)]
    for number, one in enumerate(accounts[:3]):
        contest.join(one, 0.0, 1.0, None)
        one.begin(SLOT, 0.0)
        one.end(SLOT, 1.0 + number / 10, 1.0, 1.0)
    new, least = accounts[3], min(one.standing(1.0, 1.0) for one in accounts[:3])
    level = contest.level(1.0)
    contest.join(new, 1.0, 1.0, least)
    assert new.standing(1.0, 1.0) <= least
    assert contest.level(1.0) == pytest.approx(level)
    new.begin(SLOT, 1.0)
    assert new.used == pytest.approx(level) and new.loan == 0.0


def test_who_leaves_and_returns_keeps_what_it_owes_while_others_compete() -> None:
    contest, patient, eager = Contest(), Account(), Account()
    contest.join(patient, 0.0, 10.0, None)
    contest.join(eager, 0.0, 10.0, None)
    eager.begin(SLOT, 0.0)
    contest.leave(eager, 0.0)
    eager.end(SLOT, 8.0, 8.0, 10.0)
    contest.join(eager, 8.0, 10.0, None)
    assert (patient.used, eager.used) == (0.0, pytest.approx(8.0))


def test_what_was_had_before_anybody_competed_is_forgotten() -> None:
    contest, alone, new = Contest(), Account(), Account()
    contest.join(alone, 0.0, 1.0, None)
    alone.begin(10 * SLOT, 0.0)
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

    def __init__(self, flows: bool, slots: int = 10) -> None:
        self.stage = Stage(core=Core(Timers(beat=1e9, lease=1e9)))
        self.stage.join("w", slots)
        self.flows, self.number = flows, 0
        self.takes: dict[int, float] = {}
        self.ends: list[tuple[int, int]] = []
        self.begun: list[tuple[float, str]] = []
        self.had = Counter[str]()
        if flows:
            self.stage.set("q", discipline="sfq", charge="seconds")

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
