"""The suite that every discipline passes. In a package of your own:

    class TestLottery(DisciplineSuite):
        make = Lottery

Whatever a discipline's idea of who is next is, what it offers is due and fits, `order` is the order in which
offers come, a look changes nothing, nothing is lost and nothing is served twice. Drawn from seeds, so a
failure can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from fairway.core.discipline import Discipline, Look, Still
from fairway.core.model import SLOT, Alike, Arrival, QueueSettings, Shape

SHAPES = (Shape("cpu"), Shape("gpu"))
BEFORE, NOW = -1, 2_000
SEEDS = range(200)


class DisciplineSuite:
    """Tests by any runner that calls methods named `test_…`; each raises AssertionError."""

    make: ClassVar[Any]  # called with QueueSettings, returns a Discipline
    settings: ClassVar[QueueSettings] = QueueSettings()

    def test_all_that_is_due_is_served_once_and_nothing_else(self) -> None:
        for discipline, jobs, dice in self._drawn():
            due = [job.job for job in jobs.values() if job.place <= NOW]
            assert discipline.due_count(NOW) == len(due)
            assert bool(discipline.shapes(NOW)) == bool(due)
            assert sorted(serve(discipline, dice)) == sorted(due)
            assert len(discipline) == len(jobs) - len(due)
            assert not discipline.shapes(NOW)

    def test_the_shapes_are_those_of_which_something_is_offered(self) -> None:
        for discipline, _, _ in self._drawn():
            for shape in SHAPES:
                offer = discipline.offer(shape.__eq__, NOW)
                assert (offer is not None) == (shape in discipline.shapes(NOW))
                assert offer is None or offer.shape == shape

    def test_an_offer_changes_nothing_until_it_is_taken(self) -> None:
        for discipline, jobs, _ in self._drawn():
            first = discipline.offer(everything, NOW)
            assert discipline.offer(everything, NOW) == first
            assert discipline.offer(lambda shape: False, NOW) is None
            assert len(discipline) == len(jobs)

    def test_the_order_is_told_as_it_will_be(self) -> None:
        for discipline, jobs, _ in self._drawn():
            order = list(discipline.order(NOW, 1000))
            assert list(discipline.order(NOW, 3)) == order[:3]
            assert [discipline.ahead(jobs[job], NOW) for job in order] == list(range(len(order)))
            for shape in SHAPES:
                alone = list(discipline.order(NOW, 1000, shape.__eq__))
                assert sorted(alone) == sorted(job for job in order if jobs[job].shape == shape)
                assert list(discipline.order(NOW, 3, shape.__eq__)) == alone[:3]
                ahead = [discipline.ahead(jobs[job], NOW, shape.__eq__) for job in alone]
                assert ahead == list(range(len(alone)))
            assert serve(discipline) == order

    def test_a_look_changes_nothing(self) -> None:
        for (alone, jobs, _), (looked_at, _, _) in zip(self._drawn(), self._drawn(), strict=True):
            for now in (NOW // 2, NOW):
                for ahead in (0, 300, -300, 10 * NOW):
                    look(looked_at, jobs, now + ahead)
                assert set(looked_at.shapes(now)) == set(alone.shapes(now))
                assert looked_at.next_due(now) == alone.next_due(now)
                for _ in range(3):
                    offer = alone.offer(everything, now)
                    same = looked_at.offer(everything, now)
                    assert (offer and offer[:5]) == (same and same[:5])
                    if offer is not None and same is not None:
                        assert alone.take(offer, 1, now) == looked_at.take(same, 1, now)
                        if alone.by_seconds:
                            alone.hold(offer.flow, SLOT)
                            looked_at.hold(offer.flow, SLOT)
                    look(looked_at, jobs, now + 300)
            assert serve(alone) == serve(looked_at)

    def test_what_is_due_later_is_told_as_it_will_be(self) -> None:
        for (early, jobs, _), (late, _, _) in zip(self._drawn(), self._drawn(), strict=True):
            early.shapes(BEFORE)  # so far time has passed here
            late.shapes(NOW)
            assert early.due_count(NOW) == late.due_count(NOW)
            assert early.due_by_shape(NOW) == late.due_by_shape(NOW)
            assert sorted(early.order(NOW, 1000)) == sorted(late.order(NOW, 1000))
            ahead = [early.ahead(jobs[job], NOW) for job in early.order(NOW, 1000)]
            assert ahead == list(range(len(ahead)))
            # And if the wall clock was set back since time passed.
            assert late.due_count(BEFORE) == 0 and not late.due_by_shape(BEFORE)
            assert list(late.order(BEFORE, 1000)) == []

    def test_what_attempts_hold_and_wait_for_is_taken_and_loses_nothing(self) -> None:
        for discipline, jobs, _ in self._drawn():
            if not discipline.by_seconds:
                return
            discipline.pace = pace = Still(1.0)  # type: ignore[attr-defined]
            flows = []
            while offer := discipline.offer(everything, NOW):
                discipline.take(offer, 1, NOW)
                discipline.hold(offer.flow, SLOT)
                discipline.wait(offer.flow, SLOT, 0.0)
                flows.append(offer.flow)
            pace.mono = 2.0
            for flow in flows:
                discipline.wait(flow, -SLOT, 0.5)
                discipline.release(flow, SLOT, 0.5)
            assert len(discipline) == sum(job.place > NOW for job in jobs.values())

    def test_what_does_not_fit_takes_no_room_in_the_order(self) -> None:
        discipline: Discipline = type(self).make(self.settings)
        jobs = [Arrival(n, "q", f"f{n}", 0, SHAPES[n >= 10], n) for n in range(13)]
        for job in jobs:
            discipline.put(job)
        told = list(discipline.order(NOW, 3, SHAPES[1].__eq__))
        assert sorted(told) == [10, 11, 12]
        assert [discipline.ahead(jobs[job], NOW, SHAPES[1].__eq__) for job in told] == [0, 1, 2]

    def test_what_is_removed_is_gone_and_nothing_else(self) -> None:
        for discipline, jobs, dice in self._drawn():
            for job in dice.sample(sorted(jobs), len(jobs) // 3):
                elsewhere = jobs[job]._replace(place=jobs[job].place + 1)
                assert not discipline.remove(elsewhere) and not discipline.holds(elsewhere)
                assert discipline.holds(jobs[job]) and discipline.remove(jobs[job])
                assert not discipline.holds(jobs[job]) and not discipline.remove(jobs.pop(job))
            due = [job.job for job in jobs.values() if job.place <= NOW]
            assert sorted(serve(discipline)) == sorted(due)

    def test_a_job_that_comes_back_is_served_again(self) -> None:
        for discipline, jobs, _ in self._drawn():
            offer = discipline.offer(everything, NOW)
            if offer is not None:
                assert discipline.take(offer, 1, NOW).jobs == [offer.job]
                discipline.put(jobs[offer.job])
                assert offer.job in serve(discipline)

    def test_what_is_not_due_is_not_overslept(self) -> None:
        for discipline, jobs, _ in self._drawn():
            serve(discipline)
            later = [job.place for job in jobs.values() if job.place > NOW]
            assert discipline.oldest() == min(later, default=None)
            upcoming = discipline.next_due(NOW)
            assert (upcoming is None) == (not later)
            assert upcoming is None or upcoming <= min(later)

    def test_all_jobs_are_given_up_whole(self) -> None:
        for discipline, jobs, _ in self._drawn():
            drained = {arrival.job: arrival._replace(queue="q") for arrival in discipline.drain()}
            assert drained == jobs
            assert len(discipline) == 0 and discipline.offer(everything, NOW) is None

    def test_other_settings_cost_no_job(self) -> None:
        wanted = replace(self.settings, quantum=7, flow_weights={"ann": 3.0}, capacity=1000)
        for discipline, jobs, _ in self._drawn():
            if discipline.adapt(wanted):
                due = [job.job for job in jobs.values() if job.place <= NOW]
                assert sorted(serve(discipline)) == sorted(due)
                assert len(discipline) == len(jobs) - len(due)

    def test_jobs_that_are_alike_come_at_one_stroke_or_not_at_all(self) -> None:
        for discipline, jobs, dice in self._drawn():
            put_alike = getattr(discipline, "put_alike", None)
            for group in groups_of(jobs.values()) if put_alike is not None else ():
                assert put_alike is not None and not put_alike([group])  # they are here already
                assert all(discipline.remove(arrival) for arrival in group.arrivals())
                if not put_alike([group]):  # others may stand between them
                    for arrival in group.arrivals():
                        discipline.put(arrival)
            due = [job.job for job in jobs.values() if job.place <= NOW]
            assert sorted(serve(discipline, dice)) == sorted(due)
            assert len(discipline) == len(jobs) - len(due)

    def _drawn(self) -> Iterator[tuple[Discipline, dict[int, Arrival], random.Random]]:
        """Yield disciplines with drawn jobs in them, the jobs, and the dice."""
        for seed in SEEDS:
            dice, jobs = random.Random(seed), dict[int, Arrival]()
            discipline: Discipline = type(self).make(self.settings)
            for number in range(dice.randint(0, 30)):
                place = dice.randint(0, 40) * 100 + number
                flow, shape = dice.choice((None, "ann", "bob")), dice.choice(SHAPES)
                jobs[number] = Arrival(number, "q", flow, dice.randint(-2, 2), shape, place)
                discipline.put(jobs[number])
            yield discipline, jobs, dice


def groups_of(jobs: Iterable[Arrival]) -> list[Alike]:
    """Put jobs without extras together that stand in one line, in its order."""
    groups: dict[tuple[str, str | None, int, Shape], list[Arrival]] = {}
    for job in sorted(jobs, key=lambda job: (job.place, job.job)):
        if job.extras is None:
            groups.setdefault(job[1:5], []).append(job)
    return [
        Alike(*common, [job.job for job in group], [job.place for job in group])
        for common, group in groups.items()
    ]


def everything(shape: Shape) -> bool:
    """Fit every shape."""
    return True


def look(discipline: Look, jobs: Mapping[int, Arrival], now: int) -> None:
    """Ask all that can be asked."""
    discipline.due_count(now), discipline.due_by_shape(now), discipline.oldest(), len(discipline)
    for fits in (None, everything, SHAPES[0].__eq__):
        for job in list(discipline.order(now, 5, fits)):
            discipline.ahead(jobs[job], now, fits)
    for arrival in jobs.values():
        if discipline.holds(arrival) and arrival.place <= now:
            discipline.ahead(arrival, now)
    discipline.refusal({"ann": 1})


def serve(discipline: Discipline, dice: random.Random | None = None) -> list[int]:
    """Take all that is due, in the order of the offers; one by one, or by the dice a few at a time."""
    served: list[int] = []
    while (offer := discipline.offer(everything, NOW)) is not None:
        assert offer.place <= NOW
        together = discipline.take(offer, dice.randint(1, 3) if dice is not None else 1, NOW)
        assert together.jobs[0] == offer.job and len(together.jobs) == len(together.places)
        assert not together.more or offer.shape in discipline.shapes(NOW)
        served += together.jobs
    return served
