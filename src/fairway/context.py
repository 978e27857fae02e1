"""What a task may know about the job it runs for: `fairway.current()`.

A `def` task runs alone in its process, so a plain slot of this module says what runs, and threads that it
starts see it too; an `async def` task shares its loop with others and has a context variable. Setting
the slot costs a tenth of a microsecond: the object users see is made only when they ask for it.

What a task says of itself goes to the *speaker* of its process: the child that runs it sets one.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from fairway import ids
from fairway.errors import InvalidRequest
from fairway.notes import MOST_TEXT, check_checkpoint
from fairway.wire.messages import Assignment


class Stopped(BaseException):
    """Raised inside a task that must end; not an Exception, so that `except Exception` lets it through."""


class TimeLimitReached(Stopped):
    """The attempt has used up its time."""


class CancelRequested(Stopped):
    """Somebody cancelled the job, or its worker is closing."""


class NotInTask(RuntimeError):
    """`fairway.current()` was called where no task runs."""


class Speaker(Protocol):
    """Passes on what attempts say of themselves; called from any thread."""

    def progress(self, key: tuple[int, int], fraction: float, text: str) -> None:
        """How far an attempt is."""

    def checkpoint(self, key: tuple[int, int], body: bytes) -> None:
        """Where a next attempt may go on, as JSON."""


class Current:
    """The attempt that is running now."""

    __slots__ = ("_assignment",)

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    @property
    def job_id(self) -> str:
        """The job's id, as everybody outside writes it."""
        return ids.show(self._assignment.job)

    @property
    def attempt(self) -> int:
        """The number of this attempt; it counts begins."""
        return self._assignment.attempt

    @property
    def fence(self) -> int:
        """A number that rises with each attempt: a resource can refuse what comes with a lower one."""
        return self._assignment.attempt

    @property
    def queue(self) -> str:
        """The queue the job came from."""
        return self._assignment.queue

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._assignment.task

    @property
    def cancelled(self) -> bool:
        """Whether this attempt was asked to end; an exception follows a moment later."""
        return self._assignment[:2] in asked_to_end

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the work is, from 0 to 1, and what it is at. The last word counts, say it often."""
        if isinstance(fraction, bool) or not isinstance(fraction, int | float):
            raise TypeError(f"progress must be a number from 0 to 1, not {fraction!r}")
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress {fraction!r} is not between 0 and 1")
        if speaker is not None:
            text = str(note)[:MOST_TEXT]
            text = text if text.isascii() else text.encode(errors="replace").decode()
            speaker.progress(self._assignment[:2], float(fraction), text)

    def checkpoint(self, data: Any) -> None:
        """Keep *data* (JSON, at most 64 KB) as the place from which a next attempt goes on."""
        try:
            body = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:  # a set, infinity, half a surrogate pair
            raise TypeError(f"a checkpoint must be JSON: {error}") from None
        try:
            check_checkpoint(body)
        except InvalidRequest as error:
            raise ValueError(error.detail) from None
        if speaker is not None:
            speaker.checkpoint(self._assignment[:2], body)

    @property
    def resumed(self) -> Any:
        """The newest checkpoint of the job's earlier attempts, as plain data; None if there is none."""
        left = self._assignment.checkpoint
        return None if left is None else msgspec.json.decode(left)


def current() -> Current:
    """Return the attempt that is running; raises NotInTask elsewhere."""
    global _alone
    here = _shared.get()
    if here is not None:
        return here
    if _alone is None:
        raise NotInTask("fairway.current() works only inside a running task")
    if not isinstance(_alone, Current):
        _alone = Current(_alone)
    return _alone


#: Who passes on what attempts of this process say of themselves; None: nobody listens.
speaker: Speaker | None = None

#: Attempts (job, attempt) of this process that were asked to end.
asked_to_end: set[tuple[int, int]] = set()

_alone: Assignment | Current | None = None
_shared: ContextVar[Current | None] = ContextVar("fairway_current", default=None)


def enter_alone(assignment: Assignment | None) -> None:
    """Say which attempt this process runs, alone; None: no one."""
    global _alone
    _alone = assignment


def enter_shared(assignment: Assignment) -> None:
    """Say which attempt the running asyncio task belongs to."""
    _shared.set(Current(assignment))


def find_key() -> tuple[int, int] | None:
    """Return (job, attempt) of the code that asks; None if no attempt can be told."""
    here = _shared.get() or _alone
    if here is None:
        return None
    return here._assignment[:2] if isinstance(here, Current) else here[:2]


def find_alone() -> tuple[int, int] | None:
    """Return (job, attempt) that this process runs alone, whoever asks."""
    if _alone is None:
        return None
    return _alone._assignment[:2] if isinstance(_alone, Current) else _alone[:2]


def is_shared() -> bool:
    """Whether the code that asks belongs to one attempt of many in this process."""
    return _shared.get() is not None
