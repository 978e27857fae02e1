"""The drill: a Patroni cluster loses its primary again and again under load (`make drill`).

Two nodes and two workers on three PostgreSQL with a synchronous standby. In turns the primary's postmaster is
killed, and the whole member as if it had lost power; each time another member takes over and the lost one
comes back. In the end all drains: nothing lost, nothing doubled; printed are the seconds without begins.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from tests.faults.cluster import Cluster
from tests.faults.strikes import Fault, Strike
from tests.faults.trial import Report, run_trial
from tests.patroni import PatroniCluster


def drill(folder: Path, fail_overs: int) -> Report:
    """Run the whole drill and print what came of it."""
    with PatroniCluster() as database, Cluster(folder, database.dsn) as cluster:
        strikes = fail_over_in_turns(database)
        report = run_trial("Patroni drill", cluster, lambda struck: next(strikes)(struck), fail_overs)
    for fault, seconds in zip(report.faults, report.silences, strict=True):
        print(f"  {fault.what}: {seconds:.1f} s without begins")
    return report


def fail_over_in_turns(database: PatroniCluster) -> Iterator[Strike]:
    """Yield the two ways to lose a primary, for ever."""

    def lose_postmaster(cluster: Cluster) -> Fault:
        primary = find_primary(database)
        at = time.monotonic_ns()
        database.kill_postmaster(primary)
        database.until_primary_is_not(primary)
        return heal(database, cluster, Fault(f"kill -9 of the postmaster of member {primary}", at))

    def lose_member(cluster: Cluster) -> Fault:
        primary = find_primary(database)
        at = time.monotonic_ns()
        database.kill_member(primary)
        database.until_primary_is_not(primary)
        database.start_member(primary)
        return heal(database, cluster, Fault(f"kill -9 of the whole member {primary}", at))

    return cycle([lose_postmaster, lose_member])


def find_primary(database: PatroniCluster) -> int:
    """Return the member to strike; the cluster is healthy, so there is one."""
    primary = database.primary()
    assert primary is not None, database.said()
    return primary


def heal(database: PatroniCluster, cluster: Cluster, fault: Fault) -> Fault:
    """Wait until work goes on and all members are well."""
    cluster.until_work_starts()
    database.until_healthy()
    return fault


def main() -> int:
    """Run the drill from the command line; 0 if nothing was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fail-overs", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fairway-drill-") as folder:
        verdict = drill(Path(folder), chosen.fail_overs).verdict
    for found in [*verdict.lost, *verdict.doubled, *verdict.over_limit, *verdict.wrong][:50]:
        print(f"  {found}", file=sys.stderr)
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
