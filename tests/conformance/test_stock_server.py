"""Servers as others keep them: roles with few rights, odd search paths, no connection to spare.

On PostgreSQL of this system's packages, which has the defaults that users have.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from click.testing import CliRunner

from fairway import App
from fairway.cli.main import main
from fairway.core.plan import Batch, Begin
from fairway.errors import StoreUnavailable, StoreUnusable
from fairway.places import postgres_address
from fairway.stores.postgres import PostgresStore
from fairway.stores.postgres.sql import queries_of
from fairway.stores.postgres.store import LEAST_CONNECTIONS, MOST_CONNECTIONS
from tests.conformance.conftest import server_of
from tests.conformance.stage import NOW, Stage, new_job, where
from tests.postgres import StockPostgres, TempPostgres

CONNECTIONS, RESERVED = 100, 3  # of which so many are kept for superusers


@pytest.fixture
def server() -> TempPostgres:
    return server_of("stock")


@pytest.fixture
async def admin(server: TempPostgres) -> AsyncIterator[Any]:
    """A superuser's connection to an empty database."""
    dsn = await server.make_empty_database()
    connection = await asyncpg.connect(dsn, timeout=10)
    yield connection
    await connection.close(timeout=5)
    await server.drop_database(dsn)


@pytest.fixture
async def role(admin: Any) -> AsyncIterator[str]:
    """A role that may log in, and nothing else."""
    name = f"app_{uuid4().hex[:8]}"
    await admin.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    await admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.fixture
def dsn(server: TempPostgres, admin: Any, role: str) -> str:
    """The address of the database for the role."""
    return server.dsn_of(admin._params.database).replace("fairway@", f"{role}@")


@asynccontextmanager
async def opened(dsn: str, schema: str = "fairway") -> AsyncIterator[PostgresStore]:
    store = PostgresStore(dsn, schema)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def use(store: PostgresStore, *numbers: int) -> None:
    """Do what a node does: lead, listen, take jobs in, begin and end them, search."""
    stage = await Stage(store).lead()
    store.listen()
    await stage.submit(*map(new_job, numbers))
    taken = await store.take_arrivals(0)
    assert [one.job.job for one in taken] == list(numbers)
    await stage.commit(taken=[one.number for one in taken])
    await stage.begin(*numbers)
    assert await store.renew(stage.term, "leader", asleep=True)
    await stage.end(numbers[0])
    found = await store.search(where("queue", "acme/emails"), now=NOW)
    assert {job.id for job in found.jobs} == set(numbers)
    await stage.submit(*(new_job(1000 + number) for number in range(60)))  # by COPY


async def submit_as_a_client(database: str) -> None:
    """Submit a job without a node, by a connection of the client's own and inside a caller's transaction."""
    app = App(database=database)
    task = app.task(queue="acme/emails", name="app.send")(lambda: None)
    caller = await asyncpg.connect(postgres_address(database).dsn, timeout=10)
    try:
        async with caller.transaction():
            inside = await task.asubmit(connection=caller)
        for handle in (inside, await task.asubmit()):
            assert (await handle.arefresh()).state == "queued"
    finally:
        await caller.close(timeout=5)
        await asyncio.to_thread(app.close)


# --- roles with few rights -------------------------------------------------------------------------------
def init(dsn: str, *options: str) -> Any:
    return CliRunner().invoke(main, ["init", "--database", dsn, *options])


async def test_a_role_that_owns_only_its_schema_prepares_and_uses_it(admin: Any, role: str, dsn: str) -> None:
    await admin.execute(f"REVOKE ALL ON DATABASE {admin._params.database} FROM PUBLIC")
    await admin.execute(f"GRANT CONNECT ON DATABASE {admin._params.database} TO {role}")
    await admin.execute(f"CREATE SCHEMA fairway AUTHORIZATION {role}")
    said = await asyncio.to_thread(init, dsn)
    assert said.exit_code == 0 and "was prepared" in said.stdout
    async with opened(dsn) as store:
        await use(store, 1, 2)


async def test_the_store_prepares_a_schema_that_was_made_for_it(admin: Any, role: str, dsn: str) -> None:
    await admin.execute(f"CREATE SCHEMA fairway AUTHORIZATION {role}")
    async with opened(dsn) as store:
        await use(store, 1)


@pytest.mark.parametrize(
    "made", ["SELECT", "CREATE SCHEMA night", "CREATE SCHEMA night; GRANT USAGE ON SCHEMA night TO {role}"]
)
async def test_what_an_admin_has_to_run_is_said_and_is_enough(
    admin: Any, role: str, dsn: str, made: str
) -> None:
    await admin.execute(made.format(role=role))
    with pytest.raises(StoreUnusable) as refused:
        await PostgresStore(dsn, "night").open()
    said = await asyncio.to_thread(init, dsn, "--scheduler", "night")
    assert str(refused.value) in said.stderr and len(said.stderr.splitlines()) == 1
    await admin.execute(str(refused.value).rpartition(" run: ")[2])
    async with opened(dsn, "night") as store:
        await use(store, 1)


async def test_tables_of_another_role_are_not_for_us_until_an_admin_says_so(
    admin: Any, server: TempPostgres, role: str, dsn: str
) -> None:
    owner = f"owner_{uuid4().hex[:8]}"
    await admin.execute(f"CREATE ROLE {owner} LOGIN; CREATE SCHEMA fairway AUTHORIZATION {owner}")
    try:
        async with opened(dsn.replace(f"{role}@", f"{owner}@")):
            with pytest.raises(StoreUnusable) as refused:
                await PostgresStore(dsn).open()
        await admin.execute(str(refused.value).rpartition(" run: ")[2])
        async with opened(dsn) as store:
            await use(store, 1)
    finally:
        await admin.execute(f"DROP OWNED BY {owner}; DROP ROLE {owner}")


# --- schemas and search paths ----------------------------------------------------------------------------
SAME_NAMES = (
    "job",
    "ended",
    "meta",
    "leader",
    "beat",
    "arrival",
    "claim",
    "begun",
    "queue",
    "event",
    "request",
)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("fairway", "''"),
        ("night", "nowhere"),
        ("fairway", "other, public"),
        ("night", "other, pg_catalog, night"),
    ],
)
async def test_where_a_role_searches_does_not_matter(
    admin: Any, role: str, dsn: str, schema: str, path: str
) -> None:
    """In schema `other` there are tables of the same names, and none of ours may touch them."""
    await admin.execute(
        f"CREATE SCHEMA {schema} AUTHORIZATION {role}; CREATE SCHEMA other AUTHORIZATION {role}"
    )
    for name in SAME_NAMES:
        await admin.execute(f"CREATE TABLE other.{name} (id text); ALTER TABLE other.{name} OWNER TO {role}")
    await admin.execute(f"ALTER ROLE {role} SET search_path = {path}")
    async with opened(dsn, schema) as store:
        await use(store, 1, 2)
    await submit_as_a_client(f"{dsn}?scheduler={schema}")
    rows = [await admin.fetchval(f"SELECT count(*) FROM other.{name}") for name in SAME_NAMES]
    assert not any(rows)


@pytest.mark.parametrize(
    "setting",
    [
        "default_transaction_isolation = serializable",
        "standard_conforming_strings = off",
        "bytea_output = escape",
        "statement_timeout = 1000",
        "jit_above_cost = 0",
        "timezone = 'Asia/Kathmandu'",
    ],
)
@pytest.mark.parametrize("way", ["directly", "as through a pooler"])
async def test_what_was_set_for_a_role_does_not_matter(
    admin: Any, role: str, dsn: str, setting: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way != "directly":

        async def is_direct(connection: Any) -> bool:
            return False

        monkeypatch.setattr("fairway.stores.postgres.store.is_direct", is_direct)
    await admin.execute(f"CREATE SCHEMA fairway AUTHORIZATION {role}; ALTER ROLE {role} SET {setting}")
    async with opened(dsn) as store:
        await use(store, 1, 2)
        stage = Stage(store)
        stage.term = 1
        for first in range(2000, 2100, 10):  # each begins while others submit
            await asyncio.gather(
                *(stage.submit(new_job(first + number)) for number in range(10)),
                stage.begin(1000 + (first - 2000) // 10),
            )
    await submit_as_a_client(dsn)


# --- SSL -------------------------------------------------------------------------------------------------
#: Everybody but the admin of the tests must come by SSL.
ONLY_SSL = """
host all fairway 127.0.0.1/32 trust
hostssl all all 127.0.0.1/32 trust
"""


class SecurePostgres(StockPostgres):
    """A server that lets nobody in without SSL; its certificate is signed by nobody else."""

    def __init__(self) -> None:
        super().__init__(ssl="on")
        self.certificate, key = make_certificate(self.folder)
        access = self.folder / "hba.conf"
        access.write_text(ONLY_SSL)
        key.chmod(0o600)
        if self._as_user:
            shutil.chown(key, self._as_user["user"], self._as_user["group"])
        self.settings |= {"ssl_cert_file": self.certificate, "ssl_key_file": key, "hba_file": access}


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for this machine, signed by itself, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([*make, *named], check=True, capture_output=True, timeout=60)
    return certificate, key


@pytest.fixture(scope="module")
def secure() -> Iterator[SecurePostgres]:
    server_of("stock")  # or skip
    server = SecurePostgres()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def remote(secure: SecurePostgres) -> str:
    """The address of a database of somebody who must come by SSL."""
    dsn, role = await secure.make_empty_database(), f"app_{uuid4().hex[:8]}"
    admin = await asyncpg.connect(dsn, timeout=10)
    await admin.execute(f"CREATE ROLE {role} LOGIN; CREATE SCHEMA fairway AUTHORIZATION {role}")
    await admin.close(timeout=5)
    return dsn.replace("fairway@", f"{role}@")


@pytest.mark.parametrize("how", ["", "?sslmode=require", "?sslmode=verify-full&sslrootcert={certificate}"])
async def test_all_that_we_open_comes_by_ssl(secure: SecurePostgres, remote: str, how: str) -> None:
    address = remote + how.format(certificate=secure.certificate)
    said = await asyncio.to_thread(init, address)
    assert said.exit_code == 0, said.stderr
    async with opened(address) as store:
        await use(store, 1, 2)
        assert store._bell.hears
        await store.take_arrivals(0)  # by the connection that hears: what rang before has come
        before = store._bell._rings
        await submit_as_a_client(address)
        for _ in range(500):
            if store._bell._rings >= before + 2:
                break
            await asyncio.sleep(0.01)
        assert store._bell._rings >= before + 2


async def test_who_comes_without_ssl_is_told_so(remote: str) -> None:
    with pytest.raises(
        StoreUnusable, match=r"does not let us in without SSL.*sslmode=require.*no encryption"
    ):
        await PostgresStore(f"{remote}?sslmode=disable").open()


async def test_a_server_without_ssl_is_not_used_by_who_requires_it(dsn: str) -> None:
    with pytest.raises(StoreUnusable, match=r"does not speak SSL.*sslmode"):
        await PostgresStore(f"{dsn}?sslmode=require").open()


async def test_a_certificate_that_is_another_is_not_trusted(
    secure: SecurePostgres, remote: str, tmp_path: Path
) -> None:
    other, _ = make_certificate(tmp_path)
    with pytest.raises(StoreUnusable, match=r"certificate is not trusted.*sslrootcert"):
        await PostgresStore(f"{remote}?sslmode=verify-full&sslrootcert={other}").open()
    with pytest.raises(StoreUnusable, match=r"file of sslrootcert.* is not there"):
        await PostgresStore(f"{remote}?sslmode=verify-full&sslrootcert={tmp_path}/nowhere.pem").open()
    named = f"{remote}?sslmode=verify-full&sslrootcert={secure.certificate}".replace("127.0.0.1", "localhost")
    with pytest.raises(StoreUnusable, match=r"certificate is not trusted.*localhost"):
        await PostgresStore(named).open()


# --- no connection to spare ------------------------------------------------------------------------------
@asynccontextmanager
async def taken_by_others(server: TempPostgres, admin: Any, left: int) -> AsyncIterator[None]:
    """Take connections until a role has so many *left*."""
    others: list[Any] = []
    try:
        while await clients(admin) < CONNECTIONS - RESERVED - left:
            others.append(await asyncpg.connect(server.dsn, timeout=10))
        yield
    finally:
        await asyncio.gather(*(other.close(timeout=5) for other in others))


async def clients(admin: Any, role: str | None = None) -> int:
    """Count connections, those of all or of one."""
    return int(
        await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND usename = coalesce($1, usename)",
            role,
        )
    )


@pytest.fixture
async def prepared(admin: Any, dsn: str, role: str) -> str:
    await admin.execute(f"CREATE SCHEMA fairway AUTHORIZATION {role}")
    async with opened(dsn):
        return dsn


async def test_a_node_works_with_the_few_connections_that_others_left(
    server: TempPostgres, admin: Any, role: str, prepared: str
) -> None:
    left = CONNECTIONS - RESERVED - 90
    assert left < MOST_CONNECTIONS
    async with taken_by_others(server, admin, left), opened(prepared) as store:
        await use(store, 1, 2)
        stage = Stage(store)
        stage.term = 1
        answers = await asyncio.gather(
            *(store.find_job(2) for _ in range(40)),
            *(store.search(where("queue", "acme/emails"), now=NOW) for _ in range(20)),
            *(stage.submit(new_job(number)) for number in range(100, 140)),
            *(store.live_attempts() for _ in range(40)),
            stage.commit(begins=[Begin([1000], "w1-a", "w1", NOW)]),
        )
        assert None not in answers
        assert await clients(admin, role) <= left
        with pytest.raises(asyncpg.TooManyConnectionsError):  # else it was no test
            await asyncpg.connect(prepared, timeout=10)


async def test_a_leader_gets_its_connection_from_those_that_others_use(
    server: TempPostgres, admin: Any, role: str, prepared: str
) -> None:
    async with taken_by_others(server, admin, left=5), opened(prepared) as store:
        async with asyncio.timeout(20):  # a connection that was closed just now may still count on the server
            while await clients(admin, role) < 5:  # each stays open for a minute
                await asyncio.gather(*(store.find_job(1) for _ in range(40)))
        await asyncio.wait_for(use(store, 1, 2), 10)
        assert store._bell.hears


async def test_three_connections_are_enough_to_lead_and_be_called(
    server: TempPostgres, admin: Any, prepared: str
) -> None:
    async with taken_by_others(server, admin, LEAST_CONNECTIONS), opened(prepared) as store:
        await use(store, 1, 2)
        assert store._bell.hears


async def test_with_two_connections_nobody_hears_the_doorbell_and_nobody_waits_for_it(
    server: TempPostgres, admin: Any, prepared: str
) -> None:
    async with taken_by_others(server, admin, left=2), opened(prepared) as store:
        await use(store, 1, 2)
        assert not store._bell.hears
        began = time.monotonic()
        for _ in range(20):
            await store.take_arrivals(0)
        assert time.monotonic() - began < 5.0


async def test_two_commits_that_overlap_share_one_connection(
    server: TempPostgres, admin: Any, prepared: str
) -> None:
    async with taken_by_others(server, admin, left=2), opened(prepared) as store:
        await use(store, 1, 2)
        await asyncio.gather(*(store.live_attempts() for _ in range(3)))  # a second one is refused
        first = asyncio.Event()
        begin = Batch(begins=[Begin([1000], "w1-a", "w1", NOW, "acme/emails", "app.send")])
        second = asyncio.create_task(
            store.commit(1, "leader", begin, [], NOW, asyncio.ensure_future(first.wait()))
        )
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await Stage(store).store.renew(1, "leader", asleep=True)
        assert time.monotonic() - began < 1.0
        first.set()
        assert [one.job for one in (await second).begun] == [1000]


async def test_a_node_that_gets_no_connection_says_what_to_do(
    server: TempPostgres, admin: Any, prepared: str
) -> None:
    async with taken_by_others(server, admin, left=1), opened(prepared) as store:
        with pytest.raises(StoreUnavailable, match="no connection left for us; raise max_connections"):
            await Stage(store).lead()
        assert await store.find_job(1) is None
        with pytest.raises(StoreUnavailable, match="no connection left for us; raise max_connections"):
            await PostgresStore(prepared).open()


# --- what callers run in their own connections --------------------------------------------------------------
#: What an App that was given a connection of its caller's may run there, with whatever settings that has.
CALLERS_STATEMENTS = (
    "find_taken_ids", "find_known_ids", "insert_job", "insert_arriving", "save_extras", "find_claims",
    "claim_key", "free_old_keys", "reserve_request", "find_request", "save_request", "find_queues",
)  # fmt: skip
COMPILED_ABOVE = 100_000  # jit_above_cost, as it comes


async def cost_of(connection: Any, name: str) -> float:
    """Return what the planner thinks a statement costs, whatever its values."""
    sql = queries_of("fairway")[name]
    count = max(int(number) for number in re.findall(r"\$(\d+)", sql))
    await connection.execute(f"PREPARE {name} AS {sql}")
    nulls = ", ".join(["NULL"] * count)
    [row] = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE {name}({nulls})")
    await connection.execute(f"DEALLOCATE {name}")
    return float(json.loads(row[0])[0]["Plan"]["Total Cost"])


async def fill(connection: Any, table: str, count: int) -> None:
    """Copy the one row of a table under as many ids."""
    columns = await connection.fetchval(
        "SELECT string_agg(attname, ', ') FROM pg_attribute"
        " WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id'",
        f"fairway.{table}",
    )
    await connection.execute(
        f"INSERT INTO fairway.{table} (id, {columns})"
        f" SELECT one.id + number, {columns} FROM generate_series(1, {count}) AS number,"
        f" (SELECT * FROM fairway.{table} ORDER BY id LIMIT 1) AS one ON CONFLICT DO NOTHING"
    )
    await connection.execute(f"VACUUM ANALYZE fairway.{table}")


async def test_what_callers_run_costs_no_more_in_larger_tables(server: TempPostgres) -> None:
    dsn = await server.make_database()
    async with opened(dsn) as store:
        stage = await Stage(store).lead()
        await stage.run(new_job(1))
        await stage.submit(new_job(1_000_000))
    connection = await asyncpg.connect(dsn, timeout=10)  # with the server's settings, as a caller has them
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    costs = []
    for count in (20_000, 200_000):
        for table in ("job", "ended"):
            await fill(connection, table, count)
        costs.append({name: await cost_of(connection, name) for name in CALLERS_STATEMENTS})
    await connection.close(timeout=5)
    await server.drop_database(dsn)
    small, large = costs
    grown = {name: (small[name], large[name]) for name in small if large[name] > 1.5 * small[name] + 10}
    assert grown == {}
    assert max(large.values()) < COMPILED_ABOVE / 10, large
