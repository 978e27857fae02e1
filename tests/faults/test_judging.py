"""The checker is itself checked: each kind of harm, planted, is found; a good run is not blamed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.faults.judging import NEVER, SECOND, Outage, Run, Verdict, comebacks, judge, silence_after
from tests.faults.load import Accepted

ONCE = {"task": "tests.faults.tasks.work", "args": [0], "delivery": "at_most_once"}
AGAIN = {"task": "tests.faults.tasks.work", "args": [0]}


def run(job: str, start: int, end: int = NEVER, attempt: int = 1, worker: str = "w1") -> Run:
    return Run(job, attempt, "load/q1", worker, start, end)


def ended(state: str = "succeeded", delivery: str = "at_least_once") -> dict[str, Any]:
    return {"state": state, "delivery": delivery, "outcome": None, "max_attempts": 10, "tries": 0}


def judged(spec: dict[str, Any], final: dict[str, Any] | None, *runs: Run, outages: Any = ()) -> Verdict:
    """Judge one accepted job, `a`."""
    states = {} if final is None else {"a": final}
    return judge({"a": Accepted(spec, 0)}, states, list(runs), list(outages))


def test_a_good_run_is_clean() -> None:
    assert judged(AGAIN, ended(), run("a", 1, 2)).is_clean


def test_a_job_that_is_not_there_or_never_ended_is_lost() -> None:
    assert judged(AGAIN, None).lost
    assert judged(AGAIN, ended("running"), run("a", 1)).lost


def test_a_success_that_nobody_saw_is_lost() -> None:
    assert judged(AGAIN, ended(), run("a", 1)).lost


def test_an_at_most_once_job_that_started_twice_is_doubled() -> None:
    once = ended(delivery="at_most_once")
    assert judged(ONCE, once, run("a", 1, 2), run("a", 3, 4, attempt=2)).doubled
    assert judged(ONCE, once, run("a", 1, 2), run("a", 3, 4)).doubled


def test_two_live_attempts_of_a_job_are_doubled_unless_its_worker_was_gone() -> None:
    runs = run("a", 1, 5), run("a", 3, 4, attempt=2, worker="w2")
    assert judged(AGAIN, ended(), *runs).doubled
    assert judged(AGAIN, ended(), *runs, outages=[Outage("w1", 2)]).is_clean


def test_more_runs_than_the_limit_are_over_it_unless_a_worker_was_gone() -> None:
    runs = run("a", 1, 5), run("b", 3, 4, worker="w2")
    assert judged(AGAIN, ended(), *runs).over_limit
    assert not judged(AGAIN, ended(), *runs, outages=[Outage("w1", 2)]).over_limit


def test_what_starts_long_after_a_thaw_counts_again() -> None:
    outages = [Outage("w1", 1, 2)]
    soon = run("a", 3, SECOND), run("b", 4, 5, worker="w2")
    late = run("a", 2 * SECOND, NEVER), run("b", 3 * SECOND, 4 * SECOND, worker="w2")
    assert not judged(AGAIN, ended(), *soon, outages=outages).over_limit
    assert judged(AGAIN, ended(), *late, outages=outages).over_limit


def test_unknown_needs_a_harmed_worker_and_at_most_once() -> None:
    unknown = ended("unknown", "at_most_once")
    assert judged(ONCE, unknown, run("a", 1)).wrong
    assert judged(ONCE, unknown, run("a", 1), outages=[Outage("w1", 2)]).is_clean
    assert judged(AGAIN, ended("unknown"), run("a", 1), outages=[Outage("w1", 2)]).wrong


def test_the_silence_after_a_fault_and_the_comeback_are_measured() -> None:
    seconds = [
        run("a", 8),
        run("b", 12),
        run("a", 25, 26, attempt=2, worker="w2"),
        run("c", 30),
        run("d", 31),
    ]
    runs = [replace(each, start=each.start * SECOND) for each in seconds]
    assert silence_after(runs, 10 * SECOND, 100 * SECOND) == 15 * SECOND
    assert silence_after(runs, 30 * SECOND + 1, 31 * SECOND + 2) == SECOND - 1
    assert silence_after(seconds, 10, 100) == 0
    assert comebacks(runs, Outage("w1", 9 * SECOND)) == [16 * SECOND]


def test_a_comeback_that_was_held_up_by_another_loss_of_its_queue_counts_from_that_one() -> None:
    seconds = [
        run("a", 8, NEVER),
        run("b", 20, NEVER, worker="w2"),
        replace(run("c", 21, NEVER, worker="w3"), queue="another"),
        run("a", 31, 32, attempt=2, worker="w4"),
    ]
    runs = [replace(each, start=each.start * SECOND) for each in seconds]
    first, second, third = (Outage(f"w{n}", at * SECOND) for n, at in ((1, 9), (2, 22), (3, 23)))
    assert comebacks(runs, first, [first, third]) == [22 * SECOND]
    assert comebacks(runs, first, [first, second, third]) == [9 * SECOND]
