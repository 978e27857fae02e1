"""A handle on a job: ask how it stands, wait for its value, cancel it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fairway.client.channel import LONGEST_WAIT, Job
from fairway.core.lifecycle import ENDED
from fairway.errors import InvalidRequest, JobCancelled, JobFailed, JobUnknown

if TYPE_CHECKING:
    from fairway.client.app import App
    from fairway.client.task import Task

R = TypeVar("R")

_ended = frozenset(state.value for state in ENDED)
_failures: dict[str, type[JobFailed]] = {"cancelled": JobCancelled, "unknown": JobUnknown}


class Handle(Generic[R]):
    """One job, as this process last heard of it."""

    def __init__(self, app: App, job: Job, task: Task[..., R] | None = None) -> None:
        self.id: str = job["id"]
        self._app, self._job, self._task = app, job, task

    @property
    def state(self) -> str:
        """The job's state now. Inside an event loop, where asking would block: as last heard."""
        return str(self._current()["state"])

    @property
    def outcome(self) -> dict[str, Any] | None:
        """How the job ended, None before: `{"ok": true, "value": ...}` or reason and error."""
        found: dict[str, Any] | None = self._current().get("outcome")
        return found

    @property
    def progress(self) -> dict[str, Any] | None:
        """How far the last attempt said it is (`fraction`, `text`, `done_at`...), None if it said nothing.

        Inside an event loop, where asking would block: as last heard; `await handle.aprogress()` asks.
        """
        found: dict[str, Any] | None = self._current().get("progress")
        return found

    async def aprogress(self) -> dict[str, Any] | None:
        """Ask how far the job is without blocking the event loop."""
        if self._job["state"] not in _ended:
            await self.arefresh()
        found: dict[str, Any] | None = self._job.get("progress")
        return found

    @property
    def details(self) -> Job:
        """All that was last heard of the job, as `GET /v1/jobs/{id}` shows it."""
        return dict(self._job)

    def refresh(self) -> Handle[R]:
        """Ask how the job stands."""
        self._job = self._app.channel.get(self.id, 0)
        return self

    async def arefresh(self) -> Handle[R]:
        """Do the same without blocking the event loop."""
        self._job = await self._app.channel.aget(self.id, 0)
        return self

    def result(self, timeout: float | None = None) -> R:
        """Wait until the job has ended and return its value.

        Raises JobFailed (JobCancelled, JobUnknown) if it has none, TimeoutError when *timeout* seconds
        are over; the job itself goes on then.
        """
        return self.wait(timeout)._value()

    async def aresult(self, timeout: float | None = None) -> R:
        """Do the same without blocking the event loop."""
        return (await self.await_end(timeout))._value()

    def wait(self, timeout: float | None = None) -> Handle[R]:
        """Wait until the job has ended, however; raises TimeoutError when *timeout* seconds are over."""
        deadline = _Deadline(timeout)
        while not self._has_verdict():
            deadline.check(self)
            self._job = self._app.channel.get(self.id, deadline.next_wait())
        return self

    async def await_end(self, timeout: float | None = None) -> Handle[R]:
        """Do the same without blocking the event loop."""
        deadline = _Deadline(timeout)
        while not self._has_verdict():
            deadline.check(self)
            self._job = await self._app.channel.aget(self.id, deadline.next_wait())
        return self

    def cancel(self) -> Handle[R]:
        """Cancel the job: if it waits it never begins after this; if it runs it is stopped."""
        self._job = self._app.channel.cancel(self.id)
        return self

    async def acancel(self) -> Handle[R]:
        """Do the same without blocking the event loop."""
        self._job = await self._app.channel.acancel(self.id)
        return self

    def relocate(self, to: str | None = None, *, away: bool = False) -> Handle[R]:
        """Send the job to worker *to*, or *away* from its own; if it runs it is stopped and handed back."""
        self._job = self._app.channel.act(self.id, "relocate", _goal(to, away))
        return self

    async def arelocate(self, to: str | None = None, *, away: bool = False) -> Handle[R]:
        """Do the same without blocking the event loop."""
        self._job = await self._app.channel.aact(self.id, "relocate", _goal(to, away))
        return self

    def prefer(self) -> Handle[R]:
        """Put the job, which waits, in front of its line; it is due from now on."""
        self._job = self._app.channel.act(self.id, "prefer", {})
        return self

    async def aprefer(self) -> Handle[R]:
        """Do the same without blocking the event loop."""
        self._job = await self._app.channel.aact(self.id, "prefer", {})
        return self

    def requeue(self) -> Handle[R]:
        """Put the job at the end of its line; if it runs it is stopped and handed back."""
        self._job = self._app.channel.act(self.id, "requeue", {})
        return self

    async def arequeue(self) -> Handle[R]:
        """Do the same without blocking the event loop."""
        self._job = await self._app.channel.aact(self.id, "requeue", {})
        return self

    def stack(self) -> str:
        """Return where the job's code is just now, as text; raises Conflict if it does not run."""
        return self._app.channel.stack(self.id)

    async def astack(self) -> str:
        """Do the same without blocking the event loop."""
        return await self._app.channel.astack(self.id)

    def _current(self) -> Job:
        if self._job["state"] not in _ended and not _in_event_loop():
            self.refresh()
        return self._job

    def _has_verdict(self) -> bool:
        return self._job["state"] in _ended and self._job.get("outcome") is not None

    def _value(self) -> R:
        outcome = self._job["outcome"]
        if not outcome["ok"]:
            raise self._failure(outcome)
        # Work of another adapter may be named like a task of ours.
        name = "" if self._job.get("work") else self._job.get("task") or ""
        task = self._task or self._app.tasks.get(name)
        convert = task.convert_value if task else None
        value: R = outcome.get("value") if convert is None else convert(outcome.get("value"))
        return value

    def _failure(self, outcome: dict[str, Any]) -> JobFailed:
        kind = _failures.get(self._job["state"], JobFailed)
        error = outcome.get("error") or {}
        told = {name: str(error.get(name) or "") for name in ("type", "message", "traceback")}
        return kind(self.id, str(outcome.get("reason") or self._job["state"]), **told)

    def __repr__(self) -> str:
        return f"<Handle {self.id} {self._job['state']}>"


def _goal(to: str | None, away: bool) -> dict[str, Any]:
    if (to is None) == (not away):
        raise InvalidRequest("give exactly one of to= and away=True", field="to")
    return {"away": True} if to is None else {"to": to}


class _Deadline:
    """Cuts one wait, bounded or not, into questions of at most LONGEST_WAIT seconds."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._until = None if timeout is None else time.monotonic() + timeout
        self._asked = False

    def check(self, handle: Handle[Any]) -> None:
        """Raise TimeoutError when the time is over; the first look is always allowed."""
        if self._asked and self._until is not None and time.monotonic() >= self._until:
            state = handle.details["state"]
            raise TimeoutError(f"job {handle.id} has not ended within {self._timeout:g} s; it is {state}")
        self._asked = True

    def next_wait(self) -> float:
        """Return how long the next question may wait."""
        if self._until is None:
            return LONGEST_WAIT
        return min(max(self._until - time.monotonic(), 0.0), LONGEST_WAIT)


def _in_event_loop() -> bool:
    # Where asyncio was never imported (it takes 60 ms) no loop can run.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
