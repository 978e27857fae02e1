"""When somebody who waits is told why: a reason that lasts, once, and not too often; each failed try once."""

from __future__ import annotations

from typing import Any

from fairway.cli.reasons import Reasons, Tries
from tests.cli.stand_in import job


def check(seen: dict[float, str], said: dict[float, str]) -> None:
    """A job *seen* at these seconds, waiting for a reason or running (""), makes us say *said*."""
    reasons = Reasons(0.0)
    found = {at: reasons.note(waiting(reason, at), at) for at, reason in seen.items()}
    assert {at: text for at, text in found.items() if text} == said


def waiting(reason: str, at: float) -> dict[str, object]:
    """A job that waits for a reason whose words change all the time."""
    return job(waiting={"reason": reason, "detail": f"{reason} at {at:g}", "on": None} if reason else None)


def test_a_short_wait_is_not_worth_a_word() -> None:
    check(seen={1: "busy", 1.9: "busy", 3: ""}, said={})


def test_a_reason_is_said_once_though_its_words_change() -> None:
    check(seen={2: "not_due", 20: "not_due", 40: "not_due"}, said={2: "not_due at 2"})


def test_another_reason_is_said_but_not_within_ten_seconds() -> None:
    check(seen={2: "limit", 7: "paused", 12: "paused"}, said={2: "limit at 2", 12: "paused at 12"})


def test_a_job_that_ran_meanwhile_has_two_seconds_again() -> None:
    check(seen={2: "", 7: "busy", 8: "busy", 9: "busy"}, said={9: "busy at 9"})


ERROR = {"type": "ExitCode", "message": "step 1 'sh' exited with 3"}
DUE = {"reason": "not_due", "detail": "due in 1.3 s", "on": None}
FULL = {"reason": "limit", "detail": "limit of 'acme' is full (1 of 1)", "on": "acme"}


def told(*looks: dict[str, Any]) -> list[str]:
    """What is said of failed tries while a job is seen so, one after the other."""
    tries = Tries()
    return [said for look in looks if (said := tries.note(job(**look)))]


def test_each_failed_try_is_told_once_with_its_error_and_when_the_next_is_due() -> None:
    first = {"tries": 1, "last_error": ERROR, "waiting": DUE}
    second = {"tries": 2, "last_error": ERROR, "state": "running"}
    assert told({"tries": 0}, first, first, second, second) == [
        "try 1 of 10 failed: ExitCode: step 1 'sh' exited with 3; the next is due in 1.3 s",
        "try 2 of 10 failed: ExitCode: step 1 'sh' exited with 3",
    ]


def test_what_else_it_waits_for_and_how_it_ended_are_told_elsewhere() -> None:
    assert told({"tries": 3, "last_error": ERROR, "waiting": FULL, "max_attempts": None}) == [
        "try 3 failed: ExitCode: step 1 'sh' exited with 3"
    ]
    assert told({"tries": 10, "state": "failed"}) == []


def test_after_a_retry_by_hand_tries_are_told_anew() -> None:
    failed = {"tries": 1, "last_error": {"type": "Timeout", "message": ""}}
    assert told(failed, {"tries": 0}, failed) == ["try 1 of 10 failed: Timeout"] * 2
