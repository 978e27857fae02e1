"""What a schedule makes of fires that it finds late."""

from __future__ import annotations

import pytest

from fairway.core.cron import SECOND
from fairway.core.schedules import Missed, Progress, Schedule, decide
from fairway.core.timetable import Every

START = 1_800_000_000 * SECOND


def check(missed: Missed, seconds: int, made: list[int], left_out: int) -> None:
    """After so many seconds that nobody led, of a fire every ten these are made, by their second."""
    schedule = Schedule("s", Every(10 * SECOND, START), missed)
    found = decide(schedule, Progress(seen=START), START + seconds * SECOND)
    assert [(fire - START) // SECOND for fire in found.submits] == made
    assert found.missed == left_out


@pytest.mark.parametrize("missed", [Missed.SKIP, Missed.ONCE])
def test_of_several_fires_within_a_minute_the_latest_is_made(missed: Missed) -> None:
    check(missed, 66, [60], 5)
    check(missed, 15, [10], 0)


def test_all_makes_every_one() -> None:
    check(Missed.ALL, 66, [10, 20, 30, 40, 50, 60], 0)
