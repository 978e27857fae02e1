"""The long fault runs of a cluster on PostgreSQL, one kind of fault each, with the timers users have."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import pytest

from tests.faults.cluster import Cluster
from tests.faults.drill import drill
from tests.faults.strikes import (
    Strike,
    end_backends,
    freeze_leader,
    freeze_worker,
    kill_database,
    kill_leader,
    kill_worker,
)
from tests.faults.trial import Report, run_trial
from tests.pgbouncer import PgBouncer
from tests.postgres import TempPostgres

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

LEADER_KILLS = int(os.environ.get("FAIRWAY_TEST_KILLS", "30"))
SLACK_SECONDS = 2.0


def strike_often(folder: Path, dsn: str, name: str, strike: Strike, times: int, nodes: int = 3) -> Report:
    """Run one kind of fault; whatever it was, nothing is lost, doubled or over its limit."""
    with Cluster(folder, dsn, nodes=nodes) as cluster:
        report = run_trial(name, cluster, strike, times)
    assert report.verdict.is_clean, report.verdict
    return report


def test_leaders_killed(tmp_path: Path, server: TempPostgres) -> None:
    report = strike_often(tmp_path, server.new_database(), "leader killed", kill_leader, LEADER_KILLS)
    assert max(report.silences) <= 5.0 + SLACK_SECONDS, "begins resume within the leader's TTL and 2 s"


def test_workers_killed(tmp_path: Path, server: TempPostgres) -> None:
    report = strike_often(tmp_path, server.new_database(), "worker killed", kill_worker, 15)
    assert report.comebacks, "no kill met a running job"
    assert max(report.comebacks) <= 10.0 + SLACK_SECONDS, "lost jobs start again within the lease and 2 s"


def test_leaders_frozen(tmp_path: Path, server: TempPostgres) -> None:
    with Cluster(tmp_path, server.new_database()) as cluster:
        report = run_trial("leader frozen", cluster, freeze_leader, 8)
        deposed = cluster.number("fairway_deposed_total")
    assert report.verdict.is_clean, report.verdict
    assert deposed > 0, "what a leader writes after its term must be refused and counted"
    assert max(report.silences) <= 5.0 + SLACK_SECONDS


def test_workers_frozen(tmp_path: Path, server: TempPostgres) -> None:
    with Cluster(tmp_path, server.new_database()) as cluster:
        report = run_trial("worker frozen", cluster, freeze_worker, 5)
        stale = cluster.number("fairway_jobs_stale_total")
    assert report.verdict.is_clean, report.verdict
    assert stale > 0, "what a worker says after its lease must be refused and counted"
    # Half of the slots are left: of several that wait again, some begin with their queue's next turn.
    assert median(report.comebacks) <= 10.0 + SLACK_SECONDS, "lost jobs wait again within the lease and 2 s"


def test_the_database_killed(tmp_path: Path, server: TempPostgres) -> None:
    strike_often(tmp_path, server.new_database(), "PostgreSQL killed", kill_database(server), 10, nodes=2)


def test_sessions_ended(tmp_path: Path, server: TempPostgres) -> None:
    dsn = server.new_database()
    strike_often(tmp_path, dsn, "sessions ended", end_backends(dsn), 15, nodes=2)


def test_leaders_killed_behind_pgbouncer(tmp_path: Path, server: TempPostgres) -> None:
    with PgBouncer(server.new_database()) as pooler:
        report = strike_often(tmp_path, pooler.dsn, "PgBouncer, leader killed", kill_leader, 5, nodes=2)
    assert max(report.silences) <= 5.0 + SLACK_SECONDS


def test_the_patroni_drill(tmp_path: Path) -> None:
    verdict = drill(tmp_path, fail_overs=5).verdict
    assert verdict.is_clean, verdict
