"""What a job without a task carries: `work`, told apart by its adapter and checked deeply.

To add a kind: a module that checks it, and its name in CHECKS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.command_work import check_command
from fairway.errors import InvalidRequest
from fairway.http_work import check_http
from fairway.warm_work import check_rails, check_warm, is_warm

#: What checks the work of each adapter; it raises InvalidRequest, naming the field.
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "command": check_command,
    "http": check_http,
}


def check_work(work: dict[str, Any] | None) -> tuple[str, str]:
    """Return the adapter and the task it is to run ("" if it has none), if the work is such as it can."""
    work = work or {}
    adapter = work.get("adapter")
    if not isinstance(adapter, str) or not (adapter in CHECKS or is_warm(adapter)):
        known = ", ".join(repr(name) for name in sorted(CHECKS))
        raise InvalidRequest(
            f"work.adapter must be one of {known}, or the name of an adapter that workers bring along",
            field="work.adapter",
        )
    if adapter not in CHECKS:
        return adapter, check_rails(work) if adapter == "rails" else check_warm(work)
    CHECKS[adapter](work)
    return adapter, ""
