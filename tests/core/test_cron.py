"""Cron expressions and intervals: what they mean, what is refused, and what holds for all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.cron import MINUTE, SECOND, BadTimetable, read_cron
from fairway.core.timetable import Every, Timetable, latest_fires, next_fire, next_fires
from fairway.times import parse_time, show_time

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Havana")
texts = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "5 4 * * *", "0,30 1-3 * * *", "@weekly", "0 0 1 */3 *", "0 12 13 * fri",
     "30 2 29 2 *", "* 3 * * mon-fri", "59 23 31 12 *"]
)  # fmt: skip
crons = st.builds(read_cron, texts, st.sampled_from(ZONES))
everies = st.builds(Every, st.integers(SECOND, 400 * 86_400 * SECOND), st.integers(0, 2**51))
timetables = st.one_of(crons, everies)
moments = st.integers(0, parse_time("2090-01-01T00:00:00Z"))


def check(text: str, after: str, *fires: str, zone: str = "UTC") -> None:
    """Behind *after* the expression fires at *fires*."""
    found = next_fires(read_cron(text, zone), parse_time(f"{after}:00Z"), len(fires))
    assert [show_time(fire)[:16] for fire in found] == list(fires)


def test_fields() -> None:
    check("*/20 9 * * *", "2026-05-01T00:00", "2026-05-01T09:00", "2026-05-01T09:20", "2026-05-01T09:40")
    check("10-14/2 0 * * *", "2026-05-01T00:10", "2026-05-01T00:12", "2026-05-01T00:14", "2026-05-02T00:10")
    check("50/5 0 * * *", "2026-05-01T00:00", "2026-05-01T00:50", "2026-05-01T00:55", "2026-05-02T00:50")
    check("0 0 1 jan,JUL *", "2026-05-01T00:00", "2026-07-01T00:00", "2027-01-01T00:00")
    check("0 0 * * fri-sun", "2026-05-06T00:00", "2026-05-08T00:00", "2026-05-09T00:00", "2026-05-10T00:00")
    check("0 0 * * 7", "2026-05-06T00:00", "2026-05-10T00:00")
    check("0 0 29 2 *", "2097-01-01T00:00", "2104-02-29T00:00")
    check("@yearly", "2026-05-06T00:00", "2027-01-01T00:00")


def test_either_kind_of_day_is_enough_when_both_are_named() -> None:
    check("0 0 13 * fri", "2026-05-01T00:00", "2026-05-08T00:00", "2026-05-13T00:00", "2026-05-15T00:00")
    check("0 0 */2 * fri", "2026-05-01T00:00", "2026-05-15T00:00", "2026-05-29T00:00")


def test_a_time_is_one_of_its_zone() -> None:
    check("30 6 * * *", "2026-01-01T00:00", "2026-01-01T05:30", zone="Europe/Berlin")
    check("30 6 * * *", "2026-07-01T00:00", "2026-07-01T04:30", zone="Europe/Berlin")


def test_a_time_that_does_not_exist_fires_behind_the_gap_and_one_that_comes_twice_the_first_time() -> None:
    check("30 2 * * *", "2026-03-28T12:00", "2026-03-29T01:00", "2026-03-30T00:30", zone="Europe/Berlin")
    check("30 2 * * *", "2026-10-24T12:00", "2026-10-25T00:30", "2026-10-26T01:30", zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("60 * * * *", "'60' is no minute; write 0 to 59"),
        ("* 24 * * *", "is no hour"),
        ("* * 0 * *", "is no day of month"),
        ("* * * 13 *", "is no month"),
        ("* * * foo *", "1 to 12 or jan"),
        ("* * * * 8", "is no day of week"),
        ("5-1 * * * *", "a range goes up"),
        ("*/0 * * * *", "a step is 1 to 59"),
        ("*/99999999999999999999 * * * *", "a step is 1 to 59"),
        ("*-5 * * * *", "is no minute"),
        ("1,,2 * * * *", "'' is no minute"),
        ("-1 * * * *", "is no minute"),
        ("1.5 * * * *", "is no minute"),
        ("L * * * *", "is no minute"),
        ("٣ * * * *", "is no minute"),
        ("@reboot", "@hourly"),
        ("0 0 31 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("*" * 201, "at most 200"),
    ],
)
def test_nonsense_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadTimetable) as caught:
        read_cron(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "zone",
    ["", "Nowhere/Else", "Europe", "../etc/passwd", "/etc/localtime", "localtime", "a\0b", "Ä", "x" * 300],
)
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(BadTimetable, match="is not a zone"):
        read_cron("@daily", zone)


def test_an_interval_is_counted_from_its_anchor() -> None:
    ten = Every(600 * SECOND, 7 * SECOND)
    assert next_fires(ten, 0, 3) == [7 * SECOND, 607 * SECOND, 1207 * SECOND]
    assert next_fire(ten, 607 * SECOND) == 1207 * SECOND
    with pytest.raises(BadTimetable):
        Every(SECOND - 1)


@given(timetables, moments)
def test_the_next_fire_is_behind_and_nothing_is_between(timetable: Timetable, after: int) -> None:
    fire = next_fire(timetable, after)
    assert fire is not None and fire > after
    assert next_fire(timetable, fire - 1) == fire
    assert next_fire(timetable, (after + fire) // 2) == fire


@given(timetables, moments, moments)
def test_fires_come_in_order_whenever_one_asks(timetable: Timetable, one: int, other: int) -> None:
    first, second = next_fire(timetable, min(one, other)), next_fire(timetable, max(one, other))
    assert first is not None and second is not None and first <= second


@given(crons, moments)
def test_a_fire_shows_what_the_expression_names_unless_the_clock_was_set(cron: Timetable, after: int) -> None:
    assert not isinstance(cron, Every)
    fire = next_fire(cron, after)
    assert fire is not None
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=fire)).astimezone(cron.zone)
    minute_before = (local.astimezone(UTC) - timedelta(minutes=1)).astimezone(ZoneInfo(cron.zone.key))
    if local.utcoffset() == minute_before.utcoffset():
        assert local.hour in cron.hours and local.minute in cron.minutes
        assert cron.fires_on(local.date())


@given(timetables, moments, st.integers(1, 20), st.integers(0, 40 * MINUTE))
def test_the_latest_fires_are_the_last_of_all(timetable: Timetable, after: int, most: int, span: int) -> None:
    last = next_fire(timetable, after)
    assert last is not None
    until = last + span
    everything = []
    fire: int | None = last
    while fire is not None and fire <= until and len(everything) < 3000:
        everything.append(fire)
        fire = next_fire(timetable, fire)
    assert latest_fires(timetable, after, until, most) == everything[-most:]


def test_a_century_of_missed_minutes_is_not_counted() -> None:
    start, end = parse_time("2000-01-01T00:00:00Z"), parse_time("2090-01-01T00:00:00Z")
    assert latest_fires(read_cron("* * * * *"), start, end, 3) == [end - 2 * MINUTE, end - MINUTE, end]
