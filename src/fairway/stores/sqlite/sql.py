"""Reads `queries.sql` and the migrations once, at import."""

from __future__ import annotations

import re
from importlib.resources import files

_name = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_queries() -> dict[str, str]:
    """Return each statement of queries.sql under its name, without the comments above it."""
    text = (files(__package__) / "queries.sql").read_text("utf-8")
    _, *pieces = _name.split(text)
    return {name: _without_comments(body) for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


def load_migrations() -> list[tuple[int, str]]:
    """Return the numbered migrations, oldest first."""
    folder = files(__package__) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), (folder / name).read_text("utf-8")) for name in names]


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if line and not line.startswith("--"))


SQL = load_queries()
MIGRATIONS = load_migrations()
