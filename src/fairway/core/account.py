"""The account of a member or a flow: the slots that it holds now, and what it has had of those others wanted.

What it holds above its assured slots is its excess, *e*; the integral of that over time is *S*, in
slot-seconds. The one with the least `(S + h·e) / weight` is next, where *h* is how long a slot that is held
now is held altogether. So *h* is the time in which differences are made up for: who is behind by *d*
slot-seconds is given `d / h` slots more than its share until it is not. With a small *h* one that is behind
is given everything, and then nothing for as long; with *h* the length of turns, seldom more than one slot.

What is begun before a slot is free (`ahead.py`) is held, so that turns go round, but not charged while it
waits.

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
        "waits",
        "weight",
    )

    def __init__(self) -> None:
        self.assured = 0  # units of slots, like `held`
        self.weight = 1.0
        self.held = 0
        self.waits = 0  # units of what it holds that wait for their slots: time is not charged for them
        self.used = 0.0  # S, until `at`
        self.loan = 0.0  # what is to be added to it with the next begin
        self.longest = 0.0  # about the longest of the attempts that ended lately, in seconds
        self.slot_seconds = 0.0  # the integral of `held`, until `at`, for people to see
        self.at = 0.0
        self.contest: Contest | None = None  # it competes in
        self.era = 0  # of the contest that it left last

    @property
    def over(self) -> int:
        """What it holds above its assured slots and does not wait for."""
        over = self.held - self.waits - self.assured
        return over if over > 0 else 0

    def pass_time(self, mono: float) -> None:
        """Charge what it has held up to now; called before `held`, `assured` or `weight` change."""
        running = self.held - self.waits
        if running:
            passed = (mono - self.at) / SLOT
            self.slot_seconds += running * passed
            if running > self.assured:
                self.used += (running - self.assured) * passed
        self.at = mono

    def hold(self, units: int, mono: float) -> None:
        """Hold so many units more from now on, or fewer; who holds more has had its turn."""
        running = self.held - self.waits
        over = running - self.assured
        if mono != self.at:  # as `pass_time`, which would be another call for each begin and end
            if running:
                passed = (mono - self.at) / SLOT
                self.slot_seconds += running * passed
                if over > 0:
                    self.used += over * passed
            self.at = mono
        if self.loan and units > 0:
            self.used += self.loan
            self.loan = 0.0
        self.held += units
        contest = self.contest
        if contest is not None:
            if over < 0:  # some of it is its own by right
                units, over = max(units + over, 0), 0
            contest.hold(units if units > -over else -over, mono)

    def end(self, units: int, seconds: float, mono: float) -> None:
        """Hold less: something of it ended, after so many seconds."""
        self.hold(-units, mono)
        longest = self.longest * FADING
        self.longest = longest if longest > seconds else seconds

    def wait(self, units: int, seconds: float, mono: float) -> None:
        """So many units of what it holds wait for their slots; below 0: no more, for *seconds* already."""
        self.pass_time(mono)
        before, contest = self.over, self.contest
        self.waits = max(self.waits + units, 0)  # an account made since then knows of none
        over = self.over
        if contest is not None:
            contest.hold(over - before, mono)
        if seconds:
            self.slot_seconds -= units / SLOT * seconds
            more = (over - before) / SLOT * seconds
            self.used += more
            if contest is not None:
                contest.charge(more)

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
        contest, loan = self.contest, self.loan
        if contest is not None:
            contest.leave(self, mono)  # which takes the loan back
        change = weight / self.weight
        self.used, self.loan = (self.used - loan) * change, loan * change
        self.weight = weight
        if contest is not None:
            contest.enter(self, mono)

    def used_until(self, mono: float) -> float:
        """Return S as it will be then, if nothing changes."""
        over = self.held - self.waits - self.assured
        return self.used + over * ((mono - self.at) / SLOT) if over > 0 else self.used

    def level(self, mono: float) -> float:
        """Return what it has had, by its weight, with what it has borrowed."""
        return (self.used_until(mono) + self.loan) / self.weight

    def slot_seconds_until(self, mono: float) -> float:
        """Return the slot-seconds it has held in all."""
        return self.slot_seconds + (self.held - self.waits) / SLOT * max(mono - self.at, 0.0)

    def standing(self, mono: float, ahead: float) -> float:
        """Return (S + h·e) / weight; it never falls while nothing else changes. *ahead* is h, in seconds."""
        over = self.held - self.assured
        if over <= 0:
            return self.used / self.weight
        if self.waits:
            return (self.used_until(mono) + over / SLOT * ahead) / self.weight
        return (self.used + over / SLOT * (mono - self.at + ahead)) / self.weight
