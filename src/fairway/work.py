"""What a job without a task carries: `work`, told apart by its adapter and checked deeply.

To add a kind: a module that checks it, and its name in CHECKS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.command_work import check_command
from fairway.errors import InvalidRequest
from fairway.http_work import check_http

#: What checks the work of each adapter; it raises InvalidRequest, naming the field.
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "command": check_command,
    "http": check_http,
}


def check_work(work: dict[str, Any] | None) -> str:
    """Return the adapter's name if the work is such as it can run."""
    work = work or {}
    adapter = work.get("adapter")
    check = CHECKS.get(adapter) if isinstance(adapter, str) else None
    if not isinstance(adapter, str) or check is None:
        known = ", ".join(repr(name) for name in sorted(CHECKS))
        raise InvalidRequest(f"work.adapter must be one of {known}", field="work.adapter")
    check(work)
    return adapter
