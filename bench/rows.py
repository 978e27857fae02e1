"""The rows of the table that `make bench` prints."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number: what was measured, of whom, and what to know about it."""

    measure: str
    side: str  # fairway | huey fsync | huey no fsync | sqlite
    value: float
    unit: str
    note: str = ""
    lower_is_better: bool = False
    samples: Sequence[float] = field(default=())

    def line(self) -> str:
        """Write the row on one line, for progress."""
        return f"  {self.measure:<58} {self.side:<14} {show(self.value):>10} {self.unit:<7} {self.note}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def percentiles(measure: str, side: str, milliseconds: Sequence[float], note: str = "") -> list[Row]:
    """Return the p50 and p99 rows of a latency."""
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return [
        Row(f"{measure}, p50", side, cuts[49], "ms", note, True, tuple(milliseconds)),
        Row(f"{measure}, p99", side, cuts[98], "ms", f"of {len(milliseconds)} samples", True),
    ]


def median(measure: str, side: str, rates: Sequence[float], unit: str, note: str = "") -> Row:
    """Return the median of several runs; the note shows them all."""
    runs = ", ".join(show(rate) for rate in rates)
    text = f"runs: {runs}" if len(rates) > 1 else ""
    return Row(
        measure, side, statistics.median(rates), unit, "; ".join(filter(None, (text, note))), samples=rates
    )


def efficiency(side: str, seconds: float, jobs: int, taken: float, slots: int = 2) -> Row:
    """Return what part of the slots' time jobs ran that took so many seconds each, of all the time taken."""
    note = f"{jobs} jobs, {jobs / taken:,.0f}/s"
    return Row(
        f"slot efficiency, jobs of {seconds * 1000:g} ms", side, jobs * seconds / slots / taken, "", note
    )


def table(rows: Sequence[Row], against: str) -> str:
    """Draw the table, each number with its ratio to the *against* side's (above 1 is better)."""
    base = {row.measure: row for row in rows if row.side == against}
    lines = [f"{'':<58} {'':<14} {'':>10} {'':<7} × {against}"]
    last = ""
    for row in sorted(rows, key=lambda row: [each.measure for each in rows].index(row.measure)):
        name = "" if row.measure == last else row.measure
        last = row.measure
        lines.append(
            f"{name:<58} {row.side:<14} {show(row.value):>10} {row.unit:<7} {ratio(row, base):>6}  {row.note}"
        )
    return "\n".join(lines)


def ratio(row: Row, base: dict[str, Row]) -> str:
    other = base.get(row.measure)
    if other is None or other is row or not row.value or not other.value:
        return ""
    times = other.value / row.value if row.lower_is_better else row.value / other.value
    return f"{times:.1f}"


def show(value: float) -> str:
    """Write a number with as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
