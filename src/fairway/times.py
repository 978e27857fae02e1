"""Times and durations as the outside writes them.

Inside, a wall time is an int of microseconds since 1970 (exact, sortable, small in a database) and a
duration is a float of seconds. Outside, times are RFC 3339 with a zone, durations `90s`, `5m`, `2h`, `1d`
or a number of seconds.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from fairway.errors import InvalidRequest

MICRO = 1_000_000
LATEST = 253_402_300_799 * MICRO  # the year 9999
LONGEST_SECONDS = 10 * 366 * 86_400.0

_duration = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d|w)?", re.ASCII)
_units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, None: 1.0}
_rfc3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def show_time(micros: int) -> str:
    """Write a wall time as RFC 3339 in UTC."""
    seconds, rest = divmod(micros, MICRO)
    return f"{_show_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=4096)  # of the times in an answer most lie within a few seconds
def _show_second(seconds: int) -> str:
    return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat()


def parse_time(text: str, field: str = "run_at") -> int:
    """Read an RFC 3339 time; one without a zone, or outside 1970 to 9999, is refused."""
    if not _rfc3339.fullmatch(text):
        raise InvalidRequest(f"{field} {text[:40]!r} is not an RFC 3339 time with a zone", field=field)
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.upper().replace(" ", "T").replace("Z", "+00:00"))
    try:
        moment = datetime.fromisoformat(text)
        micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{field} {text[:40]!r} is not a time that exists", field=field) from None
    if not 0 <= micros <= LATEST:
        raise InvalidRequest(f"{field} {text[:40]!r} is outside 1970 to 9999", field=field)
    return micros


def parse_duration(value: object, field: str = "delay") -> float:
    """Read `90s`, `5m`, `2h`, `1d` or a number of seconds; at most ten years."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidRequest(f"{field} must be a duration such as '90s' or a number of seconds", field=field)
    if isinstance(value, str):
        match = _duration.fullmatch(value.strip())
        if not match:
            raise InvalidRequest(
                f"{field} {value[:40]!r} is not a duration; write 90s, 5m, 2h, 1d or seconds", field=field
            )
        seconds = float(match[1]) * _units[match[2]]
    elif isinstance(value, int) and abs(value) > LONGEST_SECONDS:
        seconds = math.inf
    else:
        seconds = float(value)
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise InvalidRequest(f"{field} must be between 0 and ten years", field=field)
    return seconds
