"""A rack of lines: who is next for whom, what is due, as a plain list would say; and what it costs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.disciplines import DISCIPLINES, fronts
from fairway.core.disciplines.fronts import Fronts, Standing
from fairway.core.disciplines.rack import Key, Rack
from fairway.core.model import Arrival, QueueSettings, Shape
from fairway.core.tree import Tree
from tests.drawing import drawn

from .fair import run

SHAPES = [Shape("command", tags=(f"t{number}",)) for number in range(12)]
ASKERS: list[Callable[[Shape], bool]] = [
    lambda shape: True,
    lambda shape: False,
    frozenset(SHAPES[::2]).__contains__,
    frozenset(SHAPES[:3]).__contains__,
]


class Plain:
    """The same as a rack, by looking at every job."""

    def __init__(self, by_priority: bool) -> None:
        self.by_priority = by_priority
        self.jobs: dict[int, tuple[Key, int]] = {}

    def order(self, fits: Callable[[Shape], bool], now: int) -> list[int]:
        due = [
            (-key.priority if self.by_priority else 0, place, job)
            for job, (key, place) in self.jobs.items()
            if place <= now and fits(key.shape)
        ]
        return [job for *_, job in sorted(due)]


def check(rack: Rack, plain: Plain, now: int) -> None:
    for fits in ASKERS:
        order = plain.order(fits, now)
        found = rack.first(fits, now)
        assert (found and found[2]) == (order[0] if order else None)
        rack.pass_time(now)
        assert [job for *_, job, _ in rack.order(now, fits)] == order
        for number, job in enumerate(order[:3]):
            assert rack.ahead(*plain.jobs[job], job, now, fits) == number
    due = {key.shape for key, place in plain.jobs.values() if place <= now}
    assert set(rack.ready) == due
    fronts: dict[Key, int] = {}
    for key, place in plain.jobs.values():
        fronts[key] = min(place, fronts.get(key, place))
    assert rack.next_due() == min((place for place in fronts.values() if place > now), default=None)
    assert rack.count == len(plain.jobs)
    if plain.jobs:
        by_place = sorted((place, job) for job, (_, place) in plain.jobs.items())
        assert (rack.oldest_job()[2], rack.newest_job()[2]) == (by_place[0][1], by_place[-1][1])


@drawn(200)
@given(st.booleans(), st.integers(0, 1 << 32), st.integers(1, 80))
def test_a_rack_is_what_a_plain_list_of_jobs_would_be(by_priority: bool, seed: int, steps: int) -> None:
    dice, rack, plain, now = random.Random(seed), Rack(by_priority), Plain(by_priority), 100
    for job in range(steps):
        kind = dice.random()
        if kind < 0.6 or not plain.jobs:
            key = Key(dice.choice(SHAPES), dice.randint(-2, 2), dice.choice((None, "ann")))
            place = now + dice.randint(-50, 20)
            rack.put(key, place, job)
            plain.jobs[job] = (key, place)
        elif kind < 0.7:
            gone = dice.choice(sorted(plain.jobs))
            key, place = plain.jobs.pop(gone)
            assert rack.remove(key, place, gone) and not rack.remove(key, place, gone)
        elif kind < 0.8:
            now += dice.randint(-15, 25)  # the wall clock may be set back
        else:
            found = rack.first(dice.choice(ASKERS), now)
            if found is not None:
                taken, places, _ = rack.pop(found[0], dice.randint(1, 3), now)
                assert taken[0] == found[2]
                for one, place in zip(taken, places, strict=True):
                    assert plain.jobs.pop(one) == (found[0], place)
        check(rack, plain, now)


def test_who_has_not_asked_for_long_is_forgotten_and_starts_anew() -> None:
    standing: dict[str, Standing | None] = {name: (0, number, 0) for number, name in enumerate("abc")}
    fronts: Fronts[str] = Fronts(lambda: standing, standing.__getitem__, lambda one, fits: True)
    assert [fronts.best(fits) for fits in ASKERS] == ["a"] * len(ASKERS)
    for number in range(10_000):
        standing["a"] = (0, number, 1)
        fronts.changed("a")
        assert fronts.best(ASKERS[0]) == ("a" if number == 0 else "b")
    assert len(fronts._askers) == 1
    assert fronts.best(ASKERS[1]) == "b"


# --- cost ------------------------------------------------------------------------------------------------
class Kind:
    """A kind of worker that has one tag, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def fits(self, shape: Shape) -> bool:
        self.asked += 1
        return shape.tags == ("here",)

    def attached(self, path: str) -> bool:
        return True


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
def test_a_thousand_tags_that_no_worker_has_cost_the_others_nothing(discipline: str) -> None:
    """Each is looked at when it comes, and once when somebody asks; not at every choice, put and end."""
    tree, kind, now, count = Tree(), Kind(), 10, 1000
    tree.welcome(kind)
    tree.set(tree.grow("q"), QueueSettings(discipline=discipline), now)
    for number in range(count):
        tree.put(Arrival(number, "q", None, 0, Shape("command", tags=(f"t{number}",)), 1), now)
    for number in range(count, 2 * count):
        tree.put(Arrival(number, "q", None, number % 7, Shape("command", tags=("here",)), 2), now)
    first: Any = tree.choose(kind, now)
    kind.asked = 0
    for _ in range(count // 2):
        queue, offer = first
        tree.take(queue, offer, 1, 1, now)
        tree.release(queue, 1, 1, 1.0, None)
        first = tree.choose(kind, now)
    assert kind.asked < count // 2 * 20 + 4 * count


def test_what_becomes_due_behind_a_front_that_is_due_is_told_of() -> None:
    """Positions and what is next are those of now, also where nothing but time has passed."""
    for name, make in DISCIPLINES.items():
        discipline = make(QueueSettings())
        jobs = [
            Arrival(number, "q", None, 0, SHAPES[0], place) for number, place in enumerate((1, 102, 103, 104))
        ]
        jobs += [
            Arrival(number, "q", None, 0, Shape("command", tags=(f"x{number}",)), 2)
            for number in range(10, 90)
        ]
        for job in jobs:
            discipline.put(job)
        assert len(list(discipline.order(50, 1000))) == 81, name
        assert discipline.ahead(jobs[0], 50) == 0, name
        later = 50 + 2_000_000
        assert len(list(discipline.order(later, 1000))) == 84, name
        assert discipline.ahead(jobs[3], later) == 83, name


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
def test_a_clock_that_was_set_back_is_noticed_with_one_line_too(discipline: str) -> None:
    tree, kind = Tree(), Kind()
    tree.welcome(kind)
    tree.set(tree.grow("q"), QueueSettings(discipline=discipline), 0)
    here = Shape("command", tags=("here",))
    tree.put(Arrival(1, "q", None, 0, here, 5), 6)
    tree.put(Arrival(2, "q", None, 0, here, 11), 11)
    queue, offer = _chosen(tree, kind, 12)
    tree.take(queue, offer, 1, 1, 12)
    tree.pass_time(8)
    assert tree.choose(kind, 8) is None
    tree.pass_time(13)
    assert _chosen(tree, kind, 13)[1].job == 2


def _chosen(tree: Tree, kind: Kind, now: int) -> tuple[Any, Any]:
    found = tree.choose(kind, now)
    assert found is not None
    return found


def test_a_newcomer_is_level_with_those_that_want_the_same_workers() -> None:
    """By seconds; whoever asked last, and whatever flows for other workers have had."""
    cpu, gpu = Shape("command", tags=("cpu",)), Shape("command", tags=("gpu",))
    sfq = DISCIPLINES["sfq"](QueueSettings(discipline="sfq", charge="seconds"))
    for number in range(100):
        sfq.put(Arrival(number, "q", "a", 0, cpu, 1))
        sfq.put(Arrival(1000 + number, "q", "g", 0, gpu, 1))
    for shape, seconds in ((cpu, 2.0), (gpu, 100.0)):
        for _ in range(10):
            offer = sfq.offer(shape.is_like, 9)
            assert offer is not None
            sfq.take(offer, 1, 9)
            run(sfq, offer.flow, seconds)
    sfq.put(Arrival(5000, "q", "h", 0, cpu, 5))
    offer = sfq.offer(cpu.is_like, 9)
    assert offer is not None and offer.flow == "h"


def test_what_all_askers_have_noted_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "MOST_NOTES", 100)
    standing = {number: (0, number, 0) for number in range(20)}
    index: Fronts[int] = Fronts(lambda: standing, standing.get, lambda one, fits: True)
    shapes = [Shape("command", tags=(f"t{number}",)) for number in range(50)]
    assert [index.best(shape.is_like) for shape in shapes] == [0] * 50
    assert len(index.askers()) <= 6
    assert index.best(shapes[0].is_like) == 0
