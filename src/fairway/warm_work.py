"""The work of warm adapters: `{"adapter": "node", "task": "resize", "args": [...], "kwargs": {...}}`.

For `rails` the task is named by `job` (a class) or by `call` (a method of a constant that opts in). Which
adapters there are is known to the workers alone: a job for one that nobody has waits and says so.
"""

from __future__ import annotations

import re
from typing import Any

from fairway.errors import InvalidRequest
from fairway.names import check_task

ADAPTER_PATTERN = r"[a-z][a-z0-9_-]{0,30}"
#: Adapters with work of another kind.
OTHERS = frozenset({"command", "http", "python"})

_adapter = re.compile(ADAPTER_PATTERN, re.ASCII)


def is_warm(adapter: str) -> bool:
    """Say whether this can be a warm adapter's name."""
    return adapter not in OTHERS and _adapter.fullmatch(adapter) is not None


def check_warm(work: dict[str, Any]) -> str:
    """Return the task of `{"adapter": "node", "task": ...}`."""
    _check_keys(work, "task")
    return _check_name(work, "task")


def check_rails(work: dict[str, Any]) -> str:
    """Return the task of `{"adapter": "rails", "job": "MyJob"}`, or "call": "Some::Constant.perform"."""
    _check_keys(work, "job", "call")
    if ("job" in work) == ("call" in work):
        raise InvalidRequest(
            "work of the rails adapter has either job, such as 'MailJob', or call, such as 'Mail::Box.sweep'",
            field="work.job",
        )
    if "job" in work:
        return _check_name(work, "job")
    name = _check_name(work, "call")
    if "." not in name:
        raise InvalidRequest(
            f"work.call {name!a} names no method; write Some::Constant.method", field="work.call"
        )
    return name


def _check_keys(work: dict[str, Any], *naming: str) -> None:
    known = ("adapter", *naming, "args", "kwargs")
    for key in work:
        if key not in known:
            raise InvalidRequest(
                f"work of adapter {work['adapter']} has no field {key[:60]!a}; known are {', '.join(known)}",
                field="work",
            )
    if not isinstance(work.get("args", []), list):
        raise InvalidRequest("work.args must be a list", field="work.args")
    if not isinstance(work.get("kwargs", {}), dict):
        raise InvalidRequest("work.kwargs must be an object", field="work.kwargs")


def _check_name(work: dict[str, Any], key: str) -> str:
    name = work.get(key)
    if not isinstance(name, str):
        raise InvalidRequest(
            f"work of the adapter {work['adapter']} needs {key}, the name of a task", field=f"work.{key}"
        )
    return check_task(name, f"work.{key}")
