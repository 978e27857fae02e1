"""The rows of the table that `make bench-fairness` prints, and their ratios to those of other code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import inf, isinf
from typing import Any

from bench.fairness.judge import Verdict

HEAD = (
    f"{'':<16} {'':<9} {'users':>5} {'jobs':>6} {'slots':>5} {'windows':>7} {'<90 %':>6} {'<half':>6}"
    f" {'least':>6} {'unserved':>8} {'over bound':>12} {'idle':>6} {'wait':>8}"
)
NOTES = """\
windows   of ten mean job times, for each user that was backlogged throughout; <90 %, <half: the part of them
          in which it had less than that of its fair share; least: the least part that any had
unserved  the longest that a user with work waiting held nothing, and the mean wait: in mean job times
over      how many such stretches, of all, were longer than the longest attempt running at their start and
          two turns of the siblings; and by how much at most
idle      slot-seconds while something waited
"""


@dataclass(frozen=True)
class Row:
    """One kind of world, or one log, replayed one way."""

    world: str
    way: str
    users: int
    jobs: int
    slots: int
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """Return it in plain values; what there is none of is null."""
        made = asdict(self)
        if isinf(self.verdict.least):
            made["verdict"]["least"] = None
        return made


def rows_of(made: Iterable[dict[str, Any]]) -> list[Row]:
    """Read rows back."""
    rows = []
    for one in made:
        found = dict(one["verdict"])
        least = inf if found["least"] is None else found["least"]
        rows.append(Row(**one | {"verdict": Verdict(**found | {"least": least})}))
    return rows


def table(rows: Sequence[Row], others: Sequence[Row] = ()) -> str:
    """Draw all rows, each with the other code's and their ratio below it if there are any."""
    beside = {(row.world, row.way): row for row in others}
    lines = [HEAD]
    for row in rows:
        lines.append(_line(row, row.world, row.way))
        other = beside.get((row.world, row.way))
        if other is not None:
            lines += [_line(other, "", "other"), _ratios(row.verdict, other.verdict)]
    return "\n".join([*lines, "", NOTES])


def _line(row: Row, world: str, way: str) -> str:
    found = row.verdict
    over = f"{found.over}/{found.stretches}"
    if found.over:
        over = f"{over} +{found.most_over:.1f}"
    return (
        f"{world:<16} {way:<9} {row.users:>5} {row.jobs:>6} {row.slots:>5} {found.windows:>7}"
        f" {100 * found.part_below_90:>6.1f} {100 * found.part_below_half:>6.1f} {found.least:>6.2f}"
        f" {found.unserved:>8.1f} {over:>12} {found.idle:>6.1f} {found.mean_wait:>8.2f}"
    )


def _ratios(ours: Verdict, theirs: Verdict) -> str:
    return (
        f"{'':<16} {'× other':<9} {'':>26} {_ratio(ours.part_below_90, theirs.part_below_90):>6}"
        f" {_ratio(ours.part_below_half, theirs.part_below_half):>6} {'':>6}"
        f" {_ratio(ours.unserved, theirs.unserved):>8} {'':>12} {'':>6}"
        f" {_ratio(ours.mean_wait, theirs.mean_wait, 3):>8}"
    )


def _ratio(ours: float, theirs: float, digits: int = 2) -> str:
    if not theirs:
        return "" if not ours else "more"
    return f"{ours / theirs:.{digits}f}"
