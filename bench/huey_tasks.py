"""Huey's half: the same tasks as bench/tasks.py. File and fsync come from the environment."""

from __future__ import annotations

import os
import time

from huey import SqliteHuey  # type: ignore[import-untyped]

FSYNC = {"on": True, "off": False, "default": None}[os.environ.get("BENCH_HUEY_FSYNC", "default")]

huey = SqliteHuey(filename=os.environ["BENCH_HUEY_FILE"], fsync=FSYNC)


@huey.task()  # type: ignore[untyped-decorator]
def nothing() -> None:
    """Do nothing: what is left is the queue's own cost."""


@huey.task()  # type: ignore[untyped-decorator]
def stamp(path: str) -> None:
    """Write down when the first line ran."""
    moment = time.monotonic_ns()
    with open(path, "ab", buffering=0) as file:  # noqa: PTH123 (a bare open: the least between us and the disk)
        file.write(moment.to_bytes(8, "big"))


@huey.task()  # type: ignore[untyped-decorator]
def rest(seconds: float) -> None:
    """Take so long."""
    time.sleep(seconds)
