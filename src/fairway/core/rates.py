"""Rates: so many starts in a time, as a bucket of tokens. A start takes one; without one nothing begins."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0,
          "hour": 3600.0, "d": 86400.0, "day": 86400.0}  # fmt: skip
_rate = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*/\s*([0-9]*)\s*([a-z]+)\s*")
MOST_PER_SECOND = 1e6
ENOUGH = 1.0 - 1e-9  # of a token
MOMENT = 1e-4


def parse_rate(text: str) -> float:
    """Read `100/min`, `5/s`, `1/10min` as starts a second; raises ValueError with the reason."""
    found = _rate.fullmatch(text)
    if found is None or found[3] not in _UNITS:
        raise ValueError(f"{text[:40]!r} is no rate; write one like 100/min, 5/s or 1/2h")
    seconds = int(found[2] or 1) * _UNITS[found[3]]
    if not seconds or not 0 < float(found[1]) / seconds <= MOST_PER_SECOND:
        raise ValueError(f"a rate lies above 0 and at most at {MOST_PER_SECOND:,.0f}/s, not {text[:40]!r}")
    return float(found[1]) / seconds


def default_burst(rate: float) -> int:
    """Return what may start at once if nobody said: what comes in a second, one at least."""
    return max(1, int(rate))


@dataclass(slots=True)
class Bucket:
    """Tokens of one queue. `at` is when `tokens` was true; times are monotonic seconds."""

    rate: float
    burst: int
    tokens: float
    at: float

    def level(self, mono: float) -> float:
        """Return the tokens that are there now."""
        return min(self.tokens + (mono - self.at) * self.rate, float(self.burst))

    def take(self, count: int, mono: float) -> None:
        """Take tokens; what was begun together may overdraw by less than one."""
        self.tokens, self.at = self.level(mono) - count, mono

    def is_open(self, mono: float) -> bool:
        """Say whether there is a token."""
        return self.level(mono) >= ENOUGH

    def opens_at(self, mono: float) -> float:
        """Return when there is a token again; a moment later at least, so that nobody looks twice at once."""
        return mono + max(MOMENT, (1.0 - self.level(mono)) / self.rate)
