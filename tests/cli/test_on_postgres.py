"""`fairway init` and `fairway doctor` on a real PostgreSQL: what is wrong with it is said in one line."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from click.testing import CliRunner

from fairway.cli.checks import Finding
from fairway.cli.main import main
from fairway.cli.postgres_checks import check_postgres
from tests.conformance.test_upgrade import UNDO
from tests.postgres import TempPostgres, execute, shared_server


@pytest.fixture
def empty() -> Iterator[str]:
    made = asyncio.run(shared_server().make_empty_database())
    yield made
    asyncio.run(shared_server().drop_database(made))


def test_init_without_rights_says_so_in_a_line_and_leaves_nothing(empty: str) -> None:
    poor = f"poor_{uuid.uuid4().hex[:8]}"
    asyncio.run(execute(empty, f"CREATE ROLE {poor} LOGIN"))
    try:
        parts = urlsplit(empty)
        address = urlunsplit(parts._replace(netloc=parts.netloc.replace("fairway@", f"{poor}@")))
        assert address != empty
        result = CliRunner().invoke(main, ["init", "--database", address])
        assert result.exit_code == 1
        [line] = result.stderr.splitlines()
        assert f"CREATE SCHEMA fairway AUTHORIZATION {poor};" in line
        schemas = asyncio.run(_schemas(empty))
        assert "fairway" not in schemas
    finally:
        asyncio.run(execute(empty, f"DROP ROLE {poor}"))


async def _schemas(dsn: str) -> list[str]:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        return [row[0] for row in await connection.fetch("SELECT nspname FROM pg_namespace")]
    finally:
        await connection.close(timeout=5)


def look(dsn: str) -> dict[str, Finding]:
    return {finding.check: finding for finding in check_postgres(dsn)}


def test_the_doctor_looks_whether_there_are_tables_and_whether_commits_are_kept(empty: str) -> None:
    assert look(empty)["postgres"].status == "warn"
    assert "fairway init" in look(empty)["postgres"].advice
    assert CliRunner().invoke(main, ["init", "--database", empty]).exit_code == 0
    found = look(empty)  # the server that the tests share is fast, and forgets in a crash
    assert found["wal"].found == "fsync is off and full_page_writes is off"
    assert found["commits"].found == "synchronous_commit is off"
    assert "may lose accepted jobs" in found["commits"].advice


def test_init_says_whether_the_schema_is_new_was_old_or_was_ready(empty: str) -> None:
    def init() -> str:
        return CliRunner().invoke(main, ["init", "--database", empty]).stdout

    assert "was prepared" in init()
    assert "is ready, nothing was changed" in init()
    asyncio.run(execute(empty, UNDO))
    assert "was brought up to date" in init()
    assert "is ready, nothing was changed" in init()


def test_init_and_the_doctor_refuse_a_server_that_is_too_old(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.stores.postgres.connection.OLDEST_SERVER", 99)
    result = CliRunner().invoke(main, ["init", "--database", empty])
    [line] = result.stderr.splitlines()
    assert result.exit_code == 1 and "use 99 or newer" in line
    [found] = check_postgres(empty)
    assert found.status == "fail" and "use 99 or newer" in found.found


def test_the_doctor_is_content_with_a_server_that_keeps_its_word() -> None:
    server = TempPostgres(durable=True)
    try:
        dsn = server.start().new_database()
        assert {finding.status for finding in check_postgres(dsn)} == {"ok"}
        asyncio.run(
            execute(dsn, "ALTER DATABASE " + urlsplit(dsn).path[1:] + " SET synchronous_commit = off")
        )
        assert look(dsn)["commits"].found == "synchronous_commit is off"
    finally:
        server.stop()
