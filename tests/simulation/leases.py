"""When an attempt may be taken from its worker: the guard of `lose`, judged from outside.

A leader may do so when it was told that the worker is dead (and it is), or when it has heard nothing of the
attempt, or of its worker, for a whole lease during which it was itself punctual.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.core import events as happened
from fairway.core.plan import End, Return

EPSILON = 1e-6


class Reigning(NamedTuple):
    """How punctual a leader has been."""

    elected_at: float
    planned_at: float
    patient_since: float


class Leases:
    """What each leader has heard of whom, and when."""

    def __init__(self, lease: float, beat: float) -> None:
        self.lease, self.beat = lease, beat
        self._reigns: dict[int, Reigning] = {}
        self._dead: set[str] = set()
        self._told_dead: set[tuple[int, str]] = set()  # (term, incarnation)
        self._heard: dict[tuple[int, str], float] = {}
        self._named: dict[tuple[int, int, int], float] = {}  # (term, job, attempt)

    def elected(self, term: int, mono: float) -> None:
        """A leader's time begins."""
        self._reigns[term] = Reigning(mono, mono, mono)

    def died(self, incarnation: str) -> None:
        """A worker's life is over."""
        self._dead.add(incarnation)

    def absorbed(self, term: int, event: happened.CoreEvent, mono: float) -> None:
        """A leader hears of something that matters for leases."""
        if isinstance(event, happened.Renewed | happened.Joined):
            whose = event.incarnation if isinstance(event, happened.Renewed) else event.spec.incarnation
            self._heard[term, whose] = mono
            for held in event.holds:
                self.named(term, held.job, held.attempt, mono)
        if isinstance(event, happened.Joined) and event.predecessor:
            self._told_dead.add((term, event.predecessor))
        if isinstance(event, happened.Gone | happened.Parted):
            self._told_dead.add((term, event.incarnation))

    def named(self, term: int, job: int, attempt: int, mono: float) -> None:
        """A leader hears that an attempt is held, finds it, or begins it itself."""
        self._named[term, job, attempt] = mono

    def planned(self, term: int, mono: float) -> None:
        """A leader made a plan; if it was late it must be patient again."""
        before = self._reigns[term]
        late = mono - before.planned_at > self.beat
        self._reigns[term] = Reigning(before.elected_at, mono, mono if late else before.patient_since)

    def find_fault(self, term: int, job: int, one: End | Return, mono: float) -> str | None:
        """Say what is wrong with taking an attempt from its worker now, or None."""
        if (term, one.incarnation) in self._told_dead and one.incarnation in self._dead:
            return None
        reign = self._reigns[term]
        unnamed = mono - self._named.get((term, job, one.attempt), mono)
        unheard = mono - self._heard.get((term, one.incarnation), reign.elected_at)
        silent, patient = max(unnamed, unheard), mono - reign.patient_since
        if min(silent, patient) >= self.lease - EPSILON:
            return None
        return (
            f"{job}:{one.attempt} taken from {one.incarnation} after {silent:.2f} s without a word, "
            f"by a leader that has been punctual for {patient:.2f} s"
        )
