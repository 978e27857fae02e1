"""How much memory a leader needs for a very long backlog: `make bench-backlog`, ten million jobs.

The core alone takes in the jobs as a new leader does, page by page: half of them in a thousand queues of two
hundred tenants, half in fair queues with fifty thousand flows.
"""

from __future__ import annotations

import argparse
import time

import psutil

from fairway.core import events as happened
from fairway.core.model import Arrival, Moment, WorkerSpec, shape_of
from fairway.core.scheduler import Core
from fairway.stores.backlog import page_of

PAGE = 10_000
WALL = 1_800_000_000_000_000


def main() -> None:
    """Load the backlog and say what it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000_000)
    asked = parser.parse_args()
    core, process = Core(), psutil.Process()
    before, started = process.memory_info().rss, time.perf_counter()
    for path in (f"fair/q{number}" for number in range(50)):
        core.absorb(happened.QueueFound(path, {"discipline": "sfq"}), Moment(WALL, 0.0))
    for first in range(0, asked.jobs, PAGE):
        page = page_of([arrival(number) for number in range(first, min(first + PAGE, asked.jobs))])
        if page is not None:
            core.absorb(happened.Loaded(page.others, alike=page.alike), Moment(WALL, first / 1e6))
        core.plan(Moment(WALL, first / 1e6))
        if first % 1_000_000 == 0:
            print(f"  {first:>12,} jobs  {megabytes(process) - before / 1e6:,.0f} MB", flush=True)
    seconds = time.perf_counter() - started
    print(
        f"{asked.jobs:,} waiting jobs in {len(core.world.tree.queues):,} queues: "
        f"{megabytes(process) - before / 1e6:,.0f} MB, loaded in {seconds:.0f} s"
    )
    spec = WorkerSpec("w", "w-1", 4, frozenset({"python", "command"}))
    core.absorb(happened.Joined(spec, (), (), None, 0.0, {}), Moment(WALL + 1, 100.0))
    started = time.perf_counter()
    plan = core.plan(Moment(WALL + 1, 100.0))
    begun = sum(len(begin.jobs) for begin in plan.batch.begins)
    print(f"the next plan begins {begun} jobs in {(time.perf_counter() - started) * 1e3:.2f} ms")


def arrival(number: int) -> Arrival:
    """Return one waiting job: plain in one of a thousand queues, or of a flow in a fair one."""
    shape = shape_of("command", "", (), False)
    job, place = 10**12 + number, WALL - 10**10 + number
    if number % 2:
        return Arrival(job, f"t{number % 200}/q{number % 1000}", None, 0, shape, place)
    return Arrival(job, f"fair/q{number % 50}", f"user{number // 2 % 50_000}", 0, shape, place)


def megabytes(process: psutil.Process) -> float:
    """Return what the process holds."""
    return float(process.memory_info().rss) / 1e6


if __name__ == "__main__":
    main()
