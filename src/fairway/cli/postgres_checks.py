"""What `fairway doctor` thinks of a PostgreSQL: a finding for each thing that decides how well it serves us.

Each judge is a function of what was read (`postgres_reading.py`), and names the SQL that mends what it finds.
"""

from __future__ import annotations

import asyncio
import re

from fairway.cli.checks import Finding
from fairway.cli.moments import show_seconds
from fairway.cli.postgres_reading import OpenTransaction, Server, Standby, Taken, read_server
from fairway.errors import FairwayError

#: By the planner's guess a statement that submits inside a caller's transaction costs 200; a bulk costs more.
COMPILED_COST = 10_000
#: A caller's transaction waits so long for an equal unique key, and longer in a bulk.
STATEMENT_MILLISECONDS = 2_000
#: A connection of ours rests for a minute before it is closed.
REST_MILLISECONDS = 60_000
NAP_SECONDS = 300
OLD_SECONDS = 300.0
LAG_SECONDS, LAG_BYTES = 30.0, 256 << 20
WAL_MEGABYTES = 512
KEPT_BYTES = 1 << 30


def check_postgres(address: str) -> list[Finding]:
    """Look at the server that an address names; what keeps us from it is the only finding then."""
    try:
        server = asyncio.run(read_server(address, OLD_SECONDS))
    except ImportError as error:
        advice = "pip install 'fairway[postgres]'"
        return [Finding("fail", "postgres", f"asyncpg is missing: {error}", advice)]
    except FairwayError as error:
        return [Finding("fail", "postgres", str(error), "look at --database, and at the server")]
    return [judge(server) for judge in JUDGES]


def judge_tables(server: Server) -> Finding:
    """Are our tables there?"""
    if not server.tables:
        return Finding("warn", "postgres", f"schema {server.schema} is not there yet", "run `fairway init`")
    found = f"version {server.version}, schema {server.schema} of version {server.tables}"
    return Finding("ok", "postgres", found)


def judge_jit(server: Server) -> Finding:
    """Compiling takes 100 ms; our connections have it off, but a caller's transaction is the caller's."""
    cost = float(server.get("jit_above_cost", "100000"))
    if not server.compiles or cost < 0:
        return Finding("ok", "jit", "the server compiles no statements")
    found = f"the server compiles statements from a cost of {cost:.0f} on"
    if cost < COMPILED_COST:
        mend = _set(server, "jit_above_cost", "100000")
        advice = f"submits inside your own transactions may take 100 ms: {mend}"
        return Finding("warn", "jit", found, advice)
    return Finding("ok", "jit", f"{found}; ours has it off, and submits in your transactions stay far below")


def judge_connections(server: Server) -> Finding:
    """How many are left, and how many nodes is that?"""
    from fairway.stores.postgres.store import LEAST_CONNECTIONS, MOST_CONNECTIONS

    if server.taken is None:
        return _unseen(server, "connections", "pg_stat_activity")
    most, left = _connections(server, server.taken)
    nodes = left // MOST_CONNECTIONS
    found = (
        f"{left} of {most} are free, {server.taken.fairway} are Fairway's; "
        f"a node opens up to {MOST_CONNECTIONS}: {nodes or 'no'} more fit{'s' if nodes == 1 else ''}"
    )
    if nodes:
        return Finding("ok", "connections", found)
    fails = left < LEAST_CONNECTIONS and not server.taken.fairway
    wanted = int(server.get("max_connections", "100")) + 5 * MOST_CONNECTIONS
    advice = (
        f"a node needs {LEAST_CONNECTIONS} at least and is slower with few; end others', or "
        f"{_set(server, 'max_connections', str(wanted), restart=True)}{_limits(server, server.taken)}"
    )
    return Finding("fail" if fails else "warn", "connections", found, advice)


def _connections(server: Server, taken: Taken) -> tuple[int, int]:
    """Return how many our role may have at all, and how many are left."""
    kept = int(server.get("superuser_reserved_connections")) + int(server.get("reserved_connections"))
    most = int(server.get("max_connections", "100")) - kept
    bounds = [(most, taken.all), (taken.role_limit, taken.by_role), (taken.database_limit, taken.in_database)]
    left, most = min((limit - used, limit) for limit, used in bounds if limit >= 0)
    return most, max(left, 0)


def _limits(server: Server, taken: Taken) -> str:
    words = []
    if taken.role_limit >= 0:
        words.append(f"; ALTER ROLE {server.role} CONNECTION LIMIT -1;")
    if taken.database_limit >= 0:
        words.append(f"; ALTER DATABASE {server.database} CONNECTION LIMIT -1;")
    return "".join(words)


def judge_vacuum(server: Server) -> Finding:
    """Every job leaves dead rows behind; without vacuum each begin has to pass them."""
    for name in ("autovacuum", "track_counts"):
        if server.get(name, "on") == "off":
            advice = f"every job leaves dead rows, and all gets slower: {_set(server, name, 'on')}"
            return Finding("fail", "autovacuum", f"{name} is off", advice)
    if server.not_vacuumed:
        tables = [f"{server.schema}.{name}" for name in server.not_vacuumed]
        advice = " ".join(f"ALTER TABLE {name} RESET (autovacuum_enabled);" for name in tables)
        return Finding("fail", "autovacuum", f"it is off for {', '.join(tables)}", advice)
    nap = float(server.get("autovacuum_naptime", "60"))
    if nap > NAP_SECONDS:
        mend = _set(server, "autovacuum_naptime", "'1min'")
        advice = f"the hot tables change with every job: {mend}"
        return Finding("warn", "autovacuum", f"it comes by every {show_seconds(nap)} only", advice)
    return Finding("ok", "autovacuum", "on")


def judge_timeouts(server: Server) -> Finding:
    """Our connections set most of them; in a caller's transaction it is the server's that count."""
    short = [
        (name, least)
        for name, least in (
            ("statement_timeout", STATEMENT_MILLISECONDS),
            ("transaction_timeout", 6 * STATEMENT_MILLISECONDS),
            ("idle_session_timeout", REST_MILLISECONDS),
        )
        if 0 < int(server.get(name)) < least
    ]
    if short:
        found = ", ".join(f"{name} is {_milliseconds(int(server.get(name)))}" for name, _ in short)
        mends = " ".join(_set(server, name, _quoted(least)) for name, least in short)
        advice = f"it ends submits inside your transactions, searches, or connections that rest: {mends}"
        return Finding("warn", "timeouts", found, advice)
    idle = int(server.get("idle_in_transaction_session_timeout"))
    if idle == 0:
        mend = _set(server, "idle_in_transaction_session_timeout", "'10min'", anew=True)
        found = "none is too short; transactions that somebody forgot are never ended"
        return Finding("ok", "timeouts", found, f"to end them: {mend}")
    return Finding(
        "ok", "timeouts", f"none is too short; forgotten transactions end after {_milliseconds(idle)}"
    )


def judge_commits(server: Server) -> Finding:
    """What does a commit that was answered mean?"""
    how, standbys = server.get("synchronous_commit", "on"), server.get("synchronous_standby_names", "")
    found = f"synchronous_commit is {how}"
    if how == "off":
        advice = f"a crash of the server may lose accepted jobs: {_set(server, 'synchronous_commit', 'on')}"
        return Finding("warn", "commits", found, advice)
    if not standbys:
        return Finding("ok", "commits", f"{found}: kept on the server's own disk; no standby is waited for")
    if how == "local":
        advice = f"a fail-over may lose accepted jobs: {_set(server, 'synchronous_commit', 'on')}"
        return Finding("warn", "commits", f"{found}: no standby is waited for, though some are named", advice)
    if how == "remote_write":
        advice = (
            "jobs may be lost if both machines crash at once; against that: "
            f"{_set(server, 'synchronous_commit', 'on')}"
        )
        return Finding("ok", "commits", f"{found}: a standby has it in memory", advice)
    where = "can be read there" if how == "remote_apply" else "is on its disk"
    return Finding("ok", "commits", f"{found}: a standby has it, and it {where}")


def judge_replication(server: Server) -> Finding:
    """Do the standbys that commits wait for exist, and do all of them keep up?"""
    if server.standbys is None:
        return _unseen(server, "replication", "pg_stat_replication")
    named = server.get("synchronous_standby_names", "")
    waits = bool(named) and server.get("synchronous_commit", "on") not in ("off", "local")
    unknown = any(standby.sync_state is None for standby in server.standbys)
    synchronous = sum(standby.sync_state in ("sync", "quorum") for standby in server.standbys)
    possible = len(server.standbys) if unknown else synchronous
    if waits and possible < (wanted := _wanted(named)):
        there = f"{possible or 'none'} {'is' if possible < 2 else 'are'} there"
        found = f"commits wait for {wanted} of the standbys {named!r}, {there}: they hang"
        mend = _set(server, "synchronous_standby_names", "''")
        return Finding("fail", "replication", found, f"start the standby; to go on without it: {mend}")
    if unknown:
        return _unseen(server, "replication", "pg_stat_replication")
    return _judge_lag(server) or _judge_slots(server) or _content(server.standbys)


def _judge_lag(server: Server) -> Finding | None:
    late = [
        f"{name} is {show_seconds(seconds or 0.0)} behind, {_megabytes(size or 0)}"
        for name, _, seconds, size in server.standbys or ()
        if (seconds or 0.0) > LAG_SECONDS or (size or 0) > LAG_BYTES
    ]
    if not late:
        return None
    advice = (
        "a fail-over to it waits for that much or loses it; look at its disk, its network, its long queries"
    )
    return Finding("warn", "replication", ", ".join(late), advice)


def _judge_slots(server: Server) -> Finding | None:
    kept = [slot for slot in server.slots or () if slot.kept_bytes > KEPT_BYTES]
    if not kept:
        return None
    found = ", ".join(
        f"nobody reads slot {slot.name}, {_megabytes(slot.kept_bytes)} are kept" for slot in kept
    )
    drops = " ".join(f"SELECT pg_drop_replication_slot('{slot.name}');" for slot in kept)
    return Finding("warn", "replication", found, f"the disk fills up: start its reader, or {drops}")


def _content(standbys: tuple[Standby, ...]) -> Finding:
    names = ", ".join(f"{standby.name} ({standby.sync_state})" for standby in standbys)
    return Finding("ok", "replication", f"{names} keep up" if names else "no standby")


def judge_transactions(server: Server) -> Finding:
    """While a transaction is open, nothing that was deleted since can be cleaned up."""
    check = "transactions"
    if server.transactions is None:
        return _unseen(server, check, "pg_stat_activity")
    if not server.transactions:
        if not server.sees_others:
            return _unseen(server, check, "others' rows of pg_stat_activity")
        return Finding("ok", check, f"none is open for more than {show_seconds(OLD_SECONDS)}")
    first = server.transactions[0]
    others = len(server.transactions) - 1
    found = _described(first) + (f", and {others} more" if others else "")
    if first.pid is None:
        end = f"ROLLBACK PREPARED '{first.name}';"
    else:
        end = f"SELECT pg_terminate_backend({first.pid});"
    advice = f"nothing deleted since can be cleaned up, and all gets slower; to end it: {end}"
    return Finding("warn", check, found, advice)


def _described(one: OpenTransaction) -> str:
    if one.pid is None:
        return f"{one.name!r} of {one.role} is prepared for {show_seconds(one.seconds)}"
    name = one.name or "no application name"
    return f"pid {one.pid} of {one.role} ({name}) is {one.state}, open for {show_seconds(one.seconds)}"


def judge_wal(server: Server) -> Finding:
    """What survives a crash, and can it be backed up?"""
    loose = [name for name in ("fsync", "full_page_writes") if server.get(name, "on") == "off"]
    if loose:
        mends = " ".join(_set(server, name, "on") for name in loose)
        found = " and ".join(f"{name} is off" for name in loose)
        return Finding("warn", "wal", found, f"a crash of the machine may lose all of it: {mends}")
    level, most = server.get("wal_level", "replica"), int(server.get("max_wal_size", "1024"))
    if level == "minimal":
        mend = _set(server, "wal_level", "replica", restart=True)
        return Finding("warn", "wal", "wal_level is minimal: no standby, no base backup", mend)
    if most < WAL_MEGABYTES:
        mend = _set(server, "max_wal_size", "'2GB'")
        advice = f"under load one checkpoint follows the other: {mend}"
        return Finding("warn", "wal", f"max_wal_size is {most} MB", advice)
    return Finding("ok", "wal", f"wal_level {level}, max_wal_size {most} MB, fsync on")


JUDGES = (
    judge_tables,
    judge_connections,
    judge_commits,
    judge_wal,
    judge_replication,
    judge_vacuum,
    judge_transactions,
    judge_timeouts,
    judge_jit,
)


def _unseen(server: Server, check: str, view: str) -> Finding:
    """What may not be seen is no fault; say how it can be."""
    advice = f"to have it looked at: GRANT pg_monitor TO {server.role};"
    return Finding("ok", check, f"not known: role {server.role} may not see {view}", advice)


def _set(server: Server, name: str, value: str, *, restart: bool = False, anew: bool = False) -> str:
    """Return the SQL that changes a setting where it was set; *anew*: for our database only."""
    source = server.settings[name].source if name in server.settings else "default"
    change = f"SET {name} = {value};"
    if source == "database" or (anew and source == "default"):
        return f"ALTER DATABASE {server.database} {change}"
    if source == "user":
        return f"ALTER ROLE {server.role} {change}"
    if source == "database user":
        return f"ALTER ROLE {server.role} IN DATABASE {server.database} {change}"
    if source in ("command line", "environment variable"):
        return f"start the server with {name} = {value} (it is set on its {source});"
    return f"ALTER SYSTEM {change} {'and restart the server;' if restart else 'SELECT pg_reload_conf();'}"


def _wanted(names: str) -> int:
    """Return how many standbys a commit waits for: `a, b`, `2 (a, b, c)`, `FIRST 2 (...)`, `ANY 2 (...)`."""
    found = re.match(r"\s*(?:first\s+|any\s+)?(\d+)\s*\(", names, re.IGNORECASE)
    return int(found[1]) if found else 1


def _milliseconds(value: int) -> str:
    return str(show_seconds(value / 1000))


def _quoted(milliseconds: int) -> str:
    return f"'{milliseconds // 1000}s'"


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.0f} MB"
