"""The end of a run: the table, Fairway against the best peer and the raw limit, and the file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bench.machine import RESULTS
from bench.peers.side import Side
from bench.rows import Row, show, table

OURS = "fairway"
BUSY_CORES = 0.2


def finish(machine: dict[str, Any], rows: list[Row], failures: list[str], sides: Sequence[Side]) -> None:
    """Print all of it and keep the numbers."""
    print("\n" + table(rows, against=OURS) + "\n")
    ratios = list(compare(rows, sides))
    print("\n".join(ratio["text"] for ratio in ratios))
    print("\nEvery PostgreSQL side commits with fsync; all have two worker processes, Fairway two slots.")
    if names := [side.name for side in sides if not side.durable]:
        print(f"NOT DURABLE, Redis in memory as it comes: {', '.join(names)}; not counted as the best peer.")
    if max(machine["cores_used_by_others"].values(), default=0.0) > BUSY_CORES:
        print("OTHER PROGRAMS WERE BUSY meanwhile: neither these numbers nor their ratios are to be trusted.")
    for failure in failures:
        print(f"NOT MEASURED  {failure.splitlines()[0]}", file=sys.stderr)
    content = {
        "machine": machine,
        "rows": [row.as_json() for row in rows],
        "ratios": ratios,
        "failures": failures,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "peers.json").write_text(json.dumps(content, indent=1) + "\n")


def compare(rows: list[Row], sides: Sequence[Side]) -> Iterator[dict[str, Any]]:
    """Yield, for each measure, how Fairway stands to the best durable peer and the raw limit, and to all.

    Above 1 Fairway is better.
    """
    durable = {side.name for side in sides if side.durable}
    for measure in dict.fromkeys(row.measure for row in rows):
        of = [row for row in rows if row.measure == measure]
        others = [row for row in of if not row.side.startswith(OURS)]
        peers = [row for row in others if row.side in durable]
        limits = [row for row in others if row.side.startswith("raw")]
        for ours in (row for row in of if row.side.startswith(OURS) and others):
            words = [f"{times(ours, row):.2f} × {row.side}" for row in (*best(peers), *best(limits))]
            text = f"{measure:<46} {ours.side:<15} {show(ours.value):>8} {ours.unit:<7} = {', '.join(words)}"
            against = {row.side: times(ours, row) for row in others}
            yield {"measure": measure, "side": ours.side, "against": against, "text": text}


def best(rows: Sequence[Row]) -> list[Row]:
    """Return the best one, if there is any."""
    ordered = sorted(rows, key=lambda row: row.value if row.lower_is_better else -row.value)
    return ordered[:1]


def times(ours: Row, other: Row) -> float:
    """Return how many times better ours is."""
    if not ours.value or not other.value:
        return float("inf") if other.value and ours.lower_is_better else 0.0
    return other.value / ours.value if ours.lower_is_better else ours.value / other.value
