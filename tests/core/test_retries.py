"""What follows when an attempt has ended: the full table, and the bounds of the wait."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.lifecycle import State, Trigger, advance
from fairway.core.model import Ledger, Reason, Rules
from fairway.core.retries import MICRO, backoff, describe, judge, note, recent

NOW = 1_800_000_000_000_000
DAY = 86_400.0
KINDS = (
    "error", "timeout", "retry_after", "permanent", "crashed", "lost", "handed_back", "stopped", "cancelled",
)  # fmt: skip
FRESH, LAST = Ledger(), Ledger(tries=9, crashes=2)


def check(
    kind: str, ledger: Ledger, trigger: Trigger, reason: Reason | None, *, once: bool = False,
    cancelling: bool = False, rules: Rules | None = None,
) -> Ledger:  # fmt: skip
    """Judge one end of an attempt; return the ledger that follows."""
    judgement = judge(
        kind, rules or Rules(), ledger, once=once, cancelling=cancelling, now=NOW, window=DAY
    )  # fmt: skip
    assert (judgement.trigger, judgement.reason) == (trigger, reason)
    return judgement.ledger


@pytest.mark.parametrize(
    ("kind", "ledger", "trigger", "reason", "after"),
    [
        ("ok", FRESH, Trigger.SUCCEED, None, FRESH),
        ("error", FRESH, Trigger.RETRY, None, Ledger(tries=1)),
        ("error", LAST, Trigger.FAIL, Reason.MAX_ATTEMPTS, Ledger(10, 2)),
        ("timeout", FRESH, Trigger.RETRY, None, Ledger(tries=1)),
        ("timeout", LAST, Trigger.FAIL, Reason.TIMEOUT, Ledger(10, 2)),
        ("retry_after", FRESH, Trigger.RETRY, None, Ledger(tries=1)),
        ("retry_after", LAST, Trigger.FAIL, Reason.MAX_ATTEMPTS, Ledger(10, 2)),
        ("permanent", FRESH, Trigger.FAIL, Reason.PERMANENT, Ledger(tries=1)),
        ("crashed", FRESH, Trigger.LOSE, None, Ledger(crashes=1)),
        ("crashed", LAST, Trigger.CRASH_OUT, Reason.CRASHED, Ledger(9, 3)),
        ("lost", FRESH, Trigger.LOSE, None, Ledger(losses=(NOW,))),
        ("lost", LAST, Trigger.CRASH_OUT, Reason.CRASHED, Ledger(9, 2, (NOW,))),
        ("handed_back", LAST, Trigger.HAND_BACK, None, LAST),
        ("stopped", LAST, Trigger.HAND_BACK, None, LAST),
        ("cancelled", LAST, Trigger.HAND_BACK, None, LAST),
    ],
)
def test_an_at_least_once_job(
    kind: str, ledger: Ledger, trigger: Trigger, reason: Reason | None, after: Ledger
) -> None:
    assert check(kind, ledger, trigger, reason) == after


@pytest.mark.parametrize(
    ("kind", "trigger", "reason"),
    [
        ("ok", Trigger.SUCCEED, None),
        ("error", Trigger.FAIL, Reason.MAX_ATTEMPTS),
        ("timeout", Trigger.FAIL, Reason.TIMEOUT),
        ("retry_after", Trigger.FAIL, Reason.MAX_ATTEMPTS),
        ("permanent", Trigger.FAIL, Reason.PERMANENT),
        ("crashed", Trigger.CRASH_OUT, Reason.CRASHED),
        ("lost", Trigger.LOSE_TRACK, Reason.LOST),
        ("handed_back", Trigger.HAND_BACK, None),
        ("stopped", Trigger.FAIL, Reason.STOPPED),
        ("cancelled", Trigger.FAIL, Reason.STOPPED),
    ],
)
def test_an_at_most_once_job_runs_again_only_if_it_never_started(
    kind: str, trigger: Trigger, reason: Reason | None
) -> None:
    check(kind, FRESH, trigger, reason, once=True, rules=Rules(max_attempts=1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_was_asked_to_stop_is_cancelled_however_it_ended(kind: str) -> None:
    assert check(kind, LAST, Trigger.CANCEL, Reason.CANCELLED, cancelling=True) == LAST


def test_a_job_that_was_asked_to_stop_may_still_succeed() -> None:
    check("ok", FRESH, Trigger.SUCCEED, None, cancelling=True)


def test_nobody_knows_whether_a_lost_at_most_once_job_was_stopped_in_time() -> None:
    check("lost", FRESH, Trigger.LOSE_TRACK, Reason.LOST, once=True, cancelling=True)


def test_without_a_bound_a_job_is_tried_for_ever() -> None:
    check("error", Ledger(tries=10_000), Trigger.RETRY, None, rules=Rules(max_attempts=None))
    check("crashed", Ledger(crashes=10_000), Trigger.LOSE, None, rules=Rules(max_crashes=None))


def test_lost_workers_count_for_a_day_only() -> None:
    old, new = NOW - int(25 * 3600 * MICRO), NOW - int(23 * 3600 * MICRO)
    assert check("lost", Ledger(losses=(old, old)), Trigger.LOSE, None).losses == (NOW,)
    check("lost", Ledger(losses=(new, new)), Trigger.CRASH_OUT, Reason.CRASHED)
    check("crashed", Ledger(losses=(old, new)), Trigger.LOSE, None)
    check("crashed", Ledger(losses=(new, new)), Trigger.CRASH_OUT, Reason.CRASHED)


@given(st.sampled_from(KINDS), st.booleans(), st.booleans(), st.integers(1, 5), st.integers(1, 5))
def test_no_ledger_exceeds_its_bounds(
    kind: str, once: bool, cancelling: bool, attempts: int, crashes: int
) -> None:
    """Whatever happens again and again, tries and crashes stop at their bounds and the job ends."""
    rules, ledger, state, rounds = Rules(attempts, crashes), Ledger(), State.RUNNING, 0
    while state is State.RUNNING and rounds < 20:
        rounds += 1
        judgement = judge(kind, rules, ledger, once=once, cancelling=cancelling, now=NOW, window=DAY)
        ledger, state = judgement.ledger, advance(state, judgement.trigger)
        assert (judgement.reason is None) == (state in (State.SCHEDULED, State.QUEUED))
        assert ledger.tries <= attempts
        assert once or ledger.crashes + len(ledger.losses) <= crashes
        state = State.RUNNING if state in (State.SCHEDULED, State.QUEUED) else state
    free = kind in ("handed_back", "stopped", "cancelled") and not cancelling
    assert state is not State.RUNNING or free


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True), st.floats(0.01, 100), st.floats(0.01, 1e5))
def test_the_wait_doubles_up_to_its_bound_and_is_spread_by_a_quarter(
    tries: int, luck: float, first: float, most: float
) -> None:
    rules = Rules(retry_first=first, retry_max=most)
    wait = backoff(rules, tries, luck)
    plain = min(first * 2.0 ** min(tries - 1, 60), most)
    assert plain <= wait <= plain * 1.25
    assert backoff(rules, tries + 1, luck) >= wait or wait >= most


def test_the_default_waits() -> None:
    assert [backoff(Rules(), tries, 0.0) for tries in (1, 2, 3, 12, 13, 100)] == [1, 2, 4, 2048, 3600, 3600]


def test_a_task_may_name_its_own_wait() -> None:
    judgement = judge(
        "retry_after", Rules(), FRESH, once=False, cancelling=False, now=NOW, window=DAY, retry_after=7.5
    )
    assert judgement.delay == 7.5


def test_recent_losses_are_those_within_the_window() -> None:
    assert recent((NOW - 2 * MICRO, NOW - MICRO, NOW), NOW, 2.0) == (NOW - MICRO, NOW)


@pytest.mark.parametrize("body", [b"", b"{}", b" { } ", b'{"type":"E"}', note("Lost", 'a "quoted" word')])
def test_an_error_object_has_its_reason_in_front(body: bytes) -> None:
    described = json.loads(describe(Reason.LOST, body))
    assert described == {"reason": "lost", **(json.loads(body) if body else {})}
