"""What one side of the benchmark must be able to do, so that all are measured alike."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol


class Submitted(NamedTuple):
    """How long a client took to submit, and the CPU it used itself."""

    jobs: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


class Queue(Protocol):
    """One side's queue in a fresh database. Nothing executes outside `working`."""

    def fill(self, jobs: int) -> Submitted:
        """Submit no-ops by the side's own bulk call."""

    def fill_resting(self, jobs: int, millis: int) -> Submitted:
        """Submit jobs that sleep so long by the side's own bulk call."""

    def single(self, jobs: int, callers: int) -> Submitted:
        """Submit no-ops one by one, *callers* at a time."""

    def working(self) -> AbstractContextManager[None]:
        """Execute with two processes; entered when both are connected and begin."""

    def left(self) -> int:
        """Count the jobs that have not ended."""

    def is_empty(self) -> bool:
        """Say whether all have ended; cheap, since it is asked during a drain."""

    def check(self, jobs: int) -> str:
        """Raise unless at least *jobs* were executed; say where that was seen. Asked after `working`."""

    def latency(self, samples: int) -> Sequence[float]:
        """Return the milliseconds from the submit call to the task's first line. Asked while `working`."""

    def stamps(self) -> Path:
        """Return the file to which each job that slept has added the moment it was over: 8 bytes."""

    def settle(self) -> None:
        """Let the database write down and count what was filled in."""

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU used so far by the side's own processes and by the database server."""

    def watch_idle(self, seconds: float) -> float | None:
        """Return the statements a second while `working` on nothing; None without PostgreSQL."""

    def log_statements(self) -> None:
        """Prepare `watch_idle`: asked before `working`."""


class Side(Protocol):
    """One queue to be measured."""

    @property
    def name(self) -> str: ...

    @property
    def keeps(self) -> str:
        """Say what is left of a job that ended, by default."""

    @property
    def durable(self) -> bool: ...

    @property
    def ways(self) -> Sequence[int]:
        """Return the numbers of callers that single submits are measured with."""

    def fresh(self) -> AbstractContextManager[Queue]:
        """Lend an empty queue in a database of its own."""
