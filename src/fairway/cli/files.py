"""Files that people write: YAML or JSON, by the name's ending."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairway.cli.parsing import read_json
from fairway.errors import InvalidRequest

MOST_FILE_BYTES = 16 * 1024 * 1024


def read_document(file: Path) -> Any:
    """Read what a file holds; `.yaml` and `.yml` are YAML, all others JSON."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_FILE_BYTES)
        return _read_yaml(text) if file.suffix in {".yaml", ".yml"} else read_json(text)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    except InvalidRequest as error:
        raise click.UsageError(f"{file} {error}") from None


def _read_yaml(text: bytes) -> Any:
    import msgspec

    try:
        return msgspec.yaml.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidRequest(f"is not YAML: {str(error).splitlines()[0]}") from None
