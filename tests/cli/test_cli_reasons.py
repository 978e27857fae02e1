"""When somebody who waits is told why: a reason that lasts, once, and not too often."""

from __future__ import annotations

from fairway.cli.reasons import Reasons
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
