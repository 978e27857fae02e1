"""Keys with a limit of one, many workers, kills: never two at once, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.faults.judging import NEVER, Run
from tests.faults.keys import Result, judge, run_keys
from tests.postgres import TempPostgres

MANY = 100_000


def check(cluster: Cluster, keys: int, each: int, kills: int, patience: float) -> None:
    """Run them, and find nothing."""
    with cluster:
        result = run_keys(cluster, keys, each, kills, patience)
    assert (result.doubled[:5], result.lost[:5]) == ([], [])
    assert result.again, "no kill met a running job"


@pytest.mark.timeout(120)
def test_a_hundred_and_fifty_keys(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, f"sqlite:///{tmp_path}/shared.db", workers=2, scale=0.4)
    check(cluster, keys=150, each=4, kills=2, patience=60)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_a_hundred_thousand_keys_on_sqlite(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, f"sqlite:///{tmp_path}/shared.db", workers=4)
    check(cluster, keys=MANY, each=3, kills=12, patience=1000)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_a_hundred_thousand_keys_on_postgresql(tmp_path: Path, server: TempPostgres) -> None:
    cluster = Cluster(tmp_path, server.new_database(), workers=4)
    check(cluster, keys=MANY, each=3, kills=12, patience=1000)


def test_the_judge_sees_two_at_once_and_what_never_ran() -> None:
    runs = [
        Run("one", 1, "keys/a", "w1", 10, 20),
        Run("two", 1, "keys/a", "w2", 19, 30),
        Run("three", 1, "keys/b", "w1", 30, NEVER),
    ]
    result = Result(2, 3)
    judge(result, {"one": "keys/a", "two": "keys/a", "three": "keys/b"}, runs)
    assert (result.doubled, result.lost) == (["keys/a"], ["three of keys/b"])
