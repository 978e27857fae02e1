"""Where things are: the data directory, and the file a database address names."""

from __future__ import annotations

import os
from pathlib import Path

from fairway.errors import InvalidRequest

SCHEME = "sqlite:///"


def data_directory(chosen: Path | None = None) -> Path:
    """Return where a node keeps its files: the one chosen, `$FAIRWAY_HOME`, or the user's own."""
    if chosen is not None:
        return chosen
    return Path(os.environ.get("FAIRWAY_HOME") or Path.home() / ".local/share/fairway")


def sqlite_file(address: str) -> Path:
    """Return the file of `sqlite:///path/file.db` (four slashes: an absolute path), or of a plain path."""
    if "://" not in address:
        if address:
            return Path(address)
    elif address.startswith(SCHEME) and len(address) > len(SCHEME):
        return Path(address.removeprefix(SCHEME))
    raise InvalidRequest(
        f"database {address[:200]!r} is not of the form sqlite:///path/file.db", field="database"
    )
