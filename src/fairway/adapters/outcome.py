"""How an attempt ended, before it becomes a result."""

from __future__ import annotations

from typing import Any

#: Kind, what the body says, and the seconds to wait (for the kind `retry_after`).
Outcome = tuple[str, Any, float]


def describe(type: str, message: str, traceback: str = "") -> dict[str, Any]:
    """Return an error."""
    return {"type": type, "message": message, "traceback": traceback}
