"""What the members of queues hold and have had under one leader, by the rows alone.

Those that share the slots of a queue are its members: the branches below it and, named with a slash at the
end, its own jobs. Each attempt holds one slot, from the plan that begins it to the plan that ends it, or from
the election if an earlier leader began it. So it is in worlds that last: nothing shares a slot there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from fairway.core.lifecycle import State

from .promises import up

if TYPE_CHECKING:
    from .witness import Witness

Key = tuple[int, int]


@dataclass
class Run:
    """An attempt, as it counts under this leader."""

    job: int
    begin: float
    end: float | None = None


class Holdings:
    """The books of one leader's time."""

    def __init__(self, witness: Witness, mono: float) -> None:
        self._witness = witness
        self.at = mono
        live = {job: row for job, row in witness.rows.items() if row.state is State.RUNNING}
        self.runs = {(job, row.attempt): Run(job, mono) for job, row in live.items()}
        self.held = self._holding()  # slots by member, since `at`
        self.had: defaultdict[str, float] = defaultdict(float)  # slot-seconds by member, until `at`
        self.ended: defaultdict[str, float] = defaultdict(float)  # those of attempts that are over, by queue
        self.longest = 1.0  # attempt, in seconds; before one has ended the core takes turns for so long
        self.turns: defaultdict[str, float] = defaultdict(float)  # the longest by member

    def change(self, ended: Iterable[Key], begun: Iterable[Key], mono: float) -> None:
        """Take in what a plan that was made at *mono* has ended and begun; the rows say so already."""
        for member, slots in self.held.items():
            self.had[member] += slots * (mono - self.at)
        self.at = mono
        for key in ended:
            self._end(self.runs[key])
        self.runs |= {key: Run(key[0], mono) for key in begun}
        self.held = self._holding()

    def runs_of(self, member: str, since: float) -> list[Run]:
        """Return the attempts of a member that have not ended before *since*."""
        recent = (run for run in self.runs.values() if run.end is None or run.end > since)
        return [run for run in recent if member in members_of(self.queue_of(run))]

    def queue_of(self, run: Run) -> str:
        """Return where an attempt counts now."""
        return self._witness.rows[run.job].queue

    def _end(self, run: Run) -> None:
        run.end, seconds, queue = self.at, self.at - run.begin, self.queue_of(run)
        self.ended[queue] += seconds
        self.longest = max(self.longest, seconds)
        for member in members_of(queue):
            self.turns[member] = max(self.turns[member], seconds)

    def _holding(self) -> dict[str, int]:
        held = {path: count for path, count in self._witness.running.items() if path and count}
        return held | {f"{path}/": count for path, count in self._witness.own_running.items() if count}


@lru_cache(1000)
def members_of(queue: str) -> tuple[str, ...]:
    """Return for whom an attempt of a queue counts: the queue's own jobs, and each branch it is in."""
    return f"{queue}/", *up(queue)


def parent_of(member: str) -> str:
    """Return the queue whose slots a member shares."""
    return member.rpartition("/")[0]
