"""Writes measured figures into the documents, so that nobody types one.

    python -m bench.figures keep    what bench/results has becomes the figures of this checkout
    python -m bench.figures         writes them between the marks in README.md and docs/reference/numbers.md

A run is kept as `docs/reference/figures/NAME.json`: machine, rows without their samples. The name says what
was measured: `sqlite`, or the server that Fairway and its peers shared, `wheel` or `debian`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.machine import RESULTS, ROOT
from bench.rows import show

KEPT = ROOT / "docs" / "reference" / "figures"
PAGES = ("README.md", "docs/reference/numbers.md")
OURS, NONE = "fairway", "–"
NOT_PEERS = ("raw", "two loops", "sqlite")
NOT_DURABLE = ("celery", "dramatiq", "huey no fsync")

Figures = Mapping[tuple[str, str], Mapping[str, Any]]

#: What stands in the columns of the tables, by the measure.
SPEED = {
    "drain": "drain of no-op jobs",
    "bulk submit": "bulk submit, 5,000 a call",
    "one caller": "single submit, one caller",
    "32 callers": "single submit, 32 callers",
    "idle latency p50": "idle latency, submit to first line, p50",
    "p99": "idle latency, submit to first line, p99",
}
SQLITE_SPEED = {
    "drain": "drain of no-op jobs",
    "bulk submit": "bulk submit, 5,000 a call, HTTP",
    "one caller": "single submit, one caller",
    "32 callers": "single submit, 32 connections",
    "while executing": "single submit, 32 connections, while executing",
    "idle latency p50": "idle latency, submit to first line, p50",
    "p99": "idle latency, submit to first line, p99",
}
SLOTS = {f"{millis} ms": f"slot efficiency, jobs of {millis} ms" for millis in (1, 5, 20, 100)}


def main() -> int:
    """Keep a run, or write what was kept."""
    if sys.argv[1:] == ["keep"]:
        keep()
    elif sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(path.read_text()))
    return 0


def keep() -> None:
    """Make what was measured last the figures of this checkout; what a run left out stays as it was."""
    for file in ("latest.json", "peers.json"):
        if not (RESULTS / file).exists():
            continue
        found = json.loads((RESULTS / file).read_text())
        name = "sqlite" if file == "latest.json" else name_of(found["machine"])
        rows = [
            {key: row[key] for key in ("measure", "side", "value", "unit", "note")} for row in found["rows"]
        ]
        new = {row["measure"] for row in rows}
        path = KEPT / f"{name}.json"
        if path.exists():
            rows = [row for row in json.loads(path.read_text())["rows"] if row["measure"] not in new] + rows
        KEPT.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": found["machine"], "rows": rows}, indent=1) + "\n")


def name_of(machine: Mapping[str, Any]) -> str:
    """Say whose server it was."""
    return "debian" if "Debian" in machine["postgresql"] else "wheel"


def filled(text: str) -> str:
    """Return a page with the figures between its marks written anew."""

    def write(found: re.Match[str]) -> str:
        return f"{found[1]}\n{TABLES[found[2]]()}\n{found[4]}"

    return re.sub(r"(<!-- figures: ([a-z-]+) -->)(.*?)(<!-- end -->)", write, text, flags=re.DOTALL)


# --- tables ---------------------------------------------------------------------------------------
def read(name: str) -> Figures:
    """Return the rows of a run, by measure and side; none if none was kept."""
    path = KEPT / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {(row["measure"], row["side"]): row for row in rows}


def by_side(name: str, columns: Mapping[str, str]) -> str:
    """Draw a table: a line for each side, a column for each measure."""
    figures = read(name)
    sides = dict.fromkeys(side for measure, side in figures if measure in columns.values())
    lines = [[f"`{side}`", *(_cell(figures.get((one, side))) for one in columns.values())] for side in sides]
    return _drawn(["", *columns], lines)


def best() -> str:
    """Draw the short table: Fairway beside the best durable peer of the same run."""
    lines = []
    for where, name in (("Debian's PostgreSQL 15 as it comes", "debian"), ("PostgreSQL 18", "wheel")):
        figures = read(name)
        for words, measure in (
            ("drain of no-op jobs", SPEED["drain"]),
            ("bulk submit", SPEED["bulk submit"]),
            ("single submit, one caller", SPEED["one caller"]),
            ("idle latency, submit to first line, p50", SPEED["idle latency p50"]),
            ("slots kept busy by jobs of 1 ms", SLOTS["1 ms"]),
            ("slots kept busy by jobs of 5 ms", SLOTS["5 ms"]),
        ):
            lines += _against(figures, f"{words}; {where}", measure)
    figures = read("sqlite")
    for words, measure in (
        ("drain of no-op jobs; SQLite", SQLITE_SPEED["drain"]),
        ("slots kept busy by jobs of 1 ms; SQLite", SLOTS["1 ms"]),
        ("slots kept busy by jobs of 5 ms; SQLite", SLOTS["5 ms"]),
    ):
        lines += _against(figures, words, measure)
    return _drawn(["", "Fairway", "the best peer", "ratio"], lines)


def _against(figures: Figures, words: str, measure: str) -> list[list[str]]:
    """Return a line of the short table; none if that was not measured of both."""
    sides = [row for (of, _), row in figures.items() if of == measure]
    ours = [row for row in sides if row["side"] in (OURS, f"{OURS}-direct")]
    peers = [row for row in sides if not row["side"].startswith((OURS, *NOT_PEERS, *NOT_DURABLE))]
    if not (ours and peers):
        return []
    pick: Callable[..., Any] = min if ours[0]["unit"] == "ms" else max
    mine, theirs = (pick(rows, key=lambda row: row["value"]) for rows in (ours, peers))
    ratio = mine["value"] / theirs["value"]
    ratio = 1 / ratio if mine["unit"] == "ms" else ratio
    return [[words, _cell(mine), f"{_cell(theirs)} ({theirs['side']})", f"{ratio:.2f} ×"]]


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return NONE
    unit = {"jobs/s": "/s", "": ""}.get(row["unit"], f" {row['unit']}")
    return f"{show(row['value'])}{unit}"


def _drawn(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "best": best,
    "sqlite-speed": lambda: by_side("sqlite", SQLITE_SPEED),
    "sqlite-slots": lambda: by_side("sqlite", SLOTS),
    "debian-speed": lambda: by_side("debian", SPEED),
    "debian-slots": lambda: by_side("debian", SLOTS),
    "wheel-speed": lambda: by_side("wheel", SPEED),
    "wheel-slots": lambda: by_side("wheel", SLOTS),
}


if __name__ == "__main__":
    sys.exit(main())
