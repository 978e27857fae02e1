"""A worker's machine in words: what it says of itself, with units that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Said in a line of words together with others.
_TOLD = frozenset(
    {"hostname", "pid", "os", "machine", "cpu", "cpus", "load", "memory_bytes", "memory_free_bytes",
     "disk_free_bytes", "region", "zone", "cloud", "instance_type", "python", "nodes"}
)  # fmt: skip


def machine_of(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return lines about a machine; facts that nobody here knows come last, as they are."""
    named = [
        ("host", _together(facts.get("hostname"), _with("pid", facts.get("pid")))),
        ("system", _together(facts.get("os"), facts.get("machine"), _with("Python", facts.get("python")))),
        (
            "cpu",
            _together(_with(facts.get("cpus"), "cores"), facts.get("cpu"), _with("load", facts.get("load"))),
        ),
        ("memory", _share(facts.get("memory_free_bytes"), facts.get("memory_bytes"))),
        ("disk", _share(facts.get("disk_free_bytes"), None)),
        ("stands in", _together(*(facts.get(key) for key in ("cloud", "region", "zone", "instance_type")))),
    ]
    others = [(f"  {key}", str(value)) for key, value in sorted(facts.items()) if key not in _TOLD]
    return [(words, said) for words, said in named if said] + others


def size(count: float) -> str:
    """Write a number of bytes: 15.5 GB."""
    for unit, bytes_each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= bytes_each:
            return f"{count / bytes_each:.1f} {unit}"
    return f"{count:.0f} bytes"


def _share(free: Any, whole: Any) -> str:
    sizes = [size(one) if isinstance(one, int | float) else None for one in (free, whole)]
    if sizes[0] and sizes[1]:
        return f"{sizes[0]} of {sizes[1]} free"
    return f"{sizes[0]} free" if sizes[0] else sizes[1] or ""


def _with(first: Any, second: Any) -> str | None:
    return None if first is None or second is None else f"{first} {second}"


def _together(*parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, ""))
