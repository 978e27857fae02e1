"""Two processes that only sleep: how busy slots can be at all, on this machine, with jobs that sleep so long.

A sleep takes longer than it was asked for, by as much as the machine takes to wake somebody up. Whoever runs
jobs that sleep can only be held against that.
"""

from __future__ import annotations

import subprocess
import sys
import time

SLOTS = 2
PATIENCE_SECONDS = 120.0
SIDE = "two loops"


def sleep_often(seconds: float, times: int) -> float:
    """Sleep again and again; return how long that took."""
    started = time.perf_counter()
    for _ in range(times):
        time.sleep(seconds)
    return time.perf_counter() - started


def busy_part(seconds: float, jobs: int) -> float:
    """Return the part of two processes' time that they would have slept if a sleep took what it says."""
    each = jobs // SLOTS
    command = [sys.executable, "-m", "bench.resting", str(seconds), str(each)]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(SLOTS)]
    taken = [float(loop.communicate(timeout=PATIENCE_SECONDS)[0]) for loop in loops]
    return SLOTS * each * seconds / sum(taken)


if __name__ == "__main__":
    print(sleep_often(float(sys.argv[1]), int(sys.argv[2])))
