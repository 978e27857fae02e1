"""Very many keys with a limit of one: a queue each, whose jobs bring the limit with them.

Jobs of all keys wait at once and are run by several workers, while leaders and workers are killed. In the end
the witnesses say whether two jobs of one key ever ran at the same time, and whether each job ran to its end.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import httpx
import psutil

from tests.faults.cluster import Cluster
from tests.faults.judging import NEVER, Outage, Run, cut, most_at_once, read_runs
from tests.faults.load import REFUSALS
from tests.faults.strikes import Fault, kill_leader, kill_worker

BULK = 10_000
MEGABYTE = 1_000_000
JOB_BYTES = 100  # of a witness: two lines, at least


@dataclass(slots=True)
class Result:
    """What a run did and found; the lists must be empty."""

    keys: int
    jobs: int
    submit_seconds: float = 0.0
    seconds: float = 0.0
    megabytes: float = 0.0
    faults: list[Fault] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    again: int = 0

    def __str__(self) -> str:
        return (
            f"{self.keys} keys of limit 1, {self.jobs} jobs submitted in {self.submit_seconds:.1f} s,"
            f" done after {self.seconds:.0f} s; {len(self.faults)} kills, {self.again} jobs begun again;"
            f" two at once {len(self.doubled)}, lost {len(self.lost)};"
            f" nodes used {self.megabytes:.0f} MB at most"
        )


def run_keys(cluster: Cluster, keys: int, each: int, kills: int, patience: float, seed: int = 7) -> Result:
    """Let *each* jobs of every key wait, kill while they run, wait for the rest, and judge."""
    pick, began = random.Random(seed), time.monotonic()
    result = Result(keys, keys * each)
    cluster.until_led()
    jobs = submit_keys(cluster, keys, each, pick)
    result.submit_seconds = time.monotonic() - began
    for number, strike in enumerate(islice(cycle([kill_worker, kill_leader]), kills)):
        until_run(cluster, result.jobs * (number + pick.random()) / (kills + 1), patience)
        result.faults.append(strike(cluster))
        result.megabytes = max(result.megabytes, megabytes(cluster))
    until_done(cluster, result, patience)
    result.seconds = time.monotonic() - began
    judge(result, jobs, read_runs(cluster.witnesses()))
    print(f"\n{result}", flush=True)
    return result


def submit_keys(cluster: Cluster, keys: int, each: int, pick: random.Random) -> dict[str, str]:
    """Submit a job of each key, again and again; return the keys by job."""
    accepted: dict[str, str] = {}
    for _ in range(each):
        for first in range(0, keys, BULK):
            names = [f"keys/k{number}" for number in range(first, min(first + BULK, keys))]
            jobs = [draw_job(name, pick) for name in names]
            accepted |= dict(zip(submit(cluster, jobs), names, strict=True))
    return accepted


def draw_job(queue: str, pick: random.Random) -> dict[str, Any]:
    """Draw a job of a key."""
    seconds = pick.choice([0.0, 0.001, 0.01, 0.05])
    job = {"queue": queue, "task": "tests.faults.tasks.work", "args": [seconds]}
    return job | {"concurrency": 1, "max_crashes": 1000}


def submit(cluster: Cluster, jobs: list[dict[str, Any]], patience: float = 120.0) -> list[str]:
    """Submit jobs together, at any node that takes them."""
    headers, deadline = {"Idempotency-Key": uuid.uuid4().hex}, time.monotonic() + patience
    said = ""
    while time.monotonic() < deadline:
        for node in cluster.nodes:
            try:
                answer = node.http.post("/v1/jobs/bulk", json={"jobs": jobs}, headers=headers, timeout=60)
            except httpx.TransportError as error:
                said = repr(error)
                continue
            if answer.status_code == 200:
                return list(answer.json()["ids"])
            assert answer.status_code in REFUSALS, answer.text
            said = answer.text
        time.sleep(0.2)
    raise AssertionError(f"not taken within {patience:g} s: {said}\n{cluster.said()}")


def until_run(cluster: Cluster, jobs: float, patience: float) -> None:
    """Wait until about so many jobs have run, so that kills meet all of the run."""
    deadline = time.monotonic() + patience
    while cluster.witnessed() < jobs * JOB_BYTES:
        assert time.monotonic() < deadline, (
            f"fewer than {jobs:.0f} jobs ran in {patience:g} s\n{cluster.said()}"
        )
        time.sleep(0.05)


def until_done(cluster: Cluster, result: Result, patience: float) -> None:
    """Wait until every job has succeeded."""
    deadline, counts = time.monotonic() + patience, [-1]
    states = ("waiting", "running", "failed,cancelled,unknown")
    while time.monotonic() < deadline:
        result.megabytes = max(result.megabytes, megabytes(cluster))
        try:
            counts = cluster.until_led().counts(*(f"state:{some} queue:keys/*" for some in states))
        except (httpx.HTTPError, KeyError):  # not answered just now
            counts = [-1]
        if counts == [0, 0, 0]:
            return
        time.sleep(0.5)
    raise AssertionError(f"{dict(zip(states, counts, strict=False))} after {patience:g} s\n{cluster.said()}")


def megabytes(cluster: Cluster) -> float:
    """Return what the largest node uses."""
    alive = [
        node.process for node in cluster.nodes if node.process is not None and node.process.poll() is None
    ]
    return max(psutil.Process(process.pid).memory_info().rss for process in alive) / MEGABYTE


def judge(result: Result, jobs: dict[str, str], runs: list[Run]) -> None:
    """Compare what was accepted with what the witnesses saw."""
    outages = [fault.outage for fault in result.faults if fault.outage is not None]
    by_key: dict[str, list[Run]] = defaultdict(list)
    ended: set[str] = set()
    for run in runs:
        by_key[run.queue].append(run)
        if run.end < NEVER:
            ended.add(run.job)
    result.again = len(runs) - len({run.job for run in runs})
    result.doubled = [key for key, some in by_key.items() if is_doubled(some, outages)]
    result.lost = [f"{job} of {key}" for job, key in jobs.items() if job not in ended]


def is_doubled(runs: list[Run], outages: list[Outage]) -> bool:
    """Say whether two of one key's attempts ran at once, or one twice."""
    attempts = [(run.job, run.attempt) for run in runs]
    return most_at_once(cut(run, outages) for run in runs) > 1 or len(set(attempts)) < len(attempts)
