"""What is advisory may fail at every turn: the plans are the same, and it is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from fairway.core import eta as forecasting
from fairway.core import events as happened
from fairway.core import explain as explaining
from fairway.core.demand import demand
from fairway.core.disciplines import sfq
from fairway.core.foresee import foresee
from fairway.core.mishaps import MOST_PLACES, MOST_TEXT, Mishaps, Part, place_of, text_of
from fairway.core.model import Arrival, Extras
from fairway.core.plan import Plan
from fairway.core.queue import Queue
from fairway.core.scheduler import Core

from .stage import COMMAND, Stage

Plant = Callable[[Core, pytest.MonkeyPatch], None]


class Broken(Exception):
    """What was planted."""


def boom(*args: Any, **more: Any) -> NoReturn:
    raise Broken("planted")


def play(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Plan], Stage]:
    """Let everything happen of which advice hears, with people who ask all the time; return the plans."""
    stage, plans = Stage(), list[Plan]()
    with monkeypatch.context() as planted:
        plant(stage.core, planted)
        stage.set("fair", discipline="sfq")
        stage.join("w", 3)
        for number in range(1, 60, 3):
            stage.submit(number, queue="plain")
            stage.submit(number + 1, number + 2, queue="fair", flow=f"f{number % 4}")
            late = Arrival(
                1000 + number, "plain", None, 0, COMMAND, stage.now.wall, None, Extras(after=(number,))
            )
            stage.arrivals[late.job] = late
            stage.absorb(happened.TakenIn([late._replace(blocked=True)], [number]))
            ask_all(stage)
            plans.append(stage.step(0.2))
            stage.finish(*stage.live, kind="error" if number % 5 == 0 else "ok")
            stage.beat("w", *stage.live)
            plans.append(stage.step(0.2))
        meddle(stage)
        plans.append(stage.step(1.0))
        stage.micros += 30_000_000  # its worker is lost
        plans += [stage.step(), stage.step(11.0)]
    return plans, stage


def meddle(stage: Stage) -> None:
    """Cancel, edit, replace, refuse; stop a queue, and let an empty one go."""
    stage.submit(*range(500, 506), queue="side")
    for job in (500, 501):
        stage.absorb(happened.CancelAsked("ticket", stage.arrivals[job], False))
    new = stage.arrivals[502]._replace(priority=7)
    stage.absorb(happened.EditAsked("ticket", stage.arrivals[502], new, new.place, stage.rules))
    stage.absorb(happened.Replaced([stage.arrivals[503]]))
    stage.absorb(happened.Refused([stage.arrivals[504]]))
    stage.set("side", paused=True)
    stage.submit(600, queue="gone")
    stage.absorb(happened.CancelAsked("ticket", stage.arrivals[600], False))
    stage.absorb(happened.QueueDropAsked("ticket", "gone"))
    soon = Arrival(700, "side", None, 0, COMMAND, stage.now.wall, None, Extras(deadline=stage.now.wall + 5))
    stage.absorb(happened.Submitted([soon]))


def ask_all(stage: Stage) -> None:
    """Look as people do, by the guarded way."""
    world, now = stage.core.world, stage.now
    ask = world.advice.ask
    for job in list(stage.arrivals.values())[-4:]:
        ask(Part.EXPLANATION, None, explaining.explain, world, job, now.wall)
        ask(Part.POSITION, None, explaining.position, world, job, now.wall)
        ask(Part.FORECAST, None, forecasting.eta, world, job, now)
    queue = world.tree.queues["fair"]
    ask(Part.POSITION, None, foresee, world.tree, queue, 10, now)
    ask(Part.NUMBERS, None, world.numbers.of_branch, queue)
    ask(Part.DEMAND, None, demand, world, now)


def on(book: str, verb: str) -> Plant:
    """Plant an error into a verb of the numbers or the forecasts of one core."""
    return lambda core, planted: planted.setattr(getattr(core.world, book), verb, boom)


def into(owner: Any, name: str) -> Plant:
    """Plant an error deep inside."""
    return lambda core, planted: planted.setattr(owner, name, boom)


def nothing(core: Core, planted: pytest.MonkeyPatch) -> None:
    """Plant nothing."""


@pytest.mark.parametrize(
    ("part", "plant"),
    [
        (Part.FORECAST, on("forecasts", "sample")),
        (Part.FORECAST, on("forecasts", "began")),
        (Part.FORECAST, on("forecasts", "forget")),
        (Part.FORECAST, on("forecasts", "forget_branch")),
        (Part.FORECAST, on("forecasts", "bounds")),
        (Part.FORECAST, into(forecasting, "expect")),
        (Part.POSITION, into(Queue, "ahead_of")),
        (Part.POSITION, into(sfq.Sfq, "order")),
        (Part.EXPLANATION, into(explaining, "_branch")),
        (Part.EXPLANATION, into(sfq.Sfq, "ahead_in_flow")),
        (Part.NUMBERS, on("numbers", "arrived")),
        (Part.NUMBERS, on("numbers", "flow_arrived")),
        (Part.NUMBERS, on("numbers", "began")),
        (Part.NUMBERS, on("numbers", "flow_began")),
        (Part.NUMBERS, on("numbers", "ended")),
        (Part.NUMBERS, on("numbers", "flow_ended")),
        (Part.NUMBERS, on("numbers", "forget")),
        (Part.NUMBERS, on("numbers", "_pass_time")),
        (Part.DEMAND, into(sfq.Sfq, "due_by_shape")),
    ],
)
def test_an_error_in_advice_changes_no_plan_and_is_counted(
    part: Part, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, sound = play(nothing, monkeypatch)
    same, stage = play(plant, monkeypatch)
    assert sum(len(plan.batch.begins) for plan in plans) > 40
    assert same == plans
    mishaps = stage.core.world.advice.mishaps
    assert mishaps.counts[part] > 0
    assert not any(sound.core.world.advice.mishaps.counts.values())
    [first, *_] = mishaps.all()
    assert first.error == "Broken: planted"
    assert first.place.startswith("core/test_advice.py:")


def test_an_error_is_told_once_for_each_place_and_counted_every_time() -> None:
    mishaps = Mishaps()
    for act in (lambda: {}["a"], boom) * 3:
        try:
            act()
        except Exception as error:
            mishaps.note(Part.NUMBERS, error)
    assert [(one.count, one.error) for one in mishaps.take_untold()] == [
        (3, "KeyError: 'a'"),
        (3, "Broken: planted"),
    ]
    assert mishaps.take_untold() == []
    assert mishaps.counts[Part.NUMBERS] == 6


def test_no_more_than_so_many_places_are_kept() -> None:
    mishaps = Mishaps()
    for line in range(MOST_PLACES + 10):
        try:
            exec(compile("\n" * line + "1 / 0", "/somewhere/fairway/core/x.py", "exec"))
        except ZeroDivisionError as error:
            mishaps.note(Part.FORECAST, error)
    assert len(mishaps.all()) == len(mishaps.take_untold()) == MOST_PLACES
    assert mishaps.counts[Part.FORECAST] == MOST_PLACES + 10
    assert mishaps.all()[0].place == "fairway/core/x.py:1"


def test_an_error_is_written_in_one_short_line_that_every_store_takes() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("not even that")

    assert text_of(Mute()) == "Mute"
    assert text_of(ValueError("a\n b\0c\ud800")) == "ValueError: a b c?"
    assert len(text_of(ValueError("x" * 1000))) == MOST_TEXT
    assert place_of(ValueError("never raised")) == "an unknown place"
