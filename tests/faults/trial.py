"""One fault run: load, faults, drain, verdict, report."""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.faults.cluster import Cluster
from tests.faults.judging import SECOND, Outage, Run, Verdict, comebacks, judge, read_runs, silence_after
from tests.faults.load import LIMITS, Accepted, Load
from tests.faults.strikes import Fault, Strike

#: At least; a heavy load may take twice its work, a lease and 30 s (invariant 8).
DRAIN_SECONDS, LEASE_AND_MORE = 120.0, 40.0
FEWEST_JOBS = 100
#: What a job takes of a queue that runs one at a time, beside its own seconds.
OVERHEAD_SECONDS = 0.01


@dataclass(slots=True)
class Report:
    """What a run did and found."""

    name: str
    faults: list[Fault]
    accepted: dict[str, Accepted]
    again: str
    runs: list[Run]
    verdict: Verdict
    until: int
    silences: list[float] = field(default_factory=list)
    comebacks: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        verdict, most = self.verdict, max(len(self.faults), 1)
        lines = [
            f"{self.name}: faults {len(self.faults)}, accepted {len(self.accepted)}"
            f" ({self.again}), in flight at a fault {self._in_flight():.0f},"
            f" {dict(verdict.states)}",
            f"  lost {len(verdict.lost)}, doubled {len(verdict.doubled)},"
            f" over limit {len(verdict.over_limit)}, otherwise wrong {len(verdict.wrong)};"
            f" {verdict.at_limit} of {len(LIMITS)} queues were at their limit; 95 % bound per fault 3/{most}",
            f"  begins resumed after {_spread(self.silences)}",
        ]
        if self.comebacks:
            lines.append(f"  {len(self.comebacks)} lost jobs started again after {_spread(self.comebacks)}")
        return "\n".join(lines)

    def _in_flight(self) -> float:
        """Return how many accepted jobs had not ended when a fault struck, on average."""
        last = {run.job: run.end for run in self.runs}
        jobs = [(promise.at, last.get(job, 0)) for job, promise in self.accepted.items()]
        counts = [sum(begun < fault.at < end for begun, end in jobs) for fault in self.faults]
        return statistics.mean(counts) if counts else 0.0


def run_trial(
    name: str, cluster: Cluster, strike: Strike, times: int, pause: float = 0.012, seed: int = 7
) -> Report:
    """Strike a loaded cluster some times, let it drain, and judge; print the report."""
    pick = random.Random(seed)
    set_limits(cluster)
    faults = []
    with Load(cluster.urls, pause=pause, seed=seed) as load:
        for _ in range(times):
            cluster.until_work_starts()
            time.sleep(pick.uniform(0.5, 1.5))  # so that faults meet the cluster at any moment
            faults.append(strike(cluster))
        cluster.until_work_starts()
        time.sleep(1.0)  # so that the last silence has an end
        until = time.monotonic_ns()
    report = make_report(name, cluster, faults, load, until)
    print(f"\n{report}", flush=True)
    return report


def make_report(name: str, cluster: Cluster, faults: list[Fault], load: Load, until: int) -> Report:
    """Wait until all is done, and join the witnesses."""
    work = longest_work(load.accepted.values())
    final = until_drained(cluster, max(DRAIN_SECONDS, 2 * work + LEASE_AND_MORE))
    runs = read_runs(cluster.witnesses())
    outages = [fault.outage for fault in faults if fault.outage is not None]
    verdict = judge(load.accepted, final, runs, outages)
    verdict.wrong += load.troubles[:10]
    verdict.wrong += [f"one key made two jobs: {pair}" for pair in load.repeats if pair[0] != pair[1]]
    if verdict.at_limit < 3 or len(load.accepted) < FEWEST_JOBS:
        verdict.wrong.append(f"too little load to mean anything: {len(load.accepted)} jobs")
    report = Report(name, faults, load.accepted, load.again, runs, verdict, until)
    measure(report, outages)
    return report


def measure(report: Report, outages: list[Outage]) -> None:
    """Add the times until begins resumed, and until lost jobs started again."""
    ends = [*(fault.at for fault in report.faults[1:]), report.until]
    for fault, end in zip(report.faults, ends, strict=True):
        report.silences.append(silence_after(report.runs, fault.at, end) / SECOND)
    for outage in outages:
        report.comebacks += [wait / SECOND for wait in comebacks(report.runs, outage, outages)]


def set_limits(cluster: Cluster) -> None:
    """Give every queue of the load its limit."""
    leader = cluster.until_led()
    for queue, limit in LIMITS.items():
        answer = leader.http.put(f"/v1/queues/{queue}", json={"limit": limit})
        assert answer.status_code == 200, answer.text


def longest_work(accepted: Iterable[Accepted]) -> float:
    """Return the seconds that the queue needs which needs longest: what it got, by its limit."""
    work: dict[str, float] = defaultdict(float)
    for job in accepted:
        seconds = 0.0 if job.spec["task"].endswith("fail_at_first") else job.spec["args"][0]
        work[job.spec["queue"]] += seconds + OVERHEAD_SECONDS
    return max((seconds / LIMITS[queue] for queue, seconds in work.items()), default=0.0)


def until_drained(cluster: Cluster, seconds: float) -> dict[str, dict[str, Any]]:
    """Wait until every job has ended, and return them all."""
    deadline = time.monotonic() + seconds
    counts: list[int] = []
    while time.monotonic() < deadline:
        try:
            counts = cluster.any_node().counts("state:waiting queue:load/**", "state:running queue:load/**")
            if counts == [0, 0]:
                return read_jobs(cluster.any_node().http)
        except (httpx.HTTPError, KeyError):  # not answered just now
            pass
        time.sleep(0.2)
    raise AssertionError(
        f"not drained after {seconds:.0f} s (invariant 1, 8): waiting, running {counts}\n{cluster.said()}"
    )


def read_jobs(http: httpx.Client) -> dict[str, dict[str, Any]]:
    """Read all jobs of the load from the store, page by page."""
    jobs: dict[str, dict[str, Any]] = {}
    asked: dict[str, Any] = {"q": "queue:load/**", "limit": 500}
    while True:
        page = http.get("/v1/jobs", params=asked).json()
        jobs |= {job["id"]: job for job in page["jobs"]}
        if not page["next"]:
            return jobs
        asked["cursor"] = page["next"]


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "–"
    return f"p50 {statistics.median(seconds):.2f} s, max {max(seconds):.2f} s"
