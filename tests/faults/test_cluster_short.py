"""A cluster on PostgreSQL under every kind of fault, a few times each and with short timers."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.faults.strikes import (
    end_backends,
    freeze_leader,
    freeze_worker,
    kill_database,
    kill_leader,
    kill_worker,
)
from tests.faults.trial import run_trial
from tests.postgres import TempPostgres

SCALE = 0.4


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_killed_leader_costs_nothing(tmp_path: Path, server: TempPostgres) -> None:
    with Cluster(tmp_path, server.new_database(), scale=SCALE) as cluster:
        report = run_trial("leader killed", cluster, kill_leader, times=3)
    assert report.verdict.is_clean, report.verdict


@pytest.mark.timeout(180)
def test_one_fault_of_each_kind_costs_nothing(tmp_path: Path, server: TempPostgres) -> None:
    dsn = server.new_database()
    strikes = [kill_worker, kill_database(server), freeze_worker, end_backends(dsn), freeze_leader]
    turns = cycle(strikes)
    with Cluster(tmp_path, dsn, scale=SCALE) as cluster:
        report = run_trial("one of each", cluster, lambda struck: next(turns)(struck), times=len(strikes))
    assert report.verdict.is_clean, report.verdict
