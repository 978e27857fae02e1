"""Fairway and its peers on one PostgreSQL, in one run.

    python -m bench.peers [--quick] [--only drain,single,latency,rest,backlog,idle] [--sides fairway,...]

Drains and latencies go in turns: every side once, then every side again, so that a machine that is slower for
a minute is so for all. Prints each number with its ratio to Fairway's, then Fairway against the best peer and
against the raw limit, and writes bench/results/peers.json. The exit code is 1 only when something could not
be measured.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

from bench import resting
from bench.machine import busy_with_others, facts
from bench.peers import measure, report
from bench.peers.fairway_pg import fairway_sides
from bench.peers.install import install
from bench.peers.raw import Raw
from bench.peers.redis_peers import redis_peers
from bench.peers.roster import postgres_peers, with_two_slots
from bench.peers.server import SERVERS, Server, filesystem_of_temporaries, running_server
from bench.peers.side import Side
from bench.rows import Row, median

PARTS = ("drain", "single", "latency", "rest", "backlog", "idle")
#: Milliseconds that a job sleeps, and how many of them.
RESTS = ((1, 4000), (5, 1000), (20, 300), (100, 60))
BULK = "bulk submit, 5,000 a call"
DRAIN = "drain of no-op jobs"
SHORT_BACKLOG = 10_000
REST_ROUNDS = 3
QUICK = 10_000  # jobs a second: a side that drains faster is measured more than once


class Run:
    """What one run was asked to measure, and the sides that are there."""

    def __init__(self, asked: argparse.Namespace, server: Server, sides: list[Side]) -> None:
        quick = asked.quick
        self.sides = sides
        self.limit = Raw(server) if not asked.sides or Raw.name in asked.sides else None
        self.jobs: int = asked.jobs or (10_000 if quick else 100_000)
        self.rounds: int = asked.rounds or (1 if quick else 5)
        self.long_backlog: int = asked.backlog or (100_000 if quick else 1_000_000)
        self.long_rounds = 1 if quick else 3
        self.samples: int = asked.samples or (50 if quick else 100)
        self.singles = 500 if quick else 3000
        self.idle_seconds = 10 if quick else 30
        self.rows: list[Row] = []
        self.failures: list[str] = []

    def drain(self) -> None:
        """A backlog of no-ops, the sides and the server's own limit in turns."""
        found: dict[str, list[measure.Drained]] = {side.name: [] for side in self.sides}
        for number in range(self.rounds):
            print(f"  round {number + 1} of {self.rounds}", flush=True)
            for side in self.sides:
                if number and all(run.is_slow for run in found[side.name]):
                    continue  # minutes a round, and tens of times behind: once tells enough
                self._drain_once(side, found[side.name])
            self._limit_once()
        for side in self.sides:
            if runs := found[side.name]:
                self._take(side.name, self._drain_rows(side, runs))
        if self.limit is not None:
            self._take(Raw.name, self.limit.rows())

    def single(self) -> None:
        """Submits one by one."""
        for side in self.sides:
            self._take(f"single {side.name}", measure.single(side, self.singles))

    def latency(self) -> None:
        """From the submit call to the first line of the task, the sides in turns."""
        found: dict[str, list[Sequence[float]]] = {side.name: [] for side in self.sides}
        for number in range(self.rounds):
            print(f"  round {number + 1} of {self.rounds}", flush=True)
            for side in self.sides:
                try:
                    found[side.name].append(measure.latency(side, self.samples))
                except Exception as error:
                    self._failed(f"latency {side.name}", error)
        for side in self.sides:
            if rounds := found[side.name]:
                self._take(f"latency {side.name}", measure.latency_rows(side, rounds))

    def rest(self) -> None:
        """Jobs that sleep: are slots idle though work waits? The sides in turns."""
        for millis, jobs in RESTS:
            found: dict[str, list[float]] = {}
            for _ in range(min(self.rounds, REST_ROUNDS)):
                for side in with_two_slots(self.sides):
                    try:
                        found.setdefault(side.name, []).append(measure.rest(side, millis, jobs))
                    except Exception as error:
                        self._failed(f"rest {side.name}", error)
            found[resting.SIDE] = [resting.busy_part(millis / 1000, jobs) for _ in range(REST_ROUNDS)]
            name = f"slot efficiency, jobs of {millis} ms"
            for side_name, parts in found.items():
                self._take(f"rest {side_name}", iter([median(name, side_name, parts, "", f"{jobs} jobs")]))

    def backlog(self) -> None:
        """The same drain from a short and from a very long backlog; a matter of tables, not of Redis."""
        for side in (side for side in self.sides if side.durable):
            self._take(f"backlog {side.name}", self._backlog_rows(side))

    def idle(self) -> None:
        """What workers with nothing to do cost."""
        for side in self.sides:
            self._take(f"idle {side.name}", measure.idle(side, self.idle_seconds))

    def _drain_once(self, side: Side, runs: list[measure.Drained]) -> None:
        try:
            drained = measure.drain(side, self.jobs)
        except Exception as error:
            self._failed(f"drain {side.name}", error)
        else:
            runs.append(drained)
            print(f"    {side.name:<16} {drained.drained:>9,.0f} jobs/s", flush=True)

    def _limit_once(self) -> None:
        try:
            if self.limit is not None:
                print(f"    {Raw.name:<16} {self.limit.measure(self.jobs)}", flush=True)
        except Exception as error:
            self._failed(Raw.name, error)

    def _drain_rows(self, side: Side, runs: list[measure.Drained]) -> Iterator[Row]:
        note = measure.drain_note(side, runs, self.jobs)
        yield median(DRAIN, side.name, [run.drained for run in runs], "jobs/s", note)
        yield median(BULK, side.name, [run.submitted for run in runs], "jobs/s")

    def _backlog_rows(self, side: Side) -> Iterator[Row]:
        """Short drains before and after each long one: what lasts 0.2 s says little of a machine's pace."""
        short, long = self._short_drains(side), list[measure.Drained]()
        while not long or (len(long) < self.long_rounds and long[0].drained > QUICK):
            long.append(measure.drain(side, self.long_backlog))
            short += self._short_drains(side)
        for clock, words in (("from_go", "from the word go"), ("drained", "from the first jobs done")):
            found = list[Row]()
            for jobs, runs in ((SHORT_BACKLOG, short), (self.long_backlog, long)):
                rates = [getattr(run, clock) for run in runs]
                name = f"drain from a backlog of {jobs:,}, {words}"
                found.append(median(name, side.name, rates, "jobs/s", runs[-1].checked))
            yield from found
            name = f"the long one against the short one, {words}"
            yield Row(name, side.name, found[1].value / found[0].value, "×")

    def _short_drains(self, side: Side) -> list[measure.Drained]:
        """Drain a short backlog again and again; one that takes seconds is measured well enough by once."""
        runs = [measure.drain(side, SHORT_BACKLOG)]
        while len(runs) < self.rounds and runs[0].drained > QUICK:
            runs.append(measure.drain(side, SHORT_BACKLOG))
        return runs

    def _take(self, name: str, rows: Iterator[Row]) -> None:
        """Keep what is measured, also what came before a failure."""
        try:
            for row in rows:
                self.rows.append(row)
                print(row.line(), flush=True)
        except Exception as error:
            self._failed(name, error)

    def _failed(self, name: str, error: Exception) -> None:
        traceback.print_exception(error)
        self.failures.append(f"{name}: {type(error).__name__}: {error}")


def main() -> int:
    """Run what was asked for; return the exit code."""
    signal.signal(signal.SIGTERM, end)
    asked, machine = parse(), facts()
    machine["peers"] = install(asked.upgrade)
    others: dict[str, float] = {}
    with ExitStack() as stack:
        server = stack.enter_context(running_server(asked.server))
        machine |= {"postgresql": server.version(), "settings": server.settings()}
        machine |= {"filesystem": filesystem_of_temporaries()}
        sides = chosen(asked, server, stack)
        print("  ".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
        run = Run(asked, server, sides)
        for part in asked.only:
            others[part] = busy_with_others()
            print(f"{part} ... (other programs use {others[part]:.2f} cores)", flush=True)
            PART[part](run)
    report.finish(machine | {"cores_used_by_others": others}, run.rows, run.failures, sides)
    return 1 if run.failures else 0


PART: dict[str, Callable[[Run], None]] = {name: getattr(Run, name) for name in PARTS}


def chosen(asked: argparse.Namespace, server: Server, stack: ExitStack) -> list[Side]:
    """Return the sides that were asked for and can be run here."""
    there: list[Side] = [*fairway_sides(server), *postgres_peers(server)]
    if not asked.sides or {"celery", "dramatiq"} & set(asked.sides):
        there += stack.enter_context(redis_peers())
    if unknown := set(asked.sides) - {side.name for side in there} - {Raw.name}:
        print(f"cannot be measured here: {', '.join(sorted(unknown))}", flush=True)
    return [side for side in there if not asked.sides or side.name in asked.sides]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fairway and its peers on one PostgreSQL, side by side.")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, one round")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--sides", default="", help="some of them, by name; all unless told")
    parser.add_argument("--rounds", type=int, help="rounds of drains and latencies (5)")
    parser.add_argument("--jobs", type=int, help="backlog of a drain (100,000)")
    parser.add_argument("--backlog", type=int, help="the long backlog (1,000,000)")
    parser.add_argument("--samples", type=int, help="samples of a latency in each round (100)")
    parser.add_argument(
        "--server", choices=SERVERS, default=SERVERS[0], help="whose PostgreSQL (the wheel's)"
    )
    parser.add_argument("--upgrade", action="store_true", help="install the peers anew, newest versions")
    asked = parser.parse_args()
    asked.only, asked.sides = asked.only.split(","), [name for name in asked.sides.split(",") if name]
    if unknown := set(asked.only) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return asked


def end(number: int, frame: FrameType | None) -> Any:
    """Leave through every `finally`, so that no process stays behind."""
    sys.exit(128 + number)
