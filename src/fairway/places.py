"""Where things are: the data directory, and the file or the PostgreSQL that a database address names."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from fairway.errors import FairwayError, InvalidRequest

SCHEME = "sqlite:///"
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
DEFAULT_SCHEDULER = "fairway"
VARIABLE = "FAIRWAY_DATABASE"

#: A slip in `postgresql://`, or words that other tools take: no file shall have a password in its name.
_looks_like_postgres = re.compile(r"^postgres(ql)?[:/]|(^|\s)(host|hostaddr|port|dbname|user|password)\s*=")
_scheduler = re.compile(r"[a-z_][a-z0-9_]{0,39}")


class PostgresAddress(NamedTuple):
    """A database as asyncpg takes it, and the name of the scheduler in it, which is its schema."""

    dsn: str
    scheduler: str


def node_address(url: str) -> SplitResult:
    """Read the address of a node: one that a connection can be tried to."""
    try:
        parts = urlsplit(url.rstrip("/"))
        _ = parts.port
        (parts.hostname or "").encode("idna")  # as the system's resolver does with it
        parts.path.encode("ascii")
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable()
    except ValueError:  # brackets without an end, a port that is none, a host that cannot be a name
        is_one = False
    if not is_one or " " in url:
        shown = without_password(url)
        raise InvalidRequest(f"{shown!r} is not the address of a node; write http://host:port", field="url")
    return parts


def data_directory(chosen: Path | None = None) -> Path:
    """Return where a node keeps its files: the one chosen, `$FAIRWAY_HOME`, or the user's own."""
    if chosen is not None:
        return chosen
    return Path(os.environ.get("FAIRWAY_HOME") or Path.home() / ".local/share/fairway")


def database_given(said: str | None) -> str | None:
    """Return the address that was said, else that of `$FAIRWAY_DATABASE`; None if there is neither.

    An empty one is refused: it is a variable that nobody set rather than a wish for the default.
    """
    name, address = ("database", said) if said is not None else (VARIABLE, os.environ.get(VARIABLE))
    if address is not None and not address.strip():
        raise InvalidRequest(
            f"{name} is empty; name sqlite:///path/file.db or postgresql://user@host/database, or name none",
            field="database",
        )
    return address


def sqlite_file(address: str) -> Path:
    """Return the file of `sqlite:///path/file.db` (four slashes: an absolute path), or of a plain path."""
    if "://" not in address:
        if _looks_like_postgres.search(address):
            raise InvalidRequest(
                "the database address seems to mean PostgreSQL; write postgresql://user@host/database, "
                "or ./NAME for a file of that name",
                field="database",
            )
        if address:
            return Path(address)
    elif address.startswith(SCHEME) and len(address) > len(SCHEME):
        return Path(address.removeprefix(SCHEME))
    raise InvalidRequest(
        f"database {without_password(address)!r} is not of the form sqlite:///path/file.db or "
        "postgresql://user@host/database",
        field="database",
    )


def check_scheduler(name: str) -> str:
    """Return a scheduler's name if it is one: it names a schema, a file and a prefix of paths."""
    if not _scheduler.fullmatch(name) or name.startswith("pg_"):
        raise InvalidRequest(
            f"{name[:60]!r} cannot name a scheduler: small letters, digits and _, at most 40",
            field="scheduler",
        )
    return name


def scheduler_file(file: Path, scheduler: str | None) -> Path:
    """Return the file of one scheduler: `jobs-night.db` beside `jobs.db`, which is the default one's."""
    if scheduler in (None, DEFAULT_SCHEDULER):
        return file
    return file.with_name(f"{file.stem}-{scheduler}{file.suffix}")


def is_postgres(address: str) -> bool:
    """Say whether a database address names PostgreSQL."""
    return address.startswith(POSTGRES_SCHEMES)


def postgres_address(address: str) -> PostgresAddress:
    """Read `postgresql://user@host,host2:5433/database?scheduler=name`; the rest is asyncpg's."""
    if not is_postgres(address):
        raise InvalidRequest(
            f"database {without_password(address)!r} is not of the form postgresql://host/database",
            field="database",
        )
    place, _, query = address.partition("?")
    named = [part for part in query.split("&") if part.startswith("scheduler=")]
    rest = "&".join(part for part in query.split("&") if part and part not in named)
    scheduler = unquote(named[-1].partition("=")[2]) if named else ""
    return PostgresAddress(f"{place}?{rest}" if rest else place, scheduler or DEFAULT_SCHEDULER)


def postgres_missing(error: ImportError) -> FairwayError:
    """Return the error for a PostgreSQL address where its library is not installed."""
    return FairwayError(f"PostgreSQL needs asyncpg: pip install 'fairway[postgres]' ({error})")


def without_password(address: str) -> str:
    """Return an address as it may be shown: a mistyped one may hold a password too."""
    scheme, mark, rest = address.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{place.partition('?')[0]}"[:200]
