"""`fairway init`: create the database before the first start."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from fairway.cli.calling import answers, current
from fairway.cli.output import clean, say, show_json
from fairway.cli.parsing import database_address
from fairway.errors import StoreUnusable
from fairway.places import (
    check_scheduler,
    data_directory,
    is_postgres,
    postgres_address,
    postgres_missing,
    scheduler_file,
    sqlite_file,
)

MAGIC = b"SQLite format 3\0"
#: What is said of a schema after it was migrated.
STATES = {
    "prepared": "was prepared",
    "updated": "was brought up to date",
    None: "is ready, nothing was changed",
}


@click.command()
@click.option(
    "--database", callback=database_address, metavar="URL", help="sqlite:///path/file.db or postgresql://..."
)
@click.option("--scheduler", metavar="NAME", help="Which of several schedulers on one database.")
@answers
def init(database: str | None, scheduler: str | None) -> None:
    """Create a database file or a schema, or bring an older one of ours up to date.

    `fairway up` does the same by itself; this is for those who set permissions in between. What is not
    Fairway's is left as it is.
    """
    if database and is_postgres(database):
        _tell(*asyncio.run(_prepare(database, scheduler)))
        return
    file = sqlite_file(database) if database else data_directory() / "fairway.db"
    if scheduler:
        file = scheduler_file(file, check_scheduler(scheduler))
    existed = file.exists()
    refuse_foreign(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(_open(file))
    state = "is ready" if existed else "was created"
    said = f"{file} {state}; start with: fairway up --database sqlite:///{file}"
    _tell(said, {"database": str(file), "created": not existed})


def _tell(said: str, document: dict[str, Any]) -> None:
    if current().json:
        show_json(document)
    else:
        say(clean(said))


def refuse_foreign(file: Path) -> None:
    """Refuse a file that is something else, before a database library touches it."""
    if not file.exists():
        return
    if not file.is_file():
        raise StoreUnusable(f"{file} is not a file; name one that is, or a new one")
    with file.open("rb") as opened:
        start = opened.read(len(MAGIC))
    if start and start != MAGIC:
        raise StoreUnusable(f"{file} is no database and is left as it is; name a new file")
    if start:
        look_inside(file)


def look_inside(file: Path) -> None:
    """Raise what `fairway up` would say of a file that is there, and leave no trace of having looked."""
    import apsw

    from fairway.stores.sqlite.connection import plain_errors
    from fairway.stores.sqlite.migrate import check_version

    # Read-only: the store's own way to open a file turns it to WAL mode first, whoever's it is. Where nobody
    # has a WAL open, "immutable" keeps SQLite from making one beside the file.
    is_open = file.with_name(f"{file.name}-wal").exists()
    address = f"file:{quote(str(file.absolute()))}" + ("" if is_open else "?immutable=1")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with plain_errors(file), closing(apsw.Connection(address, flags=flags)) as opened:
        check_version(opened, file)


async def _prepare(address: str, scheduler: str | None) -> tuple[str, dict[str, Any]]:
    """Prepare a schema; return what was done, for people and for programs."""
    try:
        from fairway.stores.postgres.connection import TROUBLE, connect
        from fairway.stores.postgres.migrate import migrate
        from fairway.stores.postgres.mistakes import explain, place_of
        from fairway.stores.postgres.sql import check_schema
    except ImportError as error:
        raise postgres_missing(error) from None

    dsn, named = postgres_address(address)
    schema = check_schema(scheduler or named)
    connection = await connect(dsn)
    try:
        async with connection.transaction():
            changed = await migrate(connection, schema)
    except TROUBLE as error:
        raise explain(error, dsn) from error
    finally:
        await connection.close(timeout=5)
    said = f"schema {schema} at {place_of(dsn)} {STATES[changed]}; start with: fairway up --database ..."
    return said, {"database": place_of(dsn), "schema": schema, "changed": changed is not None}


async def _open(file: Path) -> None:
    from fairway.stores.sqlite.store import SqliteStore

    store = SqliteStore(file)
    await store.open()
    await store.close()
