"""The contract of a channel: how an App reaches its scheduler.

Two implementations: `remote.py` over HTTP to any node, `direct.py` on the database. A job is what
`GET /v1/jobs/{id}` shows, as a dict; a channel that does not know all of it gives `id` and `state` at least.
Every method comes twice, blocking and awaitable: `submit` and `asubmit`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Protocol

from fairway.client.request import JobRequest

Job = dict[str, Any]

#: How long one question may wait for its job to end; longer waits ask again.
LONGEST_WAIT = 30.0


class Channel(Protocol):
    """A way to the scheduler, shared by all threads of a process; opened by the first call."""

    def submit(self, requests: Sequence[JobRequest[Any]]) -> list[Job]:
        """Submit jobs, all or none of them; returns once they are durable."""

    async def asubmit(self, requests: Sequence[JobRequest[Any]]) -> list[Job]: ...

    def get(self, job: str, wait: float) -> Job:
        """Return a job as soon as it has ended, or as it is after *wait* seconds; raises NotFound."""

    async def aget(self, job: str, wait: float) -> Job: ...

    def cancel(self, job: str) -> Job:
        """Cancel a job; one that waits never begins after this."""

    async def acancel(self, job: str) -> Job: ...

    def act(self, job: str, verb: str, body: dict[str, Any]) -> Job:
        """Do something to a job (`relocate`, `prefer`, `requeue`) and return it."""

    async def aact(self, job: str, verb: str, body: dict[str, Any]) -> Job: ...

    def stack(self, job: str) -> str:
        """Return where a running job's code is; raises Conflict if it does not run."""

    async def astack(self, job: str) -> str: ...

    def put_schedule(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make or replace a schedule and return it as the API shows it."""

    async def aput_schedule(self, name: str, body: dict[str, Any]) -> dict[str, Any]: ...

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the HTTP API: for what is done by the leader alone."""

    async def acall(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]: ...

    def events(self, query: str, after: str | None) -> Iterator[dict[str, Any]]:
        """Yield events as they happen, from behind id *after*."""

    def aevents(self, query: str, after: str | None) -> AsyncIterator[dict[str, Any]]: ...

    def close(self) -> None:
        """Let go of connections; the next call opens them again."""


def first_state(request: JobRequest[Any]) -> str:
    """Return the state a job has when it was just submitted."""
    options = request.options
    if options.get("after"):
        return "blocked"
    return "scheduled" if "delay" in options or "run_at" in options else "queued"
