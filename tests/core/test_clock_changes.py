"""Every clock change of 2026 and 2027 in 20 zones: what fires around it, against a walk minute by minute.

The walk knows nothing of the code under test: it goes over UTC, reads the local clock, and keeps a list of
what it has shown and left out. The changes themselves are found in the zone data.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from fairway.core.cron import read_cron
from fairway.core.timetable import next_fire

ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "America/Havana", "America/Los_Angeles", "America/New_York",
    "America/Nuuk", "America/Santiago", "America/St_Johns", "Antarctica/Troll", "Asia/Beirut",
    "Asia/Jerusalem", "Atlantic/Azores", "Australia/Adelaide", "Australia/Lord_Howe", "Australia/Sydney",
    "Europe/Berlin", "Europe/Dublin", "Europe/London", "Pacific/Auckland", "Pacific/Chatham",
)  # fmt: skip
MINUTE = timedelta(minutes=1)
BEFORE, BEHIND = timedelta(hours=30), timedelta(hours=30)


class Line(NamedTuple):
    """An expression, and what it means said a second time."""

    text: str
    names: Callable[[datetime], bool]
    is_rhythm: bool


LINES = (
    Line("* * * * *", lambda at: True, True),
    Line("*/15 * * * *", lambda at: at.minute in (0, 15, 30, 45), True),
    Line("@hourly", lambda at: at.minute == 0, True),
    Line("20,50 * * * *", lambda at: at.minute in (20, 50), True),
    Line("* 2 * * *", lambda at: at.hour == 2, True),
    Line("@daily", lambda at: (at.hour, at.minute) == (0, 0), False),
    Line("30 0 * * *", lambda at: (at.hour, at.minute) == (0, 30), False),
    Line("30 1 * * *", lambda at: (at.hour, at.minute) == (1, 30), False),
    Line("15,45 1,2,3 * * *", lambda at: at.hour in (1, 2, 3) and at.minute in (15, 45), False),
    Line("0 2 * * *", lambda at: (at.hour, at.minute) == (2, 0), False),
    Line("30 2 * * *", lambda at: (at.hour, at.minute) == (2, 30), False),
    Line("0 3 * * *", lambda at: (at.hour, at.minute) == (3, 0), False),
    Line("59 23 * * *", lambda at: (at.hour, at.minute) == (23, 59), False),
    Line("30 23 * * *", lambda at: (at.hour, at.minute) == (23, 30), False),
    Line("0 */2 * * *", lambda at: at.hour % 2 == 0 and at.minute == 0, False),
    Line("*/20 2 * * sun", lambda at: (at.weekday(), at.hour) == (6, 2) and at.minute % 20 == 0, False),
    Line("0 1 1-31/2 * *", lambda at: (at.hour, at.minute) == (1, 0) and at.day % 2 == 1, False),
)  # fmt: skip


def find_changes(zone: ZoneInfo) -> list[datetime]:
    """Return the first minute behind every change of the clock in both years."""
    changes = []
    hour = datetime(2026, 1, 1, tzinfo=UTC)
    while hour.year < 2028:
        later = hour + timedelta(hours=1)
        if hour.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            old = hour.astimezone(zone).utcoffset()
            while hour.astimezone(zone).utcoffset() == old:
                hour += MINUTE
            changes.append(hour)
        hour = later
    return changes


class Tick(NamedTuple):
    """One minute: what the clock shows, whether it showed so before, and what it has just left out."""

    at: datetime
    shows: datetime
    again: bool
    left_out: list[datetime]


def walk(change: datetime, zone: ZoneInfo) -> list[Tick]:
    """Go minute by minute through the hours around a change."""
    ticks: list[Tick] = []
    seen: set[datetime] = set()
    at = change - BEFORE
    before = (at - MINUTE).astimezone(zone).replace(tzinfo=None)
    while at <= change + BEHIND:
        shows = at.astimezone(zone).replace(tzinfo=None)
        left_out = []
        while before + MINUTE < shows:
            before += MINUTE
            left_out.append(before)
        ticks.append(Tick(at, shows, shows in seen, left_out))
        seen.add(shows)
        before = shows
        at += MINUTE
    return ticks


def expected(line: Line, ticks: list[Tick]) -> list[datetime]:
    """Return when the line fires, as the walk sees it."""
    if line.is_rhythm:
        return [tick.at for tick in ticks if line.names(tick.shows)]
    return [
        tick.at
        for tick in ticks
        if (line.names(tick.shows) and not tick.again) or any(map(line.names, tick.left_out))
    ]


def got(text: str, zone: str, first: datetime, last: datetime) -> list[datetime]:
    """Return when the code under test fires from *first* to *last*."""
    cron, epoch = read_cron(text, zone), datetime(1970, 1, 1, tzinfo=UTC)
    found = []
    after = (first - epoch) // timedelta(microseconds=1) - 1
    while True:
        fire = next_fire(cron, after)
        assert fire is not None and fire > after
        moment = epoch + timedelta(microseconds=fire)
        if moment > last:
            return found
        found.append(moment)
        after = fire


@pytest.mark.parametrize("name", ZONES)
def test_what_fires_around_every_change(name: str) -> None:
    zone = ZoneInfo(name)
    changes = find_changes(zone)
    assert len(changes) >= 4, "a zone that changes its clock twice a year"
    for change in changes:
        ticks = walk(change, zone)
        for line in LINES:
            wanted = expected(line, ticks)
            assert got(line.text, name, ticks[0].at, ticks[-1].at) == wanted, (line.text, change)


def test_the_walk_sees_gaps_and_hours_that_come_twice() -> None:
    kinds = set()
    for name in ZONES:
        for change in find_changes(ZoneInfo(name)):
            ticks = walk(change, ZoneInfo(name))
            kinds.add((sum(len(tick.left_out) for tick in ticks), sum(tick.again for tick in ticks)))
    assert kinds == {(60, 0), (0, 60), (30, 0), (0, 30), (120, 0), (0, 120)}
