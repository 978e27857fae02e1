"""Files that people write: YAML or JSON, by the name's ending."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from fairway.cli.parsing import check_plain, read_json
from fairway.errors import InvalidRequest

MOST_FILE_BYTES = 16 * 1024 * 1024
MOST_DEPTH = 100  # of which documents and streams take two


def read_document(file: Path) -> Any:
    """Read what a file holds; `.yaml` and `.yml` are YAML, all others JSON."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_FILE_BYTES + 1)
        if len(text) > MOST_FILE_BYTES:
            raise InvalidRequest("is over 16 MB")
        return read_yaml(text) if file.suffix in {".yaml", ".yml"} else read_json(text)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    except InvalidRequest as error:
        raise click.UsageError(f"{file} {error}") from None


def read_yaml(text: bytes) -> Any:
    """Read YAML that means what it says to everybody, and nothing but plain values.

    Aliases are refused, because a few lines of them unfold to gigabytes; tags, because they make objects;
    keys that stand twice, because one of them would be lost.
    """
    import yaml

    try:
        decoded = text.decode()
        _check_events(yaml.parse(decoded, Loader=yaml.SafeLoader))
        return check_plain(_plain(yaml.compose(decoded, Loader=yaml.SafeLoader)))
    except UnicodeDecodeError:
        raise InvalidRequest("is not YAML: it is not UTF-8") from None
    except RecursionError:
        raise InvalidRequest("is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidRequest(f"is not YAML: {' '.join(str(error).split())[:300]}") from None


def _check_events(events: Iterable[Any]) -> None:
    """Refuse what is not plain before anything is built of it."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        where = f"in line {event.start_mark.line + 1}"
        if kind == "AliasEvent" or getattr(event, "anchor", None) is not None:
            raise InvalidRequest(f"has an anchor or alias {where}; write the value out")
        if getattr(event, "tag", None) is not None:
            raise InvalidRequest(f"has a tag {where}; write plain values")
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MOST_DEPTH:
            raise InvalidRequest(f"is nested deeper than {MOST_DEPTH} {where}")


def _plain(node: Any) -> Any:
    import yaml

    if node is None:
        return None
    if isinstance(node, yaml.MappingNode):
        return _plain_mapping(node)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    if node.tag == "tag:yaml.org,2002:timestamp":  # JSON has none: as it is written
        return node.value
    value = yaml.SafeLoader("").construct_object(node)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(f"has a number in line {node.start_mark.line + 1} that is not finite")
    return value


def _plain_mapping(node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        where = f"in line {key.start_mark.line + 1}"
        if key.tag != "tag:yaml.org,2002:str":
            raise InvalidRequest(f"has a key {where} that is not text; quote it")
        if key.value in found:
            raise InvalidRequest(f"has the key {key.value[:60]!r} twice ({where})")
        found[key.value] = _plain(value)
    return found
