"""The checker: joins what clients were promised, what witnesses saw and what the store says in the end.

Nothing here asks the system about itself but for the final states. Runs are read from the witness files, one
per worker. A worker that was killed or frozen no longer counts from that moment on: its code is gone, or is
allowed to run on while the attempt is given to another (`keep`); after a thaw it has one second to find out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests import witness
from tests.faults.load import LIMITS, Accepted

SECOND = 1_000_000_000
NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Outage:
    """A worker that could not work: killed for good, or frozen until it was thawed."""

    worker: str
    at: int
    until: int = NEVER


@dataclass(frozen=True, slots=True)
class Run:
    """The code of one attempt, from its first line to its last."""

    job: str
    attempt: int
    queue: str
    worker: str
    start: int
    end: int


@dataclass(slots=True)
class Verdict:
    """What was found; every list must be empty. *at_limit* counts the queues that were full at some time."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    over_limit: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    at_limit: int = 0
    states: Counter[str] = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.lost or self.doubled or self.over_limit or self.wrong)


def judge(
    accepted: Mapping[str, Accepted],
    final: Mapping[str, Mapping[str, Any]],
    runs: list[Run],
    outages: list[Outage],
) -> Verdict:
    """Compare what was promised with what happened."""
    verdict = Verdict()
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_job[run.job].append(run)
    for job, promise in accepted.items():
        judge_job(verdict, job, promise, final.get(job), by_job[job], bool(outages))
    for job, some in by_job.items():
        judge_runs(verdict, job, some, final.get(job), outages)
    for queue, limit in LIMITS.items():
        most = most_at_once(cut(run, outages) for run in runs if run.queue == queue)
        verdict.at_limit += most >= limit
        if most > limit:
            verdict.over_limit.append(f"{queue} ran {most} at once, limit {limit} (invariant 3)")
    return verdict


def judge_job(
    verdict: Verdict,
    job: str,
    promise: Accepted,
    found: Mapping[str, Any] | None,
    runs: list[Run],
    harmed: bool,
) -> None:
    """Judge one accepted job by its end. *harmed*: workers were, so that nobody may know how some ended."""
    state = found["state"] if found is not None else "missing"
    verdict.states[state] += 1
    if found is None or state not in ("succeeded", "failed", "unknown"):
        verdict.lost.append(f"{job} is {state} (invariant 1)")
    elif state == "unknown" and not (promise.once and harmed):
        verdict.wrong.append(f"{job} is unknown although no worker was harmed, or it may run again")
    elif state == "succeeded" and not any(run.end < NEVER for run in runs):
        verdict.lost.append(f"{job} succeeded, but nobody saw it run to its end (invariant 1)")
    elif (state == "failed") != promise.hopeless and state != "unknown":
        verdict.wrong.append(f"{job} {state}: {found['outcome']}")
    elif found["max_attempts"] is not None and found["tries"] > found["max_attempts"]:
        verdict.wrong.append(
            f"{job} was tried {found['tries']} times of {found['max_attempts']} (invariant 10)"
        )


def judge_runs(
    verdict: Verdict, job: str, runs: list[Run], found: Mapping[str, Any] | None, outages: list[Outage]
) -> None:
    """Judge one job by its runs: each attempt once, one at a time, at-most-once jobs once in all."""
    attempts = [run.attempt for run in runs]
    if found is not None and found["delivery"] == "at_most_once" and len(runs) > 1:
        verdict.doubled.append(f"at-most-once {job} started as attempts {attempts} (invariant 5)")
    if len(set(attempts)) < len(attempts):
        verdict.doubled.append(f"{job} started an attempt twice: {attempts} (invariant 2)")
    if most_at_once(cut(run, outages) for run in runs) > 1:
        verdict.doubled.append(f"{job} had two live attempts at once: {runs} (invariant 2)")


def read_runs(witnesses: Mapping[str, Path]) -> list[Run]:
    """Read the runs that the workers' witnesses saw, in the order of their starts."""
    runs: list[Run] = []
    for worker, path in witnesses.items():
        open_runs: dict[tuple[str, int, int], Run] = {}
        for line in witness.read(path):
            key = (line.job, line.attempt, line.pid)
            if line.verb == "start":
                open_runs[key] = Run(line.job, line.attempt, line.queue, worker, line.at, NEVER)
            elif key in open_runs:
                runs.append(replace(open_runs.pop(key), end=line.at))
        runs += open_runs.values()
    return sorted(runs, key=lambda run: run.start)


def cut(run: Run, outages: Iterable[Outage]) -> Run:
    """Return the part of a run that counts: up to its worker's outage, nothing if it began during one."""
    for outage in outages:
        thawed = min(outage.until + SECOND, NEVER)
        if outage.worker == run.worker and run.start < thawed and run.end > outage.at:
            run = replace(run, end=max(outage.at, run.start))
    return run


def most_at_once(runs: Iterable[Run]) -> int:
    """Return how many ran at the same time."""
    moments = [moment for run in runs if run.end > run.start for moment in ((run.start, 1), (run.end, -1))]
    most = now = 0
    for _, step in sorted(moments):
        now += step
        most = max(most, now)
    return most


def silence_after(runs: list[Run], at: int, before: int) -> int:
    """Return when the longest pause without starts between *at* and *before* ended, counted from *at*.

    Zero if there was none to speak of: starts are not evenly spread.
    """
    starts = [at, *(run.start for run in runs if at < run.start < before)]
    pauses = [(later - earlier, later - at) for earlier, later in pairwise(starts)]
    length, resumed = max(pauses, default=(before - at, before - at))
    return resumed if length > SECOND // 2 else 0


def comebacks(runs: list[Run], outage: Outage, outages: Iterable[Outage] = ()) -> list[int]:
    """Return how long after a worker's outage the jobs it was running started again elsewhere.

    A job that others of its queue may overtake can be held up by their losses as well: they count against the
    queue's limit until their own leases are over. So it is the last such outage that it is counted from.
    """
    lost = {run.job for run in runs if _caught(run, outage)}
    later = [(other.at, run.queue) for other in outages if other.at > outage.at
             for run in runs if _caught(run, other)]  # fmt: skip
    first: dict[str, int] = {}
    for run in runs:
        if run.job in lost and run.start > outage.at and run.worker != outage.worker:
            held_up = [at for at, queue in later if queue == run.queue and at < run.start]
            first.setdefault(run.job, run.start - max([outage.at, *held_up]))
    return list(first.values())


def _caught(run: Run, outage: Outage) -> bool:
    """Say whether an outage met the code of an attempt."""
    return run.worker == outage.worker and run.start < outage.at < run.end
