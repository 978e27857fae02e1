"""A job that somebody wants, its arguments already encoded: what `task.job(...)` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from fairway.client.task import Task

R = TypeVar("R")


class JobRequest(msgspec.Struct, Generic[R], frozen=True):
    """One job to be submitted. Encoded when made: changing an argument afterwards changes nothing."""

    task: Task[..., R]
    args: bytes  # JSON
    kwargs: bytes  # JSON
    options: Mapping[str, Any]

    def body(self) -> dict[str, Any]:
        """Return the job as `POST /v1/jobs` takes it."""
        return {
            "task": self.task.name,
            "args": msgspec.Raw(self.args),
            "kwargs": msgspec.Raw(self.kwargs),
            **self.options,
        }
