"""A group: jobs that are submitted together, and one that begins when all of them have ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from msgspec.structs import replace

from fairway.client.handle import Handle
from fairway.client.options import JobOptions, checked
from fairway.client.request import JobRequest
from fairway.client.together import Together, check_request
from fairway.errors import InvalidRequest

R = TypeVar("R")

MOST = 10_000  # jobs of a group, the callback included: it is one call


class Group(Generic[R]):
    """Handles on the jobs of a group: `.jobs`, and `.then`, if there is one."""

    def __init__(self, handles: Sequence[Handle[Any]], has_callback: bool, name: str | None) -> None:
        self.name = name
        self.then: Handle[R] | None = handles[-1] if has_callback else None
        self.jobs = list(handles[:-1] if has_callback else handles)

    def wait(self, timeout: float | None = None) -> Group[R]:
        """Wait until all have ended, however; raises TimeoutError when *timeout* seconds are over."""
        deadline = _deadline(timeout)
        for handle in self._last_first():
            handle.wait(_left(deadline))
        return self

    async def await_all(self, timeout: float | None = None) -> Group[R]:
        """Do the same without blocking the event loop."""
        deadline = _deadline(timeout)
        for handle in self._last_first():
            await handle.await_end(_left(deadline))
        return self

    def result(self, timeout: float | None = None) -> R:
        """Wait and return the value of `then`; without one, a list of the jobs' values.

        Raises what `Handle.result` raises: without a callback, for the first job that has no value.
        """
        self.wait(timeout)
        if self.then is not None:
            return self.then.result(0)
        return cast(R, [handle.result(0) for handle in self.jobs])

    async def aresult(self, timeout: float | None = None) -> R:
        """Do the same without blocking the event loop."""
        await self.await_all(timeout)
        if self.then is not None:
            return await self.then.aresult(0)
        return cast(R, [await handle.aresult(0) for handle in self.jobs])

    def _last_first(self) -> list[Handle[Any]]:
        # The callback ends last as a rule: then each of the others is asked about once.
        return [self.then, *self.jobs] if self.then is not None else self.jobs

    def __repr__(self) -> str:
        return f"<Group {self.name or ''} of {len(self.jobs)}, then {self.then!r}>"


def grouped(
    requests: Iterable[JobRequest[Any]], then: JobRequest[Any] | None, name: str | None
) -> list[JobRequest[Any]]:
    """Return the requests of a group as they are sent, the callback last."""
    several = list(requests)
    if then is not None:
        check_request(then)
        after = [*then.options.get("after", ()), *several]
        several.append(replace(then, options={"if_failed": "run", **then.options, "after": after}))
    if not 1 <= len(several) <= MOST:
        raise InvalidRequest(f"a group has 1 to {MOST} jobs, not {len(several)}", field="requests")
    named = list(Together().name(several))
    return named if name is None else _labelled(named, checked({"group": name}, JobOptions))


def _labelled(requests: Sequence[JobRequest[Any]], label: dict[str, Any]) -> list[JobRequest[Any]]:
    """Return requests with one option more; those that shared their options share them still."""
    options = {id(one.options): {**one.options, **label} for one in requests}
    return [replace(one, options=options[id(one.options)]) for one in requests]


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
