"""The flows of a fair queue as people see them: what waits, runs and came, of the busiest."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.core import events as happened
from fairway.core.disciplines import DISCIPLINES
from fairway.core.disciplines.sfq import Sfq
from fairway.core.flows import FlowNow, busiest
from fairway.core.lifecycle import State
from fairway.core.model import Arrival, Extras

from .stage import COMMAND, Stage


class Fair(Stage):
    """A stage with one fair queue, to which jobs come as letters: their flows."""

    def come(self, flows: str, delay: float = 0.0, at_once: bool = False) -> None:
        """Let a job come for each letter; a dot is one without a flow."""
        place = self.now.wall + int(delay * 1e6)
        first = len(self.arrivals) + 1
        coming = [
            Arrival(job, "q", None if flow == "." else flow, 0, COMMAND, place)
            for job, flow in enumerate(flows, start=first)
        ]
        self.arrivals |= {one.job: one for one in coming}
        for some in [coming] if at_once else [[one] for one in coming]:
            self.absorb(happened.Submitted(some))

    def look(self, most: int = 100) -> list[FlowNow]:
        world = self.core.world
        return busiest(world, world.tree.grow("q"), most, self.now)

    def flow(self, name: str | None) -> FlowNow:
        [found] = [one for one in self.look() if one.flow == name]
        return found

    def rate_in(self, name: str | None) -> float:
        return self.core.world.numbers.figures(self.flow(name).numbers, self.now.mono).rate_in


def fair(slots: int = 0, **settings: Any) -> Fair:
    stage = Fair()
    if slots:
        stage.join("w", slots)
    stage.set("q", discipline="sfq", **settings)
    return stage


def test_a_flow_that_only_waits_is_shown() -> None:
    stage = fair()
    stage.come("aab.")
    stage.micros += 5_000_000
    stage.come("a")
    stage.come("bc", delay=60)
    assert {one.flow: (one.waiting, one.running) for one in stage.look()} == {
        "a": (3, 0),
        "b": (1, 0),
        None: (1, 0),
        "c": (0, 0),
    }
    assert stage.now.wall - (stage.flow("a").oldest or 0) == 5_000_000
    assert stage.flow("c").oldest is None


def test_flows_that_were_hashed_together_are_shown_apart() -> None:
    stage = fair(divisor=1, flow_weights={"a": 9})
    stage.come("aab")
    stage.micros += 5_000_000
    stage.come("c")
    shown = {one.flow: (one.waiting, one.weight, stage.now.wall - (one.oldest or 0)) for one in stage.look()}
    assert shown == {"a": (2, 1.0, 5_000_000), "b": (1, 1.0, 5_000_000), "c": (1, 1.0, 0)}


def test_those_that_run_come_first_then_those_that_wait_then_those_that_were_busy() -> None:
    stage = fair(slots=3)
    stage.come("d")
    stage.step()
    stage.finish(1)
    stage.come("abbccccc")
    stage.step()
    stage.set("q", paused=True)
    stage.come("eeeffffff")
    stage.finish(*[job for job, live in stage.live.items() if live.flow == "b"])
    shown = [(one.flow, one.running, one.waiting) for one in stage.look()]
    assert shown == [("c", 1, 4), ("a", 1, 0), ("f", 0, 6), ("e", 0, 3), ("b", 0, 1), ("d", 0, 0)]
    assert [one.flow for one in stage.look(most=3)] == ["c", "a", "f"]


@pytest.mark.parametrize("at_once", [False, True])
def test_what_came_of_a_flow_is_counted(at_once: bool) -> None:
    stage = fair()
    stage.come("aaaaaaaaab" * 12, at_once=at_once)
    stage.micros += 1_000_000
    assert stage.rate_in("a") == pytest.approx(108, rel=0.02)
    assert stage.rate_in("b") == pytest.approx(12, rel=0.02)


def test_the_flows_of_another_package_s_discipline_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Turns(Sfq):
        name = "turns"

    monkeypatch.setitem(DISCIPLINES, "turns", Turns)
    stage = fair(slots=1)
    stage.set("q", discipline="turns")
    stage.come("aab")
    stage.begun()
    stage.micros += 1_000_000
    assert stage.rate_in("a") > stage.rate_in("b") > 0
    assert stage.flow("a").numbers.begun == 1


def test_what_a_flow_holds_now_counts_in_its_slot_seconds() -> None:
    stage = fair(slots=2)
    stage.come("aa")
    stage.step()
    stage.micros += 3_000_000
    assert stage.flow("a").slot_seconds == pytest.approx(6.0, rel=0.01)
    stage.finish(1, seconds=3.0)
    assert stage.flow("a").slot_seconds == pytest.approx(6.0, rel=0.01)


@pytest.mark.parametrize(("charge", "share"), [("jobs", 0.5), ("seconds", 0.75)])
def test_a_share_is_of_begins_or_of_seconds_whatever_is_charged(charge: str, share: float) -> None:
    stage = fair(slots=2, charge=charge, flow_weights={"a": 3})
    stage.come("ab")
    assert stage.flow("a").share is None
    stage.step()
    stage.micros += 1_000_000
    stage.finish(2, seconds=1.0)
    stage.micros += 2_000_000
    stage.finish(1, seconds=3.0)
    found = stage.flow("a")
    assert (found.weight, found.share) == (3.0, pytest.approx(share, rel=0.02))
    assert stage.flow("b").weight == 1.0


def test_a_queue_without_turns_shows_no_flows() -> None:
    stage = fair()
    stage.come("ab")
    stage.set("q", discipline="fifo")
    assert stage.look() == []


def test_a_job_that_waited_for_others_comes_when_it_is_released() -> None:
    stage = fair()
    extras = Extras(after=(99,))
    arrival = Arrival(1, "q", "a", 0, COMMAND, stage.now.wall, None, extras, True)
    stage.absorb(happened.TakenIn([arrival], [1], {}))
    assert stage.look() == []
    stage.absorb(happened.TakenIn([], [], {99: State.SUCCEEDED}))
    assert stage.flow("a").waiting == 1
    assert stage.rate_in("a") > 0
