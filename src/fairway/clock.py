"""The one place where the time is read.

The wall time that Fairway uses runs evenly and never goes back: it is the monotonic clock plus an offset that
only grows. A system clock that is set ahead is followed at once; one that is set back is not, until the next
start, because jobs that are due would not be so any more.
"""

from __future__ import annotations

import time

from fairway.core.model import Moment

_ahead = time.time_ns() - time.monotonic_ns()


def moment() -> Moment:
    """Return now, on both clocks."""
    global _ahead
    mono = time.monotonic_ns()
    _ahead = max(_ahead, time.time_ns() - mono)
    return Moment((mono + _ahead) // 1000, mono / 1e9)


def wall() -> int:
    """Return the wall time in microseconds."""
    return moment().wall
