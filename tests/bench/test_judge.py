"""The judge of replays, on hand-made ones: it must be able to say that something is unfair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from bench.fairness.judge import FINE, Verdict, judge, total
from bench.fairness.oracle import pour
from bench.fairness.starvation import stretches
from bench.fairness.work import Job, Load, Run


def ran(order: str, slots: int = 1, seconds: Mapping[str, float] | None = None) -> list[Run]:
    """Run jobs that all came at the start, as slots are free; users are letters, a dot is a pause."""
    free, runs = [0.0] * slots, []
    for number, user in enumerate(order, 1):
        at = min(free)
        took = (seconds or {}).get(user, 1.0)
        free[free.index(at)] = at + took
        if user != ".":
            runs.append(Run(Job(number, user, 0.0, took), at))
    return runs


def judged(
    runs: Sequence[Run], slots: int = 1, weights: Mapping[str, float] | None = None, jobs: float = 0.0
) -> Verdict:
    """Judge runs by windows of ten mean job times."""
    return judge(load_of(runs, slots, weights), runs, jobs=jobs)


def load_of(runs: Sequence[Run], slots: int = 1, weights: Mapping[str, float] | None = None) -> Load:
    return Load("by hand", [run.job for run in runs], slots, weights or {})


# --- the fluid ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wants", "slots", "level"),
    [
        ([(9, 1.0), (9, 1.0)], 4, 2.0),
        ([(1, 1.0), (9, 1.0)], 4, 3.0),  # what one does not want is the other's
        ([(9, 1.0), (9, 3.0)], 4, 1.0),
        ([(1, 1.0), (9, 1.0), (9, 2.0)], 7, 2.0),
        ([(1, 1.0), (2, 1.0)], 4, float("inf")),  # there is more than anybody wants
    ],
)
def test_slots_are_poured_by_weight_to_those_that_want_them(
    wants: list[tuple[int, float]], slots: int, level: float
) -> None:
    assert pour(wants, slots) == level


# --- windows -----------------------------------------------------------------------------------------------
def test_turns_are_fair() -> None:
    found = judged(ran("ab" * 30))
    assert (found.windows, found.below_90, found.least, found.over) == (10, 0, 1.0, 0)


def test_one_after_the_other_is_not() -> None:
    """While a's jobs last, b has nothing in each window and a twice its share; then b is alone."""
    found = judged(ran("a" * 30 + "b" * 30))
    assert (found.windows, found.below_90, found.below_half, found.least) == (7, 3, 3, 0.0)


def test_a_little_less_than_the_share_is_told_from_half_of_it() -> None:
    found = judged(ran("aaaaaabbbb" * 10))
    assert (found.below_90, found.below_half, found.least) == (9, 0, pytest.approx(0.8))


def test_weights_are_what_is_fair() -> None:
    assert judged(ran("aaab" * 30), weights={"a": 3.0}).least > 0.75
    assert judged(ran("aaab" * 30)).below_90 == 11
    assert judged(ran("ab" * 30), weights={"a": 3.0}).least == pytest.approx(2 / 3)


def test_a_user_that_has_nothing_waiting_is_not_counted() -> None:
    """Of b's one job nothing waits, so it is not backlogged; a has all the rest."""
    found = judged(ran("b" + "a" * 39))
    assert (found.windows, found.below_90) == (3, 0)


def test_windows_go_on_until_they_are_worth_enough_jobs() -> None:
    """Five jobs a window are turns of two, by which a window may miss a tenth; 25 jobs by a fiftieth."""
    runs = ran("aabb" * 50)
    assert judged(runs).least == pytest.approx(0.8)
    assert judged(runs, jobs=FINE).least >= 0.95
    assert judged(runs, jobs=FINE).windows < judged(runs).windows / 4


def test_parts_are_of_all_windows_of_several_replays() -> None:
    both = total([judged(ran("ab" * 30)), judged(ran("a" * 30 + "b" * 30))])
    assert (both.windows, both.below_half, both.least) == (17, 3, 0.0)
    assert both.part_below_half == 3 / 17


# --- slots that are idle, and waits ------------------------------------------------------------------------
def test_a_slot_is_idle_only_while_something_waits() -> None:
    assert judged(ran("ab" * 30)).idle == 0.0
    assert judged(ran("ab..ab")).idle == 2.0
    assert judged(ran("ab"), slots=4).idle == 3.0 + 0.0


def test_the_mean_wait_is_in_mean_job_times() -> None:
    assert judged(ran("aaa", seconds={"a": 60.0})).mean_wait == 1.0


# --- stretches ---------------------------------------------------------------------------------------------
def test_who_is_served_in_turn_is_not_starved() -> None:
    runs = ran("abc" * 20)
    found = list(stretches(load_of(runs), runs))
    assert max(one.seconds for one in found) == 2.0
    assert max(one.over for one in found) <= 0.0


def test_who_is_served_last_of_all_is() -> None:
    """While 20 of a run, b waits: it may for the first one and two turns of a."""
    runs = ran("a" * 20 + "b" * 5)
    (found,) = stretches(load_of(runs), runs)
    assert (found.user, found.seconds, found.may, found.over) == ("b", 20.0, 3.0, 17.0)
    verdict = judged(runs)
    assert (verdict.unserved, verdict.over, verdict.most_over) == (20.0, 1, 17.0)


def test_a_long_attempt_that_runs_already_is_waited_for() -> None:
    """It counts as what runs at the start and as a's turn; a second one would be too much, a fourth is."""
    runs = ran("ab", seconds={"a": 100.0})
    assert judged(runs).over == 0
    assert judged(ran("aaab", seconds={"a": 100.0})).over == 0
    assert judged(ran("aaaab", seconds={"a": 100.0})).over == 1


def test_the_turns_of_many_siblings_are_shared_by_the_slots() -> None:
    runs = ran("cdefghijb" + "cdefghij", slots=2, seconds={"b": 2.0})
    found = {one.user: one for one in stretches(load_of(runs, 2), runs) if one.begin == 0.0}
    assert found["b"].seconds == 4.0
    assert found["b"].may == 1.0 + 2 * 8 / 2


def test_a_sibling_with_more_weight_has_longer_turns() -> None:
    runs = ran("a" * 9 + "b")
    assert judged(runs).over == 1
    assert judged(runs, weights={"a": 4.0}).over == 0
    assert judged(runs, weights={"a": 4.0, "b": 4.0}).over == 1
    assert judged(runs, weights={"b": 4.0}).most_over == judged(runs).most_over
