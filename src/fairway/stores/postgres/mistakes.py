"""What PostgreSQL and the network say, as errors of our own: passing, or for a person to look at."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncpg

from fairway.errors import FairwayError, StoreUnavailable, StoreUnusable

_hopeless: dict[type[BaseException], str] = {
    asyncpg.InvalidAuthorizationSpecificationError: "it does not let us in",
    asyncpg.InvalidCatalogNameError: "there is no such database; create it first (createdb)",
    asyncpg.InsufficientPrivilegeError: "this user may not do that",
    asyncpg.UndefinedTableError: "it is not prepared; run `fairway init`",
    asyncpg.InvalidSchemaNameError: "it is not prepared; run `fairway init`",
    asyncpg.UndefinedColumnError: "its tables are of another version; run `fairway doctor`",
}

_READ_ONLY = (asyncpg.ReadOnlySQLTransactionError, asyncpg.TargetServerAttributeNotMatched)


def explain(error: BaseException, dsn: str = "") -> FairwayError:
    """Return the error of ours that says what happened."""
    where = f"PostgreSQL at {place_of(dsn)}" if dsn else "PostgreSQL"
    for kind, text in _hopeless.items():
        if isinstance(error, kind):
            return StoreUnusable(f"{where}: {text} ({_first_line(error)})")
    if isinstance(error, ValueError | OverflowError) or type(error).__name__ == "ClientConfigurationError":
        return StoreUnusable(f"{where}: the address is not understood ({_first_line(error)})")
    if isinstance(error, _READ_ONLY):
        return StoreUnavailable(f"{where}: no server there takes writes: a standby, or a fail-over under way")
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{where} did not answer in time")
    return StoreUnavailable(f"{where}: {type(error).__name__}: {_first_line(error)}")


def place_of(dsn: str) -> str:
    """Return host, port and database of an address, never its password."""
    parts = urlsplit(dsn)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}" or "?"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:300]
