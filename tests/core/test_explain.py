"""Why is it waiting: every waiting job has one true answer, from the outside in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairway.core import events as happened
from fairway.core.explain import explain, limited_by, position, show_seconds
from fairway.core.foresee import foresee
from fairway.core.holders import MOST_LOOKED
from fairway.core.model import Arrival, Held, Shape, TaskInfo
from fairway.core.naming import show

from .stage import COMMAND, Stage, task

Setup = Callable[[Stage], None]
GPU = Shape("command", tags=("gpu",))


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


def paused_here(stage: Stage) -> None:
    stage.join("w", 9)
    stage.set("acme/mail", paused=True)


def full_here(stage: Stage) -> None:
    stage.join("w", 9)
    stage.set("acme/mail", limit=2)
    stage.submit(1, 2, queue="acme/mail")
    stage.step()


def out_of_tokens(stage: Stage) -> None:
    stage.join("w", 9)
    stage.step()
    stage.set("acme", rate="1/min", burst=1)
    stage.submit(1, queue="acme/other")
    stage.step()


def fitting_but_elsewhere(stage: Stage) -> None:
    """The one that serves the queue lacks the tag; the one that has it serves another queue."""
    stage.join("w", 1)
    stage.join("v", 1, tags=("gpu",), queues=("beta",))


def draining_beside_free(stage: Stage) -> None:
    """The free worker serves another queue: the job waits for the one that drains."""
    draining(stage)
    stage.join("v", 9, queues=("beta",))


def handing_back(stage: Stage) -> None:
    stage.join("w", 9)
    stage.submit(1)
    stage.step()
    stage.absorb(happened.HandedBack("w", [Held(1, 1, False)]))


def behind_what_nobody_can_run(stage: Stage) -> None:
    busy(stage)
    stage.submit(2, 3, queue="acme/mail", shape=Shape("rails"))


def behind_in_its_flow(stage: Stage) -> None:
    busy(stage)
    stage.set("acme/mail", discipline="sfq")
    stage.submit(2, 3, queue="acme/mail")


def behind_a_higher_priority(stage: Stage) -> None:
    busy(stage)
    stage.submit(2, queue="acme/mail", priority=5)


def kept_for_another(stage: Stage) -> None:
    stage.join("w", 2)
    stage.set("beta", assured=2, lend=False)


def kept_for_one_that_is_paused(stage: Stage) -> None:
    kept_for_another(stage)
    stage.set("beta", paused=True)


def kept_for_a_branch(stage: Stage) -> None:
    stage.join("w", 2)
    for path in ("beta", "beta/b", "beta/b/c"):
        stage.set(path, assured=2, lend=False)


def kept_for_two(stage: Stage) -> None:
    stage.join("w", 2)
    for path in ("beta", "gamma"):
        stage.set(path, assured=1, lend=False)


def kept_for_itself(stage: Stage) -> None:
    stage.join("w", 2)
    stage.set("acme", assured=2, lend=False)


def room_for_async_only(stage: Stage) -> None:
    stage.join("w", 1, tasks=(TaskInfo("a", True),))
    stage.submit(1, shape=task("a"))
    stage.step()


def room_for_all(stage: Stage) -> None:
    stage.join("w", 9)
    stage.submit(2, 3, queue="acme/mail")


@pytest.mark.parametrize(
    ("setup", "shape", "delay", "reason", "on", "words"),
    [
        (free, COMMAND, 90.0, "not_due", None, "due in 90.0 s"),
        (paused_above, COMMAND, 0.0, "paused", "acme", "queue 'acme' is paused"),
        (paused_and_full, COMMAND, 0.0, "paused", "acme/mail", "queue 'acme/mail' is paused"),
        (full_above, COMMAND, 0.0, "limit", "acme", "limit of 'acme' is full (1 of 1 running)"),
        (
            limit_of_nothing,
            COMMAND,
            0.0,
            "limit",
            "acme/mail",
            "limit of 'acme/mail' is 0: nothing may begin",
        ),
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
        (paused_here, COMMAND, 0.0, "paused", "acme/mail", "queue 'acme/mail' is paused"),
        (full_here, COMMAND, 0.0, "limit", "acme/mail", "(2 of 2 running)"),
        (out_of_tokens, COMMAND, 0.0, "rate", "acme", "the next start is in 60.0 s"),
        (fitting_but_elsewhere, GPU, 0.0, "no_worker", "gpu", "no worker has all it needs"),
        (draining_beside_free, COMMAND, 0.0, "no_worker", None, "is draining (w)"),
        (handing_back, COMMAND, 0.0, "no_worker", None, "gives work back (w)"),
        (behind_what_nobody_can_run, COMMAND, 0.0, "busy", "acme/mail", "it is the next of its queue"),
        (behind_in_its_flow, COMMAND, 0.0, "behind", None, "behind 2 jobs of its flow"),
        (behind_a_higher_priority, COMMAND, 0.0, "behind", "acme/mail", "behind 1 job of its queue"),
        (kept_for_another, COMMAND, 0.0, "kept", "beta", "kept for 'beta'"),
        (kept_for_one_that_is_paused, COMMAND, 0.0, "kept", "beta", "kept for 'beta', which does not lend"),
        (kept_for_a_branch, COMMAND, 0.0, "kept", "beta", "kept for 'beta', which does not lend them"),
        (kept_for_two, COMMAND, 0.0, "kept", "beta", "kept for 'beta', 'gamma', which do not lend them"),
        (kept_for_itself, COMMAND, 0.0, "starting", None, "about to begin"),
        (room_for_async_only, COMMAND, 0.0, "busy", "acme/mail", "all 1 slots that fit are taken"),
        (room_for_async_only, task("a"), 0.0, "starting", None, "about to begin"),
        (room_for_all, COMMAND, 0.0, "starting", None, "about to begin"),
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


@pytest.mark.parametrize("discipline", ["priority", "fifo", "sfq", "deadline"])
def test_what_nobody_can_run_stands_in_nobodys_way(discipline: str) -> None:
    """Position, reason and what is next agree, and are what then happens."""
    stage = Stage()
    busy(stage)
    stage.set("q", discipline=discipline)
    stage.submit(2, shape=GPU)
    stage.submit(3)
    stage.submit(4, shape=GPU)
    stage.submit(5)
    world, now = stage.core.world, stage.now
    positions = {job: position(world, stage.arrivals[job], now.wall) for job in (2, 3, 4, 5)}
    assert positions == {2: 0, 3: 0, 4: 2, 5: 1}  # of those that nobody can run, as they came
    said = explain(world, stage.arrivals[3], now.wall)
    assert said is not None and said.reason == "busy"
    assert foresee(world.tree, world.tree.queues["q"], 9, now) == [3, 5, 2, 4]
    for job in (1, 3):
        stage.finish(job)
        assert stage.begun() == [{1: 3, 3: 5}[job]]


def test_a_position_is_told_however_deep_the_queue_is() -> None:
    stage = Stage()
    stage.submit(*range(1200))
    assert position(stage.core.world, stage.arrivals[999], stage.now.wall) == 999
    assert position(stage.core.world, stage.arrivals[1199], stage.now.wall) == 1199
    stage.join("w", 1)
    why = explain(stage.core.world, stage.arrivals[1199], stage.now.wall)
    assert why is not None
    assert (why.reason, why.detail) == ("behind", "behind about 1,199 jobs of its queue")


def test_a_queue_says_which_setting_holds_it() -> None:
    stage = Stage()
    full_above(stage)
    tree = stage.core.world.tree
    assert limited_by(tree.grow("acme/mail"), tree.mono) == "limit of 'acme'"
    assert limited_by(tree.grow("beta"), tree.mono) is None


def held(running: dict[str, int], elsewhere: int = 0) -> str:
    """So many jobs run, from number 1 on, and the limit of acme is full of them: say who holds it."""
    stage, number = Stage(), 1
    stage.join("w", 5000)
    for path, count in {**running, "acmer": elsewhere}.items():
        stage.submit(*range(number, number + count), queue=path)
        number += count
    stage.step()
    stage.set("acme", limit=sum(running.values()))
    stage.submit(9999, queue="acme/mail")
    why = explain(stage.core.world, stage.arrivals[9999], stage.now.wall)
    assert why is not None and (why.reason, why.on) == ("limit", "acme")
    return why.detail.partition(" running), ")[2]


def test_a_full_limit_says_which_jobs_hold_it() -> None:
    assert held({"acme": 1}) == f"held by {show(1)}"
    assert held({"acme/mail": 1, "acme/web/a": 2}) == f"held by {show(1)}, {show(2)}, {show(3)}"
    assert held({"acme/mail": 2, "acme/web": 2}, 5).endswith(" and 1 other")
    assert held({"acme/mail": 7}).endswith(f"{show(3)} and 4 others")


def test_where_very_many_run_a_full_limit_names_the_queues_below() -> None:
    running = {"acme": 1, "acme/a": 1, "acme/b/x": 2, "acme/c": 3, "acme/d": 4}
    assert held(running, MOST_LOOKED) == "held by acme/d 4, acme/c 3, acme/b 2 and 2 others"
    assert held({"acme": 4}, MOST_LOOKED) == "", "all are its own, as was said"


def test_a_limit_of_nothing_is_held_by_nobody() -> None:
    stage = Stage()
    limit_of_nothing(stage)
    stage.submit(1, queue="acme/mail")
    why = explain(stage.core.world, stage.arrivals[1], stage.now.wall)
    assert why is not None and "held by" not in why.detail


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (119, "119.0 s"), (120, "2 m"), (7199, "120 m"), (7200, "2 h"), (3 * 86400, "3 d")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


@pytest.mark.parametrize("discipline", ["priority", "sfq", "deadline"])
def test_positions_among_very_many_lines_are_those_of_the_order(discipline: str) -> None:
    """As many lines as jobs: there it is not counted for each job, but told by one look at all of them."""
    stage = Stage()
    stage.join("w", 1)
    stage.set("q", discipline=discipline)
    for job in range(1, 301):
        stage.submit(job, priority=job)
    stage.submit(400, shape=GPU, priority=500)
    stage.step()
    world, now = stage.core.world, stage.now
    order = [job for job in foresee(world.tree, world.tree.queues["q"], 1000, now) if job != 400]
    assert len(order) == 299
    assert [position(world, stage.arrivals[job], now.wall) for job in order] == list(range(299))
    said = [explain(world, stage.arrivals[job], now.wall) for job in order[:3]]
    assert [why.reason for why in said if why is not None] == ["busy", "behind", "behind"]
