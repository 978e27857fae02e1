"""Cron expressions: five fields, read once, and the moments at which they fire in a zone.

A field is a set of numbers. A day fires if its month is named and, as in every cron, if the day of the month
*or* the day of the week is, when both are restricted.

Clocks are set twice a year, and a local time may then not exist, or exist twice. There are two kinds:

1. One whose minute or hour is `*` is a rhythm. It fires whenever the local clock shows what it names, so it
   stays even: no fire is made up for an hour that was left out, an hour that comes twice has its fires twice.
2. Any other names times of day. Each of them fires once a day: if it does not exist, at the first instant
   after the gap (once, however many fell into it); if it exists twice, the first time.

Times are microseconds since 1970. Nothing here reads a clock.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
#: 29 February does not come for eight years around 2100; what does not fire within nine never will.
HORIZON_DAYS = 9 * 366
MOST_TEXT = 200
#: Clocks change at quarters of an hour; a walk that stops at each misses no change.
QUARTER = 15
#: No change of a clock leaves out or repeats more than a day.
LONGEST_CHANGE = timedelta(days=1)

_epoch = datetime(1970, 1, 1, tzinfo=UTC)
_months = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_days = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
Field = tuple[str, int, int, dict[str, int]]  # name, least, most, names of its numbers
FIELDS: tuple[Field, ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_months, start=1)}),
    ("day of week", 0, 7, {name: number for number, name in enumerate(_days)}),
)  # fmt: skip
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_item = re.compile(r"(\*|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]+))?", re.ASCII)


class BadTimetable(ValueError):
    """An expression, a zone or an interval that means nothing; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a zone; made by `read_cron`."""

    text: str
    zone: ZoneInfo
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool  # both kinds of day are restricted: one of them is enough

    @property
    def is_rhythm(self) -> bool:
        """Whether it fires by what the clock shows, whatever was done to the clock."""
        return len(self.minutes) == 60 or len(self.hours) == 24

    def fires_on(self, day: date) -> bool:
        """Say whether it fires at all on a local date."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week

    def next_fire(self, after: int) -> int | None:
        """Return the first moment behind *after* at which it fires; None if there is none."""
        try:
            return _next_by_clock(self, after) if self.is_rhythm else _next_by_day(self, after)
        except OverflowError:  # the calendar ends with the year 9999
            return None


def read_cron(text: str, zone: str = "UTC") -> Cron:
    """Read an expression such as `30 6 * * mon-fri` or `@daily`; raises BadTimetable."""
    if len(text) > MOST_TEXT:
        raise BadTimetable(f"a cron expression has at most {MOST_TEXT} characters")
    words = NICKNAMES.get(text.strip().lower(), text).lower().split()
    if words and words[0].startswith("@"):
        raise BadTimetable(f"{words[0]!a} is not known; there are {', '.join(NICKNAMES)}")
    if len(words) != len(FIELDS):
        raise BadTimetable(
            f"{text[:60]!a} has {len(words)} fields; write five: minute, hour, day of month, month,"
            " day of week"
        )
    minutes, hours, days, months, weekdays = (_read_field(*pair) for pair in zip(words, FIELDS, strict=True))
    restricted = words[2][0] != "*" and words[4][0] != "*"
    cron = Cron(
        " ".join(text.split()), read_zone(zone), tuple(sorted(minutes)), tuple(sorted(hours)),
        days, months, frozenset(day % 7 for day in weekdays), restricted,
    )  # fmt: skip
    if next(_days_from(cron, date(2096, 1, 1)), None) is None:
        raise BadTimetable(f"{cron.text!a} never fires: no month it names has such a day")
    return cron


@lru_cache(maxsize=1024)
def read_zone(name: str) -> ZoneInfo:
    """Return an IANA zone such as `Europe/Berlin`; raises BadTimetable."""
    try:
        # Both are files that some systems keep among the zones, and mean something else on each machine.
        if name.split("/")[0] not in ("localtime", "posixrules"):
            return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        pass
    raise BadTimetable(f"{name[:60]!a} is not a zone that is known here; write one such as 'Europe/Berlin'")


def _read_field(word: str, field: Field) -> frozenset[int]:
    return frozenset(number for item in word.split(",") for number in _read_item(item, field))


def _read_item(item: str, field: Field) -> range:
    """Read `*`, `5`, `1-5`, any of them with a step behind `/`."""
    name, least, most, _ = field
    match = _item.fullmatch(item)
    if match is None or (match[1] == "*" and match[2]):
        raise BadTimetable(
            f"{item[:40]!a} is no {name}; write *, a number, a range 1-5, a step */10, or a list"
        )
    first = least if match[1] == "*" else _read_number(match[1], field)
    if match[2]:
        last = _read_number(match[2], field)
        last = most if last == 0 < first and name == "day of week" else last  # fri-sun: the week ends with it
    else:
        last = most if match[1] == "*" or match[3] else first
    step = int(match[3][:9]) if match[3] else 1
    if first > last or not 1 <= step <= most:
        raise BadTimetable(f"{item[:40]!a} names no {name}: a range goes up, a step is 1 to {most}")
    return range(first, last + 1, step)


def _read_number(word: str, field: Field) -> int:
    name, least, most, names = field
    number = names.get(word)
    if number is None:
        number = int(word) if word.isdigit() and len(word) <= 2 else -1
    if not least <= number <= most:
        also = f" or {', '.join(names)}" if names else ""
        raise BadTimetable(f"{word[:20]!a} is no {name}; write {least} to {most}{also}")
    return number


def _days_from(cron: Cron, first: date) -> Iterator[date]:
    """Yield the dates on which it fires, from *first* on, as far as one can matter."""
    for ahead in range(HORIZON_DAYS):
        day = first + timedelta(days=ahead)
        if cron.fires_on(day):
            yield day


def _next_by_day(cron: Cron, after: int) -> int | None:
    """Go through the times of day it names; each is an instant, later than those before it."""
    local = _local(after, cron.zone)
    for day in _days_from(cron, local.date()):
        today = day == local.date()
        for hour in cron.hours[bisect_left(cron.hours, local.hour) if today else 0 :]:
            for minute in cron.minutes:
                fire = _first_instant(datetime(day.year, day.month, day.day, hour, minute), cron.zone)
                if fire > after:
                    return fire
    return None


def _first_instant(local: datetime, zone: ZoneInfo) -> int:
    """Return when a local time comes for the first time, or the end of the gap that swallowed it."""
    first, second = (_micros(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    return first if first <= second else _change_between(second, first, zone)


def _change_between(before: int, behind: int, zone: ZoneInfo) -> int:
    """Return the instant at which the clock was set, by halving."""
    old = _local(before, zone).utcoffset()
    while behind - before > SECOND:
        middle = (before + behind) // 2 // SECOND * SECOND
        if _local(middle, zone).utcoffset() == old:
            before = middle
        else:
            behind = middle
    return behind


def _next_by_clock(cron: Cron, after: int) -> int | None:
    """Walk over the instants and look at the local clock, in strides that pass over no fire."""
    last = after + HORIZON_DAYS * 86_400 * SECOND
    now = (after // MINUTE + 1) * MINUTE
    while now < last:
        local = _local(now, cron.zone)
        if not cron.fires_on(local.date()):
            now = max(now + _to_quarter(local), _before_next_day(cron, local))
        elif local.hour not in cron.hours:
            now += _to_quarter(local)
        elif local.minute not in cron.minutes or local.second:
            now += MINUTE - local.second * SECOND
        else:
            return now
    return None


def _to_quarter(local: datetime) -> int:
    return (QUARTER - local.minute % QUARTER) * MINUTE - local.second * SECOND


def _before_next_day(cron: Cron, local: datetime) -> int:
    """Return an instant surely before the next date on which it fires begins."""
    day = next(_days_from(cron, local.date() + timedelta(days=1)), None)
    if day is None:
        return _micros(local) + HORIZON_DAYS * 86_400 * SECOND
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return _micros(midnight) - _seconds(local) * SECOND - _micros_of(LONGEST_CHANGE)


def _seconds(local: datetime) -> int:
    offset = local.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _local(micros: int, zone: ZoneInfo) -> datetime:
    return (_epoch + timedelta(microseconds=micros)).astimezone(zone)


def _micros(moment: datetime) -> int:
    return _micros_of(moment - _epoch)


def _micros_of(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
