"""What the doctor thinks of a PostgreSQL: each judge on values, then all of them on Debian's own server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from click.testing import CliRunner

from fairway.cli import postgres_checks
from fairway.cli.checks import Finding
from fairway.cli.main import main
from fairway.cli.postgres_checks import (
    check_postgres,
    judge_commits,
    judge_connections,
    judge_jit,
    judge_replication,
    judge_tables,
    judge_timeouts,
    judge_transactions,
    judge_vacuum,
    judge_wal,
)
from fairway.cli.postgres_reading import OpenTransaction, Server, Setting, Slot, Standby, Taken
from fairway.stores.postgres.store import MOST_CONNECTIONS
from tests.postgres import StockPostgres, execute, need_packaged, stock_server

GIB = 1 << 30


def server(source: str = "default", /, **values: Any) -> Server:
    """Make a server; names that are not those of its fields are settings."""
    fields = {name: value for name, value in values.items() if name in Server._fields}
    settings = {
        name: Setting(str(value), source) for name, value in values.items() if name not in Server._fields
    }
    return Server(settings=settings, **fields)


def standby(state: str | None = "async", seconds: float | None = None, size: int | None = 0) -> Standby:
    return Standby("s1", state, seconds, size)


FORGOTTEN = OpenTransaction(4711, 900.0, "shop", "web", "idle in transaction")
PREPARED = OpenTransaction(None, 7200.0, "shop", "x1", "prepared")
TWO = {"synchronous_standby_names": "ANY 2 (s1, s2, s3)"}

CASES: list[tuple[Callable[[Server], Finding], Server, str, str, str]] = [
    (judge_tables, server(), "warn", "schema fairway is not there yet", "fairway init"),
    (judge_tables, server(tables=8, version=15), "ok", "version 15, schema fairway of version 8", ""),
    # compiled: only where a submit inside somebody's transaction may be
    (judge_jit, server(compiles=False, jit_above_cost=10), "ok", "compiles no statements", ""),
    (judge_jit, server(compiles=True, jit_above_cost=-1), "ok", "compiles no statements", ""),
    (judge_jit, server(compiles=True, jit_above_cost=100_000), "ok", "from a cost of 100000 on; ours", ""),
    (
        judge_jit,
        server(compiles=True, jit_above_cost=100),
        "warn",
        "cost of 100 on",
        "ALTER SYSTEM SET jit_above_cost = 100000;",
    ),
    # connections: the least of what the server, the role and the database have left
    (judge_connections, server(taken=Taken(20, 5)), "ok", "80 of 100 are free, 5 are Fairway's", ""),
    (judge_connections, server(taken=Taken(20, 5)), "ok", "up to 13: 6 more fit", ""),
    (judge_connections, server(taken=Taken(87, 0)), "ok", "1 more fits", ""),
    (
        judge_connections,
        server(taken=Taken(88, 0)),
        "warn",
        "12 of 100 are free",
        "max_connections = 165; and restart",
    ),
    (judge_connections, server(taken=Taken(98, 0)), "fail", "no more fit", "needs 3 at least"),
    (judge_connections, server(taken=Taken(98, 13)), "warn", "13 are Fairway's", "needs 3 at least"),
    (
        judge_connections,
        server(taken=Taken(20, 0), superuser_reserved_connections=3, reserved_connections=70),
        "warn",
        "7 of 27 are free",
        "",
    ),
    (
        judge_connections,
        server(taken=Taken(20, 9, 9, 10, 10, 15)),
        "warn",
        "1 of 10 are free",
        "ALTER ROLE fairway CONNECTION LIMIT -1;",
    ),
    (
        judge_connections,
        server(taken=Taken(20, 0, 0, -1, 10, 15)),
        "warn",
        "5 of 15 are free",
        "ALTER DATABASE jobs CONNECTION LIMIT -1;",
    ),
    (
        judge_connections,
        server(taken=None),
        "ok",
        "may not see pg_stat_activity",
        "GRANT pg_monitor TO fairway;",
    ),
    # autovacuum
    (judge_vacuum, server(autovacuum="on"), "ok", "on", ""),
    (
        judge_vacuum,
        server(autovacuum="off"),
        "fail",
        "autovacuum is off",
        "SET autovacuum = on; SELECT pg_reload_conf();",
    ),
    (judge_vacuum, server(track_counts="off"), "fail", "track_counts is off", "SET track_counts = on;"),
    (
        judge_vacuum,
        server(not_vacuumed=("job",)),
        "fail",
        "off for fairway.job",
        "ALTER TABLE fairway.job RESET (autovac",
    ),
    (judge_vacuum, server(autovacuum_naptime=3600), "warn", "every 1 h only", "autovacuum_naptime = '1min';"),
    # timeouts
    (
        judge_timeouts,
        server(),
        "ok",
        "forgot are never ended",
        "ALTER DATABASE jobs SET idle_in_transaction_session",
    ),
    (judge_timeouts, server(idle_in_transaction_session_timeout=60_000), "ok", "end after 1 min", ""),
    (
        judge_timeouts,
        server("user", statement_timeout=500),
        "warn",
        "statement_timeout is 500 ms",
        "ALTER ROLE fairway SET statement_timeout = '2s';",
    ),
    (judge_timeouts, server(statement_timeout=30_000), "ok", "none is too short", ""),
    (
        judge_timeouts,
        server("database", transaction_timeout=1000),
        "warn",
        "transaction_timeout is 1 s",
        "ALTER DATABASE jobs SET transaction_timeout = '12s';",
    ),
    (
        judge_timeouts,
        server("database user", idle_session_timeout=5000),
        "warn",
        "idle_session_timeout is 5 s",
        "ALTER ROLE fairway IN DATABASE jobs SET",
    ),
    # commits
    (judge_commits, server(), "ok", "no standby is waited for", ""),
    (judge_commits, server(synchronous_commit="local"), "ok", "own disk", ""),
    (judge_commits, server(synchronous_commit="off"), "warn", "is off", "may lose accepted jobs"),
    (
        judge_commits,
        server(synchronous_commit="local", **TWO),
        "warn",
        "no standby is waited for, though",
        "fail-over may lose",
    ),
    (
        judge_commits,
        server(synchronous_commit="remote_write", **TWO),
        "ok",
        "in memory",
        "both machines crash",
    ),
    (judge_commits, server(synchronous_commit="on", **TWO), "ok", "is on its disk", ""),
    (judge_commits, server(synchronous_commit="remote_apply", **TWO), "ok", "can be read there", ""),
    # replication
    (judge_replication, server(), "ok", "no standby", ""),
    (judge_replication, server(standbys=(standby("sync"),)), "ok", "s1 (sync) keep up", ""),
    (
        judge_replication,
        server(synchronous_standby_names="s1"),
        "fail",
        "1 of the standbys 's1', none is there: they hang",
        "synchronous_standby_names = '';",
    ),
    (
        judge_replication,
        server(synchronous_standby_names="s1", synchronous_commit="local"),
        "ok",
        "no standby",
        "",
    ),
    (
        judge_replication,
        server(standbys=(standby("quorum"), standby()), **TWO),
        "fail",
        "1 is there",
        "start the standby",
    ),
    (judge_replication, server(standbys=(standby("quorum"),) * 2, **TWO), "ok", "keep up", ""),
    (
        judge_replication,
        server(standbys=(standby(None),)),
        "ok",
        "may not see pg_stat_replication",
        "GRANT pg_monitor",
    ),
    (judge_replication, server(standbys=(standby(None),), **TWO), "fail", "1 is there", ""),
    (judge_replication, server(standbys=None), "ok", "may not see pg_stat_replication", "GRANT pg_monitor"),
    (
        judge_replication,
        server(standbys=(standby(seconds=90.0),)),
        "warn",
        "s1 is 1.5 min behind",
        "fail-over",
    ),
    (judge_replication, server(standbys=(standby(size=GIB),)), "warn", "behind, 1024 MB", "fail-over"),
    (
        judge_replication,
        server(slots=(Slot("old", 9 * GIB),)),
        "warn",
        "slot old, 9216 MB",
        "pg_drop_replication_slot('old');",
    ),
    (judge_replication, server(slots=(Slot("old", 5),)), "ok", "no standby", ""),
    # long transactions
    (judge_transactions, server(), "ok", "none is open for more than 5 min", ""),
    (
        judge_transactions,
        server(sees_others=False),
        "ok",
        "may not see others' rows",
        "GRANT pg_monitor TO fairway;",
    ),
    (judge_transactions, server(transactions=None), "ok", "may not see pg_stat_activity", "GRANT pg_monitor"),
    (
        judge_transactions,
        server(transactions=(FORGOTTEN,), sees_others=False),
        "warn",
        "pid 4711 of shop (web) is idle in transaction, open for 15 min",
        "pg_terminate_backend(4711);",
    ),
    (
        judge_transactions,
        server(transactions=(PREPARED, FORGOTTEN)),
        "warn",
        "and 1 more",
        "ROLLBACK PREPARED 'x1';",
    ),
    # wal
    (judge_wal, server(), "ok", "wal_level replica, max_wal_size 1024 MB", ""),
    (
        judge_wal,
        server("command line", fsync="off"),
        "warn",
        "fsync is off",
        "start the server with fsync = on",
    ),
    (
        judge_wal,
        server(full_page_writes="off"),
        "warn",
        "full_page_writes is off",
        "SET full_page_writes = on;",
    ),
    (judge_wal, server(wal_level="minimal"), "warn", "no base backup", "wal_level = replica; and restart"),
    (judge_wal, server(max_wal_size=64), "warn", "max_wal_size is 64 MB", "max_wal_size = '2GB';"),
]


@pytest.mark.parametrize(("judge", "read", "status", "found", "advice"), CASES)
def test_what_is_found_is_judged(
    judge: Callable[[Server], Finding], read: Server, status: str, found: str, advice: str
) -> None:
    finding = judge(read)
    assert (finding.status, found in finding.found, advice in finding.advice) == (status, True, True), finding
    assert finding.advice or status == "ok"


# --- on a real server ------------------------------------------------------------------------------------
def findings(dsn: str) -> dict[str, Finding]:
    return {finding.check: finding for finding in check_postgres(dsn)}


@pytest.fixture
def dsn() -> Iterator[str]:
    made = stock_server().new_database()
    yield made
    asyncio.run(stock_server().drop_database(made))


@pytest.fixture
def poor(dsn: str) -> Iterator[str]:
    """The same database for a role that may see nothing of others."""
    role = f"poor_{uuid4().hex[:8]}"
    asyncio.run(execute(dsn, f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA fairway TO {role}"))
    asyncio.run(execute(dsn, f"GRANT SELECT ON fairway.meta TO {role}"))
    yield dsn.replace("fairway@", f"{role}@")
    asyncio.run(execute(dsn, f"DROP OWNED BY {role}; DROP ROLE {role}"))


def test_debians_server_as_it_comes_is_good_enough(dsn: str) -> None:
    found = findings(dsn)
    looked_at = "postgres connections commits wal replication autovacuum transactions timeouts jit"
    assert list(found) == looked_at.split()
    assert {check for check, one in found.items() if one.status != "ok"} == {"wal"}  # tests trust the disk
    assert "from a cost of 100000 on" in found["jit"].found
    assert f"a node opens up to {MOST_CONNECTIONS}" in found["connections"].found
    said = json.loads(CliRunner().invoke(main, ["doctor", "--json", "--database", dsn]).stdout)
    ours = [one for one in said["findings"] if one["check"] in found]
    assert [one["check"] for one in ours] == list(found)
    assert all(set(one) == {"status", "check", "found", "advice"} for one in ours)


def test_what_a_role_may_not_see_is_said_and_is_no_error(dsn: str, poor: str) -> None:
    assert "may not see" in findings(poor)["transactions"].found
    asyncio.run(execute(dsn, "REVOKE SELECT ON pg_stat_activity, pg_stat_replication FROM PUBLIC"))
    found = findings(poor)
    hidden = {check for check, one in found.items() if "GRANT pg_monitor" in one.advice}
    assert hidden == {"connections", "replication", "transactions"}
    assert {found[check].status for check in hidden} == {"ok"}


def test_what_was_set_for_a_role_a_database_or_a_table_is_found(dsn: str, poor: str) -> None:
    role, database = poor.split("//")[1].split("@")[0], poor.rpartition("/")[2]
    asyncio.run(
        execute(
            dsn,
            f"ALTER ROLE {role} SET statement_timeout = '100ms'",
            f"ALTER ROLE {role} CONNECTION LIMIT 5",
            f"ALTER DATABASE {database} SET synchronous_commit = off",
            f"ALTER DATABASE {database} SET jit_above_cost = 10",
            "ALTER TABLE fairway.job SET (autovacuum_enabled = off)",
        )
    )
    found = findings(poor)
    assert f"ALTER ROLE {role} SET statement_timeout" in found["timeouts"].advice
    assert f"ALTER ROLE {role} CONNECTION LIMIT -1;" in found["connections"].advice
    assert "5 of 5 are free" in found["connections"].found
    assert f"ALTER DATABASE {database} SET synchronous_commit = on;" in found["commits"].advice
    assert found["jit"].status == "warn"
    assert found["autovacuum"].found == "it is off for fairway.job"
    asyncio.run(execute(dsn, *found["autovacuum"].advice.split(";")[:-1]))
    assert findings(poor)["autovacuum"].status == "ok"


def test_a_transaction_that_somebody_forgot_is_named_and_its_end_is_one_statement(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_checks, "OLD_SECONDS", 0.0)

    async def forget() -> None:
        forgotten = await asyncpg.connect(dsn, timeout=10, server_settings={"application_name": "web"})
        try:
            await forgotten.execute("BEGIN; SELECT count(*) FROM fairway.job")
            found = (await asyncio.to_thread(findings, dsn))["transactions"]
            assert found.status == "warn"
            assert f"pid {forgotten.get_server_pid()} of fairway (web) is idle in transaction" in found.found
            await execute(dsn, found.advice.rpartition(": ")[2])
            assert (await asyncio.to_thread(findings, dsn))["transactions"].status == "ok"
        finally:
            forgotten.terminate()

    asyncio.run(forget())


def test_a_server_that_was_set_up_badly_is_told_from_top_to_bottom() -> None:
    need_packaged()
    bad = StockPostgres(
        synchronous_standby_names="s1",
        autovacuum="off",
        max_wal_size="64MB",
        fsync="on",
        max_connections="10",
    )
    try:
        bad.start()
        found = findings(bad.dsn)
    finally:
        bad.stop()
    assert found["postgres"].advice == "run `fairway init`"
    assert (found["replication"].status, found["autovacuum"].status) == ("fail", "fail")
    assert "none is there: they hang" in found["replication"].found
    assert "start the server with autovacuum = on" in found["autovacuum"].advice
    assert found["wal"].found == "max_wal_size is 64 MB"
    assert "7 of 7 are free" in found["connections"].found
