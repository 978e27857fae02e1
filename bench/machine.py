"""Where a measurement runs: its directory, its machine, and what a process tree has cost."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psutil

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


@contextlib.contextmanager
def work_directory() -> Iterator[Path]:
    """Lend a fresh directory on the project's disk: the system's may be in memory, where fsync is free."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="work-", dir=RESULTS))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Cost(NamedTuple):
    """What a process and its children used: CPU seconds so far, memory now."""

    cpu_seconds: float
    rss: int
    rss_of_root: int


def cost_of(pid: int) -> Cost:
    """Read the cost of a process tree; children that ended are counted in their parents."""
    root = psutil.Process(pid)
    cpu, rss, rss_of_root = 0.0, 0, 0
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times, memory = process.cpu_times(), process.memory_info().rss
            cpu += times.user + times.system
            rss += memory
            rss_of_root = rss_of_root or memory
    return Cost(cpu, rss, rss_of_root)


def stop(process: subprocess.Popen[bytes], grace_seconds: float = 15.0) -> None:
    """Ask a process to end, then insist; its children go with it."""
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(grace_seconds)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def busy_with_others(seconds: float = 0.5) -> float:
    """Return how many cores other programs use, sampled while nothing of ours runs."""
    return float(psutil.cpu_percent(seconds)) / 100 * (os.cpu_count() or 1)


def facts() -> dict[str, Any]:
    """Say what machine this is; a number without it means nothing."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "filesystem": filesystem_of(ROOT),
        "sqlite_of_fairway": apsw.sqlite_lib_version(),
        "sqlite_of_huey": sqlite3.sqlite_version,
    }


def cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def filesystem_of(path: Path) -> str:
    """Name the file system the databases stand on."""
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"
