"""A member of a queue: one of its children, or its own jobs. What it holds now, and what it has had.

Slots are shared by what a member holds above its assured ones (its excess, *e*) and by the integral of that
over time (*S*, slot-seconds). The one with the least `(S + h·e) / weight` is next: *S* makes long jobs cost
what they use, *h·e* makes those count that run now, for as long as they may be expected to go on. All that
it holds, over time, is only counted for people to see. Owned by the tree; times are monotonic seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.core.model import SLOT

if TYPE_CHECKING:
    from fairway.core.queue import Queue


class Member:
    """What competes for the slots of *parent*; the root has none."""

    __slots__ = (
        "assured", "at", "busy", "held", "order", "parent", "priority", "served", "slot_seconds", "used",
        "version", "weight",
    )  # fmt: skip

    def __init__(self, parent: Queue | None, order: int) -> None:
        self.parent = parent
        self.order = order  # of creation: the last tie-break
        self.assured = 0  # units of slots, like `held`
        self.weight = 1.0
        self.priority = 0
        self.held = 0
        self.used = 0.0  # S, until `at`
        self.slot_seconds = 0.0  # the integral of `held`, until `at`
        self.at = 0.0
        self.served = 0  # the number of its last turn
        self.version = 0  # rises when its standing changes: what was noted about it before is void
        self.busy = False  # holds something, or something below it could begin

    def pass_time(self, mono: float) -> None:
        """Charge what it has held up to now; called before `held`, `assured` or `weight` change."""
        held = self.held
        if held:
            self.slot_seconds += held * ((mono - self.at) / SLOT)
            if held > self.assured:
                self.used = self.used_until(mono)
        self.at = mono

    def used_until(self, mono: float) -> float:
        """Return S as it will be then, if nothing changes."""
        over = self.held - self.assured
        return self.used + over * ((mono - self.at) / SLOT) if over > 0 else self.used

    def slot_seconds_until(self, mono: float) -> float:
        """Return the slot-seconds it has held in all."""
        return self.slot_seconds + self.held / SLOT * max(mono - self.at, 0.0)

    def standing(self, mono: float, ahead: float) -> float:
        """Return (S + h·e) / weight; it never falls while nothing else changes. *ahead* is h, in seconds."""
        over = self.held - self.assured
        if over <= 0:
            return self.used / self.weight
        return (self.used + over / SLOT * (mono - self.at + ahead)) / self.weight

    def level(self, mono: float) -> float:
        """Return S / weight; it never falls while nothing else changes."""
        over = self.held - self.assured
        used = self.used + over / SLOT * (mono - self.at) if over > 0 else self.used
        return used / self.weight

    def reweigh(self, weight: float, mono: float) -> None:
        """Change the weight; S / weight stays as it was, so nobody is paid or fined for the past."""
        self.pass_time(mono)
        self.used *= weight / self.weight
        self.weight = weight
