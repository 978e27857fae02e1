"""Jobs of a log in the Standard Workload Format, the one of the Parallel Workloads Archive.

A line is a job, in 18 numbers; lines that begin with `;` are comments, -1 means unknown. Of a job the log
says when it was submitted (field 2), how long it ran (4), on how many processors (5; else how many were asked
for, 8), whose it was (12) and which program (14). Jobs that did not run, or of nobody, are left out; so are
lines that cannot be read. A job is one attempt, or `expand` makes one of each processor that it had.

The log's own machine does not matter here: by default there are as many slots as its work fills for the part
`FULL` of the time in which it was submitted.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from bench.fairness.work import Job, Load

FULL = 0.95
LEAST_SLOTS = 4
#: Fields, from 1 as the format counts them.
SUBMIT, RUN_TIME, PROCESSORS, WANTED_PROCESSORS, USER, PROGRAM = 2, 4, 5, 8, 12, 14
#: Lines that are no jobs before a file is no log.
PATIENCE = 100


class NotSwf(Exception):
    """A file is no log in the Standard Workload Format."""


class Log(NamedTuple):
    """What was read of a file: its jobs, and how many lines were left out, by why."""

    load: Load
    skipped: Counter[str]


class _Line(NamedTuple):
    submit: float
    seconds: float
    processors: int
    user: int
    program: int


def read(path: Path, jobs: int = 20_000, slots: int | None = None, expand: bool = False) -> Log:
    """Read the first so many jobs of a log, packed by gzip or not."""
    skipped: Counter[str] = Counter()
    lines: list[_Line] = []
    attempts = 0
    try:
        with _open(path) as file:
            for line in _lines(file, skipped):
                lines.append(line)
                attempts += line.processors if expand else 1
                if attempts >= jobs:
                    break
    except (OSError, EOFError, zlib.error) as error:
        raise NotSwf(f"{path} cannot be read: {error}") from None
    if not lines:
        raise NotSwf(f"{path} has no job in the Standard Workload Format (18 numbers a line)")
    lines.sort()
    made = _jobs(lines, jobs, expand)
    return Log(Load(path.name, made, slots or fitting_slots(made), group=path.name), skipped)


def fitting_slots(jobs: list[Job]) -> int:
    """Return how many slots these jobs fill, while they come, for the part `FULL` of the time."""
    span = jobs[-1].submit - jobs[0].submit
    work = sum(job.seconds for job in jobs)
    return max(round(work / (FULL * span)) if span else 0, LEAST_SLOTS)


@contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        with gzip.open(file, "rt", errors="replace") if is_packed else path.open(errors="replace") as text:
            yield text


def _lines(file: IO[str], skipped: Counter[str]) -> Iterator[_Line]:
    """Yield the jobs of a log; count what is none."""
    is_log = False
    for text in file:
        fields = text.split()
        if not fields or fields[0].startswith(";"):
            continue
        try:
            line = _parse(fields)
        except (IndexError, ValueError, OverflowError):
            skipped["no line of the format"] += 1
            if not is_log and skipped["no line of the format"] > PATIENCE:
                return
            continue
        is_log = True
        if line.seconds <= 0:
            skipped["without a run time"] += 1
        elif line.user < 0 or line.submit < 0:
            skipped["without a user or a submit"] += 1
        else:
            yield line


def _parse(fields: list[str]) -> _Line:
    """Read the fields that matter; a line may be short of those that nobody needs."""
    submit, seconds = float(fields[SUBMIT - 1]), float(fields[RUN_TIME - 1])
    had, wanted = (int(float(fields[number - 1])) for number in (PROCESSORS, WANTED_PROCESSORS))
    program = int(fields[PROGRAM - 1]) if len(fields) >= PROGRAM else -1
    if not (abs(submit) < 1e12 and abs(seconds) < 1e12):
        raise ValueError("no time")
    return _Line(submit, seconds, max(had if had > 0 else wanted, 1), int(fields[USER - 1]), program)


def _jobs(lines: list[_Line], most: int, expand: bool) -> list[Job]:
    start = lines[0].submit
    made: list[Job] = []
    for line in lines:
        task = f"t{line.program}" if line.program >= 0 else ""
        for _ in range(min(line.processors, most - len(made)) if expand else 1):
            made.append(Job(len(made) + 1, f"u{line.user}", line.submit - start, line.seconds, task))
    return made
