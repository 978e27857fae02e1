"""Why is it waiting: every waiting job has one true answer, from the outside in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairway.core import events as happened
from fairway.core.explain import explain, limited_by, position, show_seconds
from fairway.core.model import Arrival, Shape

from .stage import COMMAND, Stage, task

Setup = Callable[[Stage], None]


def nothing(stage: Stage) -> None:
    """No worker at all."""


def busy(stage: Stage) -> None:
    stage.join("w", 1)
    stage.submit(1)
    stage.step()


def paused_above(stage: Stage) -> None:
    busy(stage)
    stage.set("acme", paused=True)


def paused_and_full(stage: Stage) -> None:
    stage.join("w", 9)
    stage.set("acme", limit=1)
    stage.submit(1, queue="acme/other")
    stage.step()
    stage.set("acme/mail", paused=True)


def full_above(stage: Stage) -> None:
    stage.join("w", 9)
    stage.set("acme", limit=1)
    stage.submit(1, queue="acme/other")
    stage.step()


def limit_of_nothing(stage: Stage) -> None:
    stage.join("w", 9)
    stage.set("acme/mail", limit=0)


def elsewhere(stage: Stage) -> None:
    stage.join("w", 9, queues=("beta", "acme"))


def draining(stage: Stage) -> None:
    stage.join("w", 9)
    stage.absorb(happened.WorkerAsked("ticket", "w", None, True))


def gone(stage: Stage) -> None:
    stage.join("w", 9)
    stage.absorb(happened.Left("w"))


def two_ahead(stage: Stage) -> None:
    busy(stage)
    stage.submit(2, 3, queue="acme/mail")


def free(stage: Stage) -> None:
    stage.join("w", 9)


@pytest.mark.parametrize(
    ("setup", "shape", "delay", "reason", "on", "words"),
    [
        (free, COMMAND, 90.0, "not_due", None, "due in 90.0 s"),
        (paused_above, COMMAND, 0.0, "paused", "acme", "queue 'acme' is paused"),
        (paused_and_full, COMMAND, 0.0, "paused", "acme/mail", "queue 'acme/mail' is paused"),
        (full_above, COMMAND, 0.0, "limit", "acme", "limit of 'acme' is full (1 of 1 running)"),
        (limit_of_nothing, COMMAND, 0.0, "limit", "acme/mail", "(0 of 0 running)"),
        (nothing, COMMAND, 0.0, "no_worker", None, "no worker is connected"),
        (gone, COMMAND, 0.0, "no_worker", None, "no worker is connected"),
        (elsewhere, COMMAND, 0.0, "no_worker", "acme/mail", "no worker serves queue 'acme/mail'"),
        (busy, Shape("command", tags=("gpu",)), 0.0, "no_worker", "gpu", "no worker has tag gpu"),
        (busy, task("resize"), 0.0, "no_worker", "resize", "no worker has task resize"),
        (busy, Shape("rails"), 0.0, "no_worker", "rails", "no worker has adapter rails"),
        (draining, COMMAND, 0.0, "no_worker", None, "draining"),
        (two_ahead, COMMAND, 0.0, "behind", "acme/mail", "behind 2 jobs of its queue"),
        (busy, COMMAND, 0.0, "busy", "acme/mail", "all 1 slots that fit are taken"),
        (free, COMMAND, 0.0, "starting", None, "about to begin"),
    ],
)
def test_a_waiting_job_has_an_answer(
    setup: Setup, shape: Shape, delay: float, reason: str, on: str | None, words: str
) -> None:
    stage = Stage()
    setup(stage)
    stage.submit(99, queue="acme/mail", shape=shape, delay=delay)
    why = explain(stage.core.world, stage.arrivals[99], stage.now.wall)
    assert why is not None
    assert (why.reason, why.on) == (reason, on)
    assert words in why.detail


def test_a_running_job_does_not_wait() -> None:
    stage = Stage()
    busy(stage)
    assert explain(stage.core.world, stage.arrivals[1], stage.now.wall) is None
    assert position(stage.core.world, stage.arrivals[1], stage.now.wall) is None


def test_a_job_the_leader_has_not_seen_is_starting() -> None:
    why = explain(Stage().core.world, Arrival(1, "new", None, 0, COMMAND, 0), 10)
    assert why is not None
    assert why.reason == "starting"


def test_a_position_counts_what_is_due_and_stands_before() -> None:
    stage = Stage()
    stage.submit(1, 2)
    stage.submit(3, priority=5)
    stage.submit(4, delay=60.0, priority=9)
    stage.submit(5)
    found = {
        job: position(stage.core.world, arrival, stage.now.wall) for job, arrival in stage.arrivals.items()
    }
    assert found == {3: 0, 1: 1, 2: 2, 5: 3, 4: None}


def test_a_position_is_exact_to_a_thousand() -> None:
    stage = Stage()
    stage.submit(*range(1200))
    assert position(stage.core.world, stage.arrivals[999], stage.now.wall) == 999
    assert position(stage.core.world, stage.arrivals[1199], stage.now.wall) == 1000
    stage.join("w", 1)
    why = explain(stage.core.world, stage.arrivals[1199], stage.now.wall)
    assert why is not None
    assert (why.reason, why.detail) == ("behind", "behind 1,000 or more jobs of its queue")


def test_a_queue_says_which_setting_holds_it() -> None:
    stage = Stage()
    full_above(stage)
    tree = stage.core.world.tree
    assert limited_by(tree.grow("acme/mail"), tree.mono) == "limit of 'acme'"
    assert limited_by(tree.grow("beta"), tree.mono) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (119, "119.0 s"), (120, "2 m"), (7199, "120 m"), (7200, "2 h"), (3 * 86400, "3 d")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text
