"""A handle on something that is done to many jobs in the background: how far it is, wait for it, abort it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairway.errors import InvalidRequest

if TYPE_CHECKING:
    from fairway.client.app import App

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
UNDER_WAY = ("running", "aborting")


class Operation:
    """One operation, as this process last heard of it. It is the leader's: with a new one it is NotFound."""

    def __init__(self, app: App, operation: dict[str, Any]) -> None:
        self.id: str = operation["id"]
        self._app = app
        #: How far it is, as `GET /v1/operations/{id}` shows it: `state`, `found`, `done`, `refused`...
        self.progress = operation

    @property
    def state(self) -> str:
        """Its state when it was last asked for: running, aborting, done, aborted, stopped or failed."""
        return str(self.progress["state"])

    def refresh(self) -> Operation:
        """Ask how far it is."""
        self.progress = self._app.channel.call("GET", self._path)
        return self

    async def arefresh(self) -> Operation:
        """Do the same without blocking the event loop."""
        self.progress = await self._app.channel.acall("GET", self._path)
        return self

    def wait(self, timeout: float | None = None) -> Operation:
        """Return when it is over, however it went; raises TimeoutError."""
        pauses = _Pauses(timeout)
        while self.state in UNDER_WAY:
            time.sleep(pauses.next(self))
            self.refresh()
        return self

    async def await_end(self, timeout: float | None = None) -> Operation:
        """Do the same without blocking the event loop."""
        pauses = _Pauses(timeout)
        while self.state in UNDER_WAY:
            await asyncio.sleep(pauses.next(self))
            await self.arefresh()
        return self

    def abort(self) -> Operation:
        """Let it stop after the jobs under way; what is done stays done."""
        self.progress = self._app.channel.call("DELETE", self._path)
        return self

    async def aabort(self) -> Operation:
        """Do the same without blocking the event loop."""
        self.progress = await self._app.channel.acall("DELETE", self._path)
        return self

    @property
    def _path(self) -> str:
        return f"/operations/{self.id}"

    def __repr__(self) -> str:
        return f"<Operation {self.id}: {self.progress.get('action')}, {self.state}>"


def body_of(query: str, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked of the node; an operation is always begun, never only counted."""
    if "dry_run" in arguments:
        raise InvalidRequest("a dry run is no operation; search for the jobs instead", field="dry_run")
    return {"q": query, "action": action, **arguments}


class _Pauses:
    """How long to wait before asking again: longer and longer, but never past the timeout."""

    def __init__(self, timeout: float | None) -> None:
        self._until = None if timeout is None else time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def next(self, operation: Operation) -> float:
        left = None if self._until is None else self._until - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError(f"{operation!r} is not over yet")
        pause, self._pause = self._pause, min(self._pause * 1.5, LONGEST_PAUSE)
        return pause if left is None else min(pause, left)
