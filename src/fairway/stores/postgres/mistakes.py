"""What PostgreSQL and the network say, as errors of our own: passing, or for a person to look at."""

from __future__ import annotations

import ssl
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

_MORE = (
    "raise max_connections or the role's limit, or end others'; `fairway doctor` says how many a node needs"
)
_READ_ONLY = (asyncpg.ReadOnlySQLTransactionError, asyncpg.TargetServerAttributeNotMatched)


def explain(error: BaseException, dsn: str = "") -> FairwayError:
    """Return the error of ours that says what happened."""
    where = f"PostgreSQL at {place_of(dsn)}" if dsn else "PostgreSQL"
    if (text := _about_ssl(error, dsn)) is not None:
        return StoreUnusable(f"{where}: {text} ({_first_line(error)})")
    for kind, text in _hopeless.items():
        if isinstance(error, kind):
            return StoreUnusable(f"{where}: {text} ({_first_line(error)})")
    if isinstance(error, ValueError | OverflowError) or type(error).__name__ == "ClientConfigurationError":
        return StoreUnusable(f"{where}: the address is not understood ({_first_line(error)})")
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return StoreUnavailable(f"{where}: it has no connection left for us; {_MORE} ({_first_line(error)})")
    if isinstance(error, _READ_ONLY):
        return StoreUnavailable(f"{where}: no server there takes writes: a standby, or a fail-over under way")
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{where} did not answer in time")
    return StoreUnavailable(f"{where}: {type(error).__name__}: {_first_line(error)}")


def _about_ssl(error: BaseException, dsn: str) -> str | None:
    """Say what the two sides do not agree on."""
    if isinstance(error, ssl.SSLCertVerificationError):  # it is a ValueError, too
        return (
            "its certificate is not trusted; name who signed it by sslrootcert=FILE in the address, "
            "and the server by a name that stands in its certificate"
        )
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError) and "no encryption" in str(error):
        return "it does not let us in without SSL; write ?sslmode=require in the address"
    if isinstance(error, FileNotFoundError) and "sslrootcert=" in dsn:
        return "the file of sslrootcert in its address is not there, or that of sslcert or sslkey"
    if isinstance(error, ConnectionError) and "rejected SSL" in str(error):
        return "it does not speak SSL; turn ssl on there, or write another sslmode in the address"
    return None


def place_of(dsn: str) -> str:
    """Return host, port and database of an address, never its password."""
    parts = urlsplit(dsn)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}" or "?"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:300]
