"""The suite that every discipline runs: it orders the waiting jobs of one queue, and keeps its books.

A discipline has its own idea of who is next; whatever that is, what it offers is due and fits, `order` is
the order in which offers come, nothing is lost and nothing is served twice. `priority` and `fifo` are
compared with a sorted list besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.discipline import Discipline
from fairway.core.disciplines import DEFAULT, DISCIPLINES
from fairway.core.model import Arrival, QueueSettings, Shape
from tests.drawing import drawn

SHAPES = (Shape("cpu"), Shape("gpu"))
arrivals = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(-2, 2), st.integers(0, 1), st.sampled_from([None, "ann", "bob"])
    ),
    max_size=40,
)
each = pytest.mark.parametrize("name", DISCIPLINES)
NOW = 20
SORTED = ("priority", "fifo")  # the order of two jobs does not depend on others


def filled(name: str, drawn: list[tuple[int, int, int, str | None]]) -> tuple[Discipline, dict[int, Arrival]]:
    """Return a discipline with jobs in it, and the jobs. No two share a place, so that order is plain."""
    discipline, jobs = DISCIPLINES[name](QueueSettings()), dict[int, Arrival]()
    for job, (place, priority, shape, flow) in enumerate(drawn):
        jobs[job] = Arrival(job, "q", flow, priority, SHAPES[shape], place * 100 + job)
        discipline.put(jobs[job])
    return discipline, jobs


def everything(shape: Shape) -> bool:
    return True


def serve(discipline: Discipline, now: int, most: Callable[[int], int] = lambda served: 1) -> list[int]:
    """Take all that is due, in the order of the offers."""
    served: list[int] = []
    while (offer := discipline.offer(everything, now)) is not None:
        together = discipline.take(offer, most(len(served)), now)
        assert together.jobs[0] == offer.job
        assert len(together.jobs) <= most(len(served))
        assert not together.more or offer.shape in discipline.shapes(now)
        served += together.jobs
    return served


@each
@given(drawn=arrivals)
@drawn(60)
def test_all_that_is_due_is_served_once_and_nothing_else(name: str, drawn: list[Any]) -> None:
    discipline, jobs = filled(name, drawn)
    now = NOW * 100
    due = [job.job for job in jobs.values() if job.place <= now]
    assert discipline.due_count(now) == len(due)
    assert bool(discipline.shapes(now)) == bool(due)
    assert sorted(serve(discipline, now, lambda served: 1 + served % 3)) == sorted(due)
    assert len(discipline) == len(jobs) - len(due)
    assert not bool(discipline.shapes(now))
    later = [job.place for job in jobs.values() if job.place > now]
    assert discipline.next_due(now) == min(later, default=None)
    assert discipline.oldest() == min(later, default=None)


@each
@given(drawn=arrivals)
@drawn(60)
def test_the_order_is_told_as_it_will_be(name: str, drawn: list[Any]) -> None:
    discipline, jobs = filled(name, drawn)
    now = NOW * 100
    order = list(discipline.order(now, 1000))
    assert list(discipline.order(now, 3)) == order[:3]
    assert [discipline.ahead(jobs[job], now) for job in order] == list(range(len(order)))
    assert serve(discipline, now) == order


@each
@given(drawn=arrivals, fits=st.sampled_from(SHAPES))
@drawn(60)
def test_what_does_not_fit_is_passed_over_and_loses_nothing(name: str, drawn: list[Any], fits: Shape) -> None:
    discipline, jobs = filled(name, drawn)
    now = NOW * 100
    alone, _ = filled(name, [])
    for job in jobs.values():
        if job.shape == fits:
            alone.put(job)
    served = []
    while (offer := discipline.offer(fits.__eq__, now)) is not None:
        assert offer.shape == fits
        discipline.take(offer, 1, now)
        served.append(offer.job)
    if name in SORTED:
        assert served == list(alone.order(now, 1000))
    assert sorted(served) == sorted(alone.order(now, 1000))
    rest = [job.job for job in jobs.values() if job.shape != fits and job.place <= now]
    assert sorted(serve(discipline, now)) == sorted(rest)


@each
@given(drawn=arrivals, chosen=st.lists(st.integers(0, 40), max_size=10))
@drawn(60)
def test_what_is_removed_is_gone_and_the_rest_keeps_its_order(
    name: str, drawn: list[Any], chosen: list[int]
) -> None:
    discipline, jobs = filled(name, drawn)
    now = 10**6
    order = list(discipline.order(now, 1000))
    for job in {number for number in chosen if number in jobs}:
        elsewhere = jobs[job]._replace(place=jobs[job].place + 1)
        assert not discipline.remove(elsewhere)
        assert discipline.holds(jobs[job]) and not discipline.holds(elsewhere)
        assert discipline.remove(jobs[job])
        assert not discipline.holds(jobs[job])
        assert not discipline.remove(jobs[job])
        order.remove(job)
    assert len(discipline) == len(order)
    served = serve(discipline, now)
    assert served == order if name in SORTED else sorted(served) == sorted(order)


@each
@given(drawn=arrivals)
@drawn(60)
def test_an_offer_changes_nothing_until_it_is_taken(name: str, drawn: list[Any]) -> None:
    discipline, _ = filled(name, drawn)
    now = NOW * 100
    first = discipline.offer(everything, now)
    assert discipline.offer(everything, now) == first
    assert discipline.offer(lambda shape: False, now) is None
    assert len(discipline) == len(drawn)


@each
@given(drawn=arrivals)
@drawn(60)
def test_a_queue_can_change_its_discipline_without_losing_a_job(name: str, drawn: list[Any]) -> None:
    discipline, jobs = filled(name, drawn)
    drained = {arrival.job: arrival for arrival in discipline.drain()}
    assert len(discipline) == 0
    assert discipline.offer(everything, 10**6) is None
    assert {job: one._replace(queue="q") for job, one in drained.items()} == jobs


@each
def test_first_come_first_served_among_equals(name: str) -> None:
    discipline, _ = filled(name, [(place, 0, 0, None) for place in (3, 1, 2, 1)])
    assert serve(discipline, 10**6) == [1, 3, 2, 0]


@each
def test_a_job_put_in_front_is_next(name: str) -> None:
    discipline, jobs = filled(name, [(1, 0, 0, None), (2, 0, 0, None)])
    first = discipline.offer(everything, 10**6)
    assert first is not None
    discipline.take(first, 1, 10**6)
    discipline.put(jobs[first.job])
    assert serve(discipline, 10**6) == [0, 1]


@given(drawn=arrivals)
@drawn(100)
def test_priority_is_a_list_sorted_by_priority_then_place(drawn: list[Any]) -> None:
    discipline, jobs = filled("priority", drawn)
    expected = sorted(jobs, key=lambda job: (-jobs[job].priority, jobs[job].place))
    assert serve(discipline, 10**6, lambda served: 1 + served % 3) == expected


@given(drawn=arrivals)
@drawn(100)
def test_fifo_is_a_list_sorted_by_place(drawn: list[Any]) -> None:
    discipline, jobs = filled("fifo", drawn)
    assert serve(discipline, 10**6) == sorted(jobs, key=lambda job: jobs[job].place)


def test_the_default_is_priority() -> None:
    assert DEFAULT == "priority"
    assert all(make(QueueSettings()).name == name for name, make in DISCIPLINES.items())


@each
@given(drawn=arrivals)
@drawn(60)
def test_due_jobs_are_counted_by_shape(name: str, drawn: list[tuple[int, int, int, str | None]]) -> None:
    discipline, jobs = filled(name, drawn)
    due = [job.shape for job in jobs.values() if job.place <= NOW * 100]
    assert discipline.due_by_shape(NOW * 100) == {shape: due.count(shape) for shape in set(due)}


@each
@given(drawn=arrivals)
@drawn(60)
def test_what_does_not_fit_is_not_ahead(name: str, drawn: list[tuple[int, int, int, str | None]]) -> None:
    discipline, jobs = filled(name, drawn)
    fitting = [job for job in jobs.values() if job.shape is SHAPES[0] and job.place <= NOW * 100]
    ahead = sorted(discipline.ahead(job, NOW * 100, lambda shape: shape is SHAPES[0]) for job in fitting)
    assert ahead == list(range(len(fitting)))
