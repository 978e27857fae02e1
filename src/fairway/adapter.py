"""The contract of an adapter: how a worker executes one kind of job.

An adapter starts attempts and says how they ended; it never talks to a node and never decides about
retries. It runs inside the worker's agent, which never executes user code: code runs in processes that
the guardian started on the adapter's behalf.

An adapter may have a `version` (a string), which its worker announces.

To add one: write a class in `adapters/`, name it in `build_adapters` of worker/app.py, and add it to the
conformance suite in tests/integration/test_adapters.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fairway.wire.messages import Assignment, LogPiece, Note, Result, Task


class Reporter(Protocol):
    """Where an adapter reports to: the agent."""

    def finished(self, results: Sequence[Result]) -> None:
        """These attempts ended."""

    def handed_back(self, attempts: Sequence[tuple[int, int]]) -> None:
        """These attempts did not start and never will here."""

    def began(self, attempts: Sequence[tuple[int, int]]) -> None:
        """These attempts, which stood behind others, have taken their slot."""

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """These attempts wrote output."""

    def noted(self, notes: Sequence[Note]) -> None:
        """These attempts said how far they are, or left a checkpoint; before their results."""


class Adapter(Protocol):
    """Runs attempts of one kind."""

    name: str

    async def start(self, reporter: Reporter) -> list[Task]:
        """Get ready; return the tasks this adapter knows (none for those without a registry)."""

    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Run one attempt, or one bundle in its order; returns at once, outcomes go to the reporter.

        If it raises, it has taken none of them: the agent hands them back.
        """

    def begin_behind(self, assignments: Sequence[Assignment]) -> bool:
        """Run an attempt, or a bundle, right after what one of its processes runs; False: none takes it.

        Told of by `began` when that has ended. What has to wait too long there is handed back.
        """

    def take_back(self) -> None:
        """Hand back what stands behind something and has not started; what runs is left alone."""

    def stop(self, job: int, attempt: int, force: bool, kind: str = "cancelled") -> None:
        """Stop an attempt: ask, then insist; its result is reported as *kind*."""

    def started(self, job: int, attempt: int) -> bool:
        """Say whether this attempt's code has begun."""

    async def look(self, job: int, attempt: int) -> str | None:
        """Return where this attempt's code is just now, for people; None if it cannot be told."""

    def resize(self, slots: int) -> None:
        """The worker offers so many slots from now on."""

    async def close(self, grace_seconds: float) -> None:
        """Stop everything; what has not started is handed back, what runs gets the grace, then is stopped."""
