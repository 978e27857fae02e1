"""Times as people read them: how long ago or how soon, with the exact time in brackets."""

from __future__ import annotations

import re
import time

from fairway.errors import InvalidRequest
from fairway.times import MICRO, parse_time

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


def show_seconds(seconds: float | None) -> str | None:
    """Write a duration with one unit: `350 ms`, `12 s`, `5 min`, `3.5 h`, `2 d`."""
    if seconds is None:
        return None
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds)} s"


def whole_seconds(seconds: float) -> str:
    """Write a duration that somebody set, nothing of it rounded away: `90 s`, `2 h`, `0.5 s`."""
    for length, unit in _UNITS:
        if seconds and seconds % length == 0:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.12g} s"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:.0f}"


def relative(moment: str | None, now: float | None = None) -> str | None:
    """Write an RFC 3339 time as `5 min ago` or `in 2 h`."""
    seconds = seconds_since(moment, now)
    if moment is None or seconds is None:
        return moment
    if abs(seconds) < 1:
        return "just now"
    return f"{show_seconds(seconds)} ago" if seconds > 0 else f"in {show_seconds(-seconds)}"


def exact(moment: str | None, now: float | None = None) -> str | None:
    """Write an RFC 3339 time as `5 min ago (2026-01-31T12:00:00Z)`."""
    if moment is None or seconds_since(moment, now) is None:
        return moment
    return f"{relative(moment, now)} ({moment})"


def second(moment: str) -> str:
    """Write an RFC 3339 time of ours without the parts of a second, for a narrow column."""
    return re.sub(r"\.\d+Z$", "Z", moment)


def between(start: str | None, end: str | None) -> str | None:
    """Write how long it was from *start* to *end*."""
    if start is None or end is None:
        return None
    try:
        return show_seconds(max(0.0, (parse_time(end) - parse_time(start)) / MICRO))
    except InvalidRequest:
        return None


def seconds_since(moment: str | None, now: float | None = None) -> float | None:
    """Return the seconds from an RFC 3339 time to now, or None if it is none."""
    try:
        micros = parse_time(moment) if moment else None
    except InvalidRequest:
        return None
    return None if micros is None else (time.time() if now is None else now) - micros / MICRO
