"""Measure this machine: Fairway and Huey on SQLite in one run, and the raw limit beside them.

    python -m bench.run [--quick] [--only raw,huey,drain,rest,single,latency,memory]

Prints a table with ratios against Huey with fsync on, and writes bench/results/latest.json. A slow number
is a result, not an error: the exit code is 1 only when something could not be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from bench import fairway_side, huey_side, raw_sqlite
from bench.machine import RESULTS, facts, work_directory
from bench.node import Node, running_node
from bench.rows import Row, table

PARTS = ("raw", "huey", "drain", "rest", "single", "latency", "memory")
HUEY_SIDES = ("on", "off")
NOTES = (
    "jobs of 5 ms and 1 s: two slots can do no more than 400/s and 2/s; every peer is near that, so these",
    "rows only show that nothing is wasted.",
)


def main() -> int:
    """Run what was asked for; return the exit code."""
    arguments = parse()
    machine, rows, failures = facts(), [], []
    print("  ".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    with work_directory() as directory:
        for name, part in parts(arguments, directory):
            print(f"{name} ...", flush=True)
            rows_of_part, problem = attempt(part)
            rows += rows_of_part
            failures += [f"{name}: {problem}"] if problem else []
        durable = huey_side.default_is_durable(directory)
    finish(machine, rows, failures, durable)
    return 1 if failures else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fairway and Huey on SQLite, side by side.")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, about a minute")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--jobs", type=int, help="backlog of a drain (50,000)")
    parser.add_argument("--memory-jobs", type=int, help="jobs of the memory row (200,000)")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",")
    if unknown := set(arguments.only) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    quick = arguments.quick
    arguments.jobs = arguments.jobs or (20_000 if quick else 50_000)
    arguments.memory_jobs = arguments.memory_jobs or (50_000 if quick else 200_000)
    arguments.runs = 1 if quick else 3
    arguments.samples = 100 if quick else 300
    arguments.singles = 5_000 if quick else 20_000
    return arguments


def parts(
    arguments: argparse.Namespace, directory: Path
) -> Iterable[tuple[str, Callable[[], Iterable[Row]]]]:
    """Name each part with how to measure it."""
    if "raw" in arguments.only:
        yield "raw limit", lambda: raw_sqlite.measure(arguments.jobs, (1000, 2000), directory)
    if any(part in arguments.only for part in PARTS[2:]):
        yield "fairway", lambda: measure_fairway(arguments, directory)
    if "huey" in arguments.only:
        for fsync in HUEY_SIDES:
            yield huey_side.side_name(fsync), partial(measure_huey, arguments, directory, fsync)


def measure_fairway(arguments: argparse.Namespace, directory: Path) -> Iterable[Row]:
    """Measure Fairway, everything on one node but the memory row, which gets its own."""
    measures: dict[str, Callable[[Node], Iterable[Row]]] = {
        "drain": lambda node: fairway_side.drain(node, arguments.jobs, arguments.runs),
        "latency": lambda node: fairway_side.latency(node, arguments.samples),
        "single": lambda node: fairway_side.single(node, arguments.singles),
        "rest": lambda node: (fairway_side.rest(node, each, jobs) for each, jobs in ((0.005, 400), (1.0, 8))),
    }
    wanted = [measures[part] for part in measures if part in arguments.only]
    if wanted:
        with running_node(directory) as node:
            fairway_side.warm_up(node)
            for measure in wanted:
                yield from measure(node)
    if "memory" in arguments.only:
        with running_node(directory, "memory") as node:
            fairway_side.warm_up(node)
            yield from fairway_side.memory(node, arguments.memory_jobs)


def measure_huey(arguments: argparse.Namespace, directory: Path, fsync: str) -> Iterable[Row]:
    """Measure Huey in one of its two manners."""
    yield huey_side.drain(directory, fsync, arguments.jobs, arguments.runs)
    yield huey_side.enqueue(directory, fsync, min(arguments.singles, 3000))
    yield from huey_side.latency(directory, fsync, arguments.samples)
    yield huey_side.rest(directory, fsync, 0.005, 400)
    yield huey_side.rest(directory, fsync, 1.0, 8)


def attempt(part: Callable[[], Iterable[Row]]) -> tuple[list[Row], str | None]:
    """Measure one part; what it yielded before a failure is kept."""
    rows: list[Row] = []
    try:
        for row in part():
            rows.append(row)
            print(row.line(), flush=True)
    except Exception as error:
        traceback.print_exc()
        return rows, f"{type(error).__name__}: {error}"
    return rows, None


def finish(machine: dict[str, Any], rows: list[Row], failures: list[str], durable: bool) -> None:
    """Print the table and keep the numbers."""
    print("\n" + table(rows, against=huey_side.side_name("on")) + "\n")
    default = "commits with fsync (the row 'huey fsync')" if durable else "is not durable ('huey no fsync')"
    print(
        "\n".join(
            (*NOTES, f"Huey's own default on this SQLite {default}; Fairway always commits with fsync.")
        )
    )
    for failure in failures:
        print(f"NOT MEASURED  {failure}", file=sys.stderr)
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine,
        "huey_default_is_durable": durable,
        "rows": [row.as_json() for row in rows],
        "failures": failures,
    }
    (RESULTS / "latest.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
