"""The one place where the time is read."""

from __future__ import annotations

import time

from fairway.core.model import Moment


def moment() -> Moment:
    """Return now, on both clocks."""
    return Moment(time.time_ns() // 1000, time.monotonic())


def wall() -> int:
    """Return the wall time in microseconds."""
    return time.time_ns() // 1000
