"""Reads a store's `queries.sql` and its migrations, once, at import."""

from __future__ import annotations

import re
from importlib.resources import files

_name = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_queries(package: str) -> dict[str, str]:
    """Return each statement of the package's queries.sql under its name, without the comments above it."""
    text = (files(package) / "queries.sql").read_text("utf-8")
    _, *pieces = _name.split(text)
    return {name: _without_comments(body) for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


def load_migrations(package: str) -> list[tuple[int, str]]:
    """Return the package's numbered migrations, oldest first."""
    folder = files(package) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), (folder / name).read_text("utf-8")) for name in names]


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if line and not line.startswith("--"))
