"""The account of a member or a flow: the slots that it holds now, and what it has had of those others wanted.

What it holds above its assured slots is its excess, *e*; the integral of that over time is *S*, in
slot-seconds. The one with the least `(S + h·e) / weight` is next, where *h* is how long a slot that is held
now is held altogether. So *h* is the time in which differences are made up for: who is behind by *d*
slot-seconds is given `d / h` slots more than its share until it is not. With a small *h* one that is behind
is given everything, and then nothing for as long; with *h* the length of turns, seldom more than one slot.

S counts among those that compete (`contest.py`): who joins them is level with what they have had on average,
and is the next all the same; what that puts it before the others is a loan, which its first begin pays back.
Owned by a queue or a discipline; times are monotonic seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.core.model import SLOT

if TYPE_CHECKING:
    from fairway.core.contest import Contest

FADING = 0.9  # of the longest attempt, with each that ends


class Account:
    """What one of those that share slots holds and has had."""

    __slots__ = (
        "assured",
        "at",
        "contest",
        "era",
        "held",
        "loan",
        "longest",
        "slot_seconds",
        "used",
        "weight",
    )

    def __init__(self) -> None:
        self.assured = 0  # units of slots, like `held`
        self.weight = 1.0
        self.held = 0
        self.used = 0.0  # S, until `at`
        self.loan = 0.0  # what is to be added to it with the next begin
        self.longest = 0.0  # about the longest of the attempts that ended lately, in seconds
        self.slot_seconds = 0.0  # the integral of `held`, until `at`, for people to see
        self.at = 0.0
        self.contest: Contest | None = None  # it competes in
        self.era = 0  # of the contest that it left last

    @property
    def over(self) -> int:
        """What it holds above its assured slots."""
        over = self.held - self.assured
        return over if over > 0 else 0

    def pass_time(self, mono: float) -> None:
        """Charge what it has held up to now; called before `held`, `assured` or `weight` change."""
        held = self.held
        if held:
            passed = (mono - self.at) / SLOT
            self.slot_seconds += held * passed
            if held > self.assured:
                self.used += (held - self.assured) * passed
        self.at = mono

    def hold(self, units: int, mono: float) -> None:
        """Hold so many units more from now on, or fewer."""
        before = self.held - self.assured
        self.pass_time(mono)
        self.held += units
        if self.contest is not None:
            after = before + units
            self.contest.hold((after if after > 0 else 0) - (before if before > 0 else 0), mono)

    def begin(self, units: int, mono: float) -> None:
        """Hold more: something of it begins."""
        if self.loan:
            self.used += self.loan
            self.loan = 0.0
        self.hold(units, mono)

    def end(self, units: int, seconds: float, mono: float) -> None:
        """Hold less: something of it ended, after so many seconds."""
        self.hold(-units, mono)
        longest = self.longest * FADING
        self.longest = longest if longest > seconds else seconds

    def assure(self, units: int, mono: float) -> None:
        """Change how much of what it holds is its own by right."""
        self.pass_time(mono)
        before, self.assured = self.over, units
        if self.contest is not None:
            self.contest.hold(self.over - before, mono)

    def reweigh(self, weight: float, mono: float) -> None:
        """Change the weight; S / weight stays as it was, so nobody is paid or fined for the past."""
        if weight == self.weight:
            return
        self.pass_time(mono)
        contest = self.contest
        if contest is not None:
            contest.leave(self, mono)
        self.used *= weight / self.weight
        self.weight = weight
        if contest is not None:
            contest.enter(self, mono)

    def used_until(self, mono: float) -> float:
        """Return S as it will be then, if nothing changes."""
        over = self.held - self.assured
        return self.used + over * ((mono - self.at) / SLOT) if over > 0 else self.used

    def level(self, mono: float) -> float:
        """Return what it has had, by its weight, with what it has borrowed."""
        return (self.used_until(mono) + self.loan) / self.weight

    def slot_seconds_until(self, mono: float) -> float:
        """Return the slot-seconds it has held in all."""
        return self.slot_seconds + self.held / SLOT * max(mono - self.at, 0.0)

    def standing(self, mono: float, ahead: float) -> float:
        """Return (S + h·e) / weight; it never falls while nothing else changes. *ahead* is h, in seconds."""
        over = self.held - self.assured
        if over <= 0:
            return self.used / self.weight
        return (self.used + over / SLOT * (mono - self.at + ahead)) / self.weight
