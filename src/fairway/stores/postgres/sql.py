"""The statements of the PostgreSQL store and its migrations, for a scheduler's own schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from fairway.errors import InvalidRequest
from fairway.stores.queries import load_migrations, load_queries

DEFAULT_SCHEMA = "fairway"

_queries = load_queries(__package__)
_migrations = load_migrations(__package__)
_schema = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def check_schema(name: str) -> str:
    """Return a schema's name if it is one that needs no quoting."""
    if not _schema.fullmatch(name) or name.startswith("pg_"):
        raise InvalidRequest(
            f"{name[:60]!r} cannot name a scheduler: small letters, digits and _, at most 40",
            field="scheduler",
        )
    return name


@lru_cache(64)
def queries_of(schema: str) -> dict[str, str]:
    """Return each statement under its name, speaking of the tables of *schema*."""
    return {name: in_schema(text, schema) for name, text in _queries.items()}


def channel_of(schema: str) -> str:
    """Return the channel on which a scheduler's leader is woken."""
    return f"fairway_{schema}"


def inlined(text: str, *values: int | bytes | Sequence[int]) -> str:
    """Return a statement with its arguments written into it, to be sent together with others.

    Only numbers and bytes, which need no quoting; the placeholders carry their types.
    """
    for number, value in reversed(list(enumerate(values, start=1))):
        if isinstance(value, bytes):
            text = text.replace(f"${number}::bytea", f"'\\x{value.hex()}'::bytea")
        elif isinstance(value, int):
            text = text.replace(f"${number}::bigint", str(int(value)))
        else:
            text = text.replace(f"${number}::bigint[]", f"'{array_of(value)}'::bigint[]")
    return text


def array_of(numbers: Sequence[int]) -> str:
    """Return whole numbers as the text of an array.

    The driver looks at each element of a list to see whether it is a list itself: three times the price.
    """
    return f"{{{','.join(map(int.__repr__, numbers))}}}"


def migrations_of(schema: str) -> list[tuple[int, str]]:
    """Return the numbered migrations, oldest first."""
    return [(number, in_schema(text, schema)) for number, text in _migrations]


def in_schema(text: str, schema: str) -> str:
    """Let a statement speak of the tables of *schema*."""
    return text.replace("fairway.", f"{check_schema(schema)}.")
