"""Jobs to be replayed, and what became of them: the words that reader, generator, replay and judge share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Job(NamedTuple):
    """One job of a log or of a generated world: times in seconds from its start."""

    number: int
    user: str
    submit: float
    seconds: float
    task: str = ""  # none: a command


class Run(NamedTuple):
    """One job as it was run."""

    job: Job
    begin: float

    @property
    def end(self) -> float:
        """When its slot was free again."""
        return self.begin + self.job.seconds


@dataclass(frozen=True)
class Load:
    """Jobs in the order of their submits, the slots they share, and the weights of users that have one."""

    name: str
    jobs: Sequence[Job]
    slots: int
    weights: Mapping[str, float] = field(default_factory=dict)
    group: str = ""  # what it is counted with: loads of one kind that differ in the seed

    @property
    def users(self) -> int:
        """How many users it has."""
        return len({job.user for job in self.jobs})

    @property
    def mean_seconds(self) -> float:
        """How long a job takes on average."""
        return sum(job.seconds for job in self.jobs) / len(self.jobs)
