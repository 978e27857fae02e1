"""Fairway: a durable, fair job scheduler. Queue, scheduler and worker in one program.

The names below are the public Python API; they are loaded when first used, so that importing fairway is
quick for the command line and for every warm child process of a worker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fairway.client.app import App
    from fairway.client.group import Group
    from fairway.client.handle import Handle
    from fairway.client.request import JobRequest
    from fairway.client.task import Task
    from fairway.context import current
    from fairway.errors import (
        FairwayError,
        JobCancelled,
        JobFailed,
        JobUnknown,
        PermanentFailure,
        RetryAfter,
    )

__all__ = [
    "App",
    "FairwayError",
    "Group",
    "Handle",
    "JobCancelled",
    "JobFailed",
    "JobRequest",
    "JobUnknown",
    "PermanentFailure",
    "RetryAfter",
    "Task",
    "__version__",
    "current",
]

_homes = {
    "App": "fairway.client.app",
    "Group": "fairway.client.group",
    "Handle": "fairway.client.handle",
    "JobRequest": "fairway.client.request",
    "Task": "fairway.client.task",
    "current": "fairway.context",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fairway' has no attribute {name!r}")
    found = getattr(import_module(_homes.get(name, "fairway.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
