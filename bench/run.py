"""Measure this machine: Fairway and Huey on SQLite in one run, and the raw limit beside them.

    python -m bench.run [--quick] [--only raw,drain,tree,latency,single,rest,memory] [--sides fairway,huey]

Every part measures one side right after the other, drains in turns, so that a machine that is slower for a
minute is so for both; what other programs used meanwhile is shown. Prints a table with ratios against Huey
with fsync on, and writes bench/results/latest.json. A slow number is a result, not an error: the exit code
is 1 only when something could not be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import fairway_side, huey_side, raw_sqlite, resting, tree_side
from bench.machine import RESULTS, busy_with_others, facts, work_directory
from bench.node import Node, running_node
from bench.rows import Row, efficiency, table

SIDES = ("fairway", "huey")
FSYNC = ("on", "off")
RESTS = ((0.001, 4000), (0.005, 1000), (0.02, 300), (0.1, 60))
BUSY_CORES = 0.2
NOTES = (
    "slot efficiency: the part of two slots' time in which jobs run that sleep so long; ideal is 1. A sleep",
    "takes longer than it says, so the row 'two loops' (two processes that only sleep) is the most there is.",
)


class Run:
    """What one run was asked to measure, and where it may write."""

    def __init__(self, asked: argparse.Namespace, directory: Path) -> None:
        self.directory = directory
        self.fairway, self.huey = ("fairway" in asked.sides, "huey" in asked.sides)
        self.jobs: int = asked.jobs or (20_000 if asked.quick else 50_000)
        self.memory_jobs: int = asked.memory_jobs or (50_000 if asked.quick else 200_000)
        self.rounds = 1 if asked.quick else 3
        self.samples = 100 if asked.quick else 300
        self.singles = 5_000 if asked.quick else 20_000

    def raw(self) -> Iterator[Row]:
        """SQLite's own limit."""
        yield from raw_sqlite.measure(self.jobs, (1000, 2000), self.directory)

    def drain(self) -> Iterator[Row]:
        """A backlog of no-ops, the sides in turns, each time with a fresh file."""
        ours: list[fairway_side.Drained] = []
        theirs: dict[str, list[float]] = {fsync: [] for fsync in FSYNC}
        for number in range(self.rounds):
            if self.fairway:
                with self._node(f"drain-{number}") as node:
                    ours.append(fairway_side.drain(node, self.jobs))
            for fsync in FSYNC if self.huey else ():
                theirs[fsync].append(huey_side.drain(self.directory, fsync, self.jobs, number))
            print(f"  round {number + 1} of {self.rounds}", flush=True)
        if ours:
            yield from fairway_side.drain_rows(ours, self.jobs)
        yield from (huey_side.drain_row(rates, fsync, self.jobs) for fsync, rates in theirs.items() if rates)

    def tree(self) -> Iterator[Row]:
        """What shares, limits and flows cost, against one plain queue; the two in turns."""
        if not self.fairway:
            return
        # The difference is small: many short drains, and a few long ones, of what is paid for as it goes on.
        for jobs, rounds in ((self.jobs, 5 * self.rounds), (4 * self.jobs, 2 * self.rounds)):
            ways = tree_side.Ways([], [], [])
            for number in range(rounds):
                with self._node(f"flat-{number}") as node:
                    ways.flat.append(tree_side.drain_flat(node, jobs))
                with self._node(f"tree-{number}") as node:
                    ways.tree.append(tree_side.drain_tree(node, jobs))
                with self._node(f"mixed-{number}") as node:
                    ways.mixed.append(tree_side.drain_tree(node, jobs, mixed=True))
            yield from tree_side.drain_rows(ways, jobs)
        yield from tree_side.decisions()

    def latency(self) -> Iterator[Row]:
        """From the submit call to the first line of the task, with nothing else to do."""
        yield from self._both(
            lambda node: fairway_side.latency(node, self.samples),
            lambda fsync: huey_side.latency(self.directory, fsync, self.samples),
        )

    def single(self) -> Iterator[Row]:
        """Submits one by one."""
        yield from self._both(
            lambda node: fairway_side.single(node, self.singles),
            lambda fsync: [huey_side.enqueue(self.directory, fsync, min(self.singles, 3000))],
        )

    def rest(self) -> Iterator[Row]:
        """Jobs that take a while: are slots idle though work waits?"""
        for seconds, jobs in RESTS:
            yield efficiency(
                resting.SIDE, seconds, jobs, jobs * seconds / 2 / resting.busy_part(seconds, jobs)
            )
        yield from self._both(
            lambda node: (fairway_side.rest(node, seconds, jobs) for seconds, jobs in RESTS),
            lambda fsync: (huey_side.rest(self.directory, fsync, seconds, jobs) for seconds, jobs in RESTS),
        )

    def memory(self) -> Iterator[Row]:
        """Fairway's memory after many jobs."""
        if self.fairway:
            with self._node("memory") as node:
                yield from fairway_side.memory(node, self.memory_jobs)
            with self._node("agent", apart=True) as node:
                yield from fairway_side.agent_memory(node, self.memory_jobs)

    def _both(
        self, ours: Callable[[Node], Iterable[Row]], theirs: Callable[[str], Iterable[Row]]
    ) -> Iterator[Row]:
        if self.fairway:
            with self._node("fairway") as node:
                yield from ours(node)
        for fsync in FSYNC if self.huey else ():
            yield from theirs(fsync)

    def _node(self, name: str, apart: bool = False) -> Any:
        return running_node(self.directory, name, fairway_side.warm_up, apart)


PARTS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "raw": Run.raw,
    "drain": Run.drain,
    "tree": Run.tree,
    "latency": Run.latency,
    "single": Run.single,
    "rest": Run.rest,
    "memory": Run.memory,
}


def main() -> int:
    """Run what was asked for; return the exit code."""
    asked, machine = parse(), facts()
    rows: list[Row] = []
    failures: list[str] = []
    others: dict[str, float] = {}
    print("  ".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    with work_directory() as directory:
        run = Run(asked, directory)
        for name in asked.only:
            others[name] = busy_with_others()
            print(f"{name} ... (other programs use {others[name]:.2f} cores)", flush=True)
            attempt(PARTS[name](run), name, rows, failures)
        durable = huey_side.default_is_durable(directory)
    machine |= {"cores_used_by_others": others, "huey_default_is_durable": durable}
    finish(machine, rows, failures)
    return 1 if failures else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fairway and Huey on SQLite, side by side.")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, one round")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--sides", default=",".join(SIDES), help=f"some of {','.join(SIDES)}")
    parser.add_argument("--jobs", type=int, help="backlog of a drain (50,000)")
    parser.add_argument("--memory-jobs", type=int, help="jobs of the memory row (200,000)")
    asked = parser.parse_args()
    asked.only, asked.sides = asked.only.split(","), asked.sides.split(",")
    if unknown := {*asked.only, *asked.sides} - {*PARTS, *SIDES}:
        parser.error(f"no such part or side: {', '.join(sorted(unknown))}")
    return asked


def attempt(part: Iterator[Row], name: str, rows: list[Row], failures: list[str]) -> None:
    """Measure one part; what it yielded before a failure is kept."""
    try:
        for row in part:
            rows.append(row)
            print(row.line(), flush=True)
    except Exception as error:
        traceback.print_exc()
        failures.append(f"{name}: {type(error).__name__}: {error}")


def finish(machine: dict[str, Any], rows: list[Row], failures: list[str]) -> None:
    """Print the table and keep the numbers."""
    durable = machine["huey_default_is_durable"]
    default = "commits with fsync (the row 'huey fsync')" if durable else "is not durable ('huey no fsync')"
    print("\n" + table(rows, against=huey_side.side_name("on")) + "\n")
    print(
        "\n".join(
            (*NOTES, f"Huey's own default on this SQLite {default}; Fairway always commits with fsync.")
        )
    )
    if max(machine["cores_used_by_others"].values(), default=0.0) > BUSY_CORES:
        print("OTHER PROGRAMS WERE BUSY meanwhile: neither these numbers nor their ratios are to be trusted.")
    for failure in failures:
        print(f"NOT MEASURED  {failure}", file=sys.stderr)
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "rows": [row.as_json() for row in rows], "failures": failures}
    (RESULTS / "latest.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
