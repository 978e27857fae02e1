"""How deep a job stands where to count everything would take too long: counted to 1,000, then guessed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.disciplines import DISCIPLINES, make_discipline
from fairway.core.disciplines.foreseen import SAMPLED
from fairway.core.disciplines.looking import spread
from fairway.core.model import Arrival, QueueSettings, Shape
from tests.drawing import drawn

from .fair import SHAPE, FairQueue
from .stage import Stage

COUNTED = 1000


@given(
    backlogs=st.lists(st.sampled_from([1, 20, 200, 900, 2500]), min_size=2, max_size=12),
    weights=st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=12, max_size=12),
    charge=st.sampled_from(["jobs", "seconds"]), served=st.integers(0, 60), seed=st.integers(0, 2**16),
)  # fmt: skip
@drawn(30)
def test_in_a_fair_queue_all_flows_have_come_as_far_as_its_own(
    backlogs: list[int], weights: list[float], charge: str, served: int, seed: int
) -> None:
    names = [f"f{number}" for number in range(len(backlogs))]
    queue = FairQueue(charge=charge, flow_weights=dict(zip(names, weights, strict=False)))
    for name, backlog in zip(names, backlogs, strict=True):
        queue.put(name, backlog)
    queue.serve(served, 1.0 if charge == "seconds" else None)
    order = list(queue.discipline.order(queue.now, 10**6))
    dice = random.Random(seed)
    for position in sorted(dice.sample(range(len(order)), min(len(order), 12))):
        job = order[position]
        found = queue.discipline.ahead(Arrival(job, "q", queue.flow[job], 0, SHAPE, 0), queue.now)
        if position <= COUNTED:
            assert found == position
        else:
            assert found == pytest.approx(position, rel=0.02, abs=8 * len(names))


def deep_in(queue: FairQueue, *depths: float) -> list[tuple[int, int]]:
    """Return where jobs really stand, at these parts of the whole, and what is said of them."""
    order = list(queue.discipline.order(queue.now, 10**6))
    jobs = [(number := int(part * (len(order) - 1)), order[number]) for part in depths]
    return [
        (number, queue.discipline.ahead(Arrival(job, "q", queue.flow[job], 0, SHAPE, 0), queue.now))
        for number, job in jobs
    ]


BACKLOGS = {
    "all alike": [5] * 3000,
    "every second has much": [1, 40] * 512,
    "a few have nearly all": [1] * 3000 + [2000] * 10,
    "all sizes": list(range(1, 400)),
}


@pytest.mark.parametrize("case", BACKLOGS)
def test_of_very_many_flows_some_are_looked_at(case: str) -> None:
    queue = FairQueue(quantum=1)
    for number, backlog in enumerate(BACKLOGS[case]):
        queue.put(f"f{number}", backlog)
    for position, said in deep_in(queue, 0.02, 0.3, 0.5, 0.7, 1.0):
        if position <= COUNTED:
            assert said == position
        else:  # where in a round it stands is not looked at
            assert said == pytest.approx(position, rel=0.05, abs=len(BACKLOGS[case]))


def test_only_what_fits_is_ahead() -> None:
    """Twenty flows have a job that fits each, and very many that do not; one flow has very many that do."""
    discipline, gpu = make_discipline(QueueSettings(discipline="sfq")), Shape("command", tags=("gpu",))
    numbers = iter(range(1, 10**6))
    for number in range(20):
        for shape in (SHAPE, *[gpu] * 300):
            discipline.put(Arrival(next(numbers), "q", f"f{number}", 0, shape, 0))
    mine = [Arrival(next(numbers), "q", "mine", 0, SHAPE, 0) for _ in range(4000)]
    for job in mine:
        discipline.put(job)
    assert discipline.ahead(mine[3000], 0, frozenset({SHAPE}).__contains__) == 3020


SPREADS = {
    "each is of its own kind": (0, 6000),
    "most are of one kind": (6000, 80),
    "all kinds have some": (80, 5920),
}


@pytest.mark.parametrize("case", SPREADS)
@pytest.mark.parametrize("name", sorted(set(DISCIPLINES) - {"sfq"}))
def test_of_very_many_lines_some_are_looked_at(name: str, case: str) -> None:
    """What has a tag of its own is a line of its own."""
    alike, apart = SPREADS[case]
    discipline, dice = make_discipline(QueueSettings(discipline=name)), random.Random(7)
    tags = [("same",)] * alike + [(f"t{number % 3000}",) for number in range(apart)]
    jobs = {
        number: Arrival(number, "q", None, 0, Shape("command", tags=tag), dice.randrange(10**6))
        for number, tag in enumerate(tags, start=1)
    }
    for job in jobs.values():
        discipline.put(job)
    order = list(discipline.order(10**6, 10**6))
    assert len(order) == len(jobs)
    for position in (0, 999, 2500, 4000, len(order) - 1):
        found = discipline.ahead(jobs[order[position]], 10**6)
        assert found == (position if position <= COUNTED else pytest.approx(position, rel=0.2))


@pytest.mark.parametrize("most", [1, 2, 7, 64, 128])
def test_those_looked_at_stand_for_all_of_them_however_many_there_are(most: int) -> None:
    for count in sorted({0, 1, 2, most - 1, most, most + 1, 2 * most - 1, 2 * most, 2 * most + 1, 50 * most}):
        found = spread(range(count), lambda size: size, most)
        assert len(found) == min(count, most)
        assert len({size for size, _ in found}) == len(found)  # none twice
        assert sum(times for _, times in found) == pytest.approx(count)
        assert all(times == 1.0 for _, times in found) or count > most
        largest = range(count - 1, count - 1 - min(count, most // 2), -1)
        assert [size for size, _ in found[: len(largest)]] == list(largest)


@pytest.mark.parametrize("flows", [SAMPLED - 1, SAMPLED, SAMPLED + 1])
def test_a_queue_may_have_just_as_many_flows_as_are_looked_at(flows: int) -> None:
    """A job that comes to so many is looked at, to learn how good what is said of its start would be."""
    stage = Stage()
    stage.join("w")
    stage.set("q", discipline="sfq")
    stage.submit(1, queue="q", flow="f0")
    stage.step()
    stage.finish(1)
    for number in range(1100):
        stage.submit(10 + number, queue="q", flow=f"f{number % flows}")
    stage.step(1.0)
    stage.submit(9, queue="q", flow="f1")
    assert stage.core.world.tree.grow("q").ahead_of(stage.arrivals[9], stage.now.wall) >= 1000
