"""A contest: the members of one priority, or the flows, that want more of the same slots than they have.

Its *level* is what they have had on average: their S together by their weights together, as of now. It is
the virtual time of fair queueing, and advances only by what is held by those who compete. From it follow

- **No credit for what was not wanted.** Who joins has its own S, but no less than the level.
- **No debt for what nobody else wanted.** While nobody competes, what is held is free: when a contest starts,
  whatever was had before is forgotten, and counts from then on only.
- **Nobody pays for long.** When it joins, and whenever something of it ends, an account is no further before
  what the others have had on average, or before the one that is next, than one turn (of *h* seconds, or of
  its own longest attempt lately). Jobs are not interrupted, so a tenant may hold far more than its share for
  hours; to take all of that back would lock it out until all the others have had as much.
- **Waiting for rare workers is no claim on others.** Who comes to want other workers, too, is no further
  behind than the one that is next on those.
- **A newcomer is next.** See `Account.loan`.

Nothing here is a clock that has to tick: sums are kept by what changes, so all of it is O(1).
"""

from __future__ import annotations

from fairway.core.account import Account
from fairway.core.model import SLOT

#: How many turns one may be before the others: what is more is forgotten.
MOST_BEFORE = 1.0


class Contest:
    """Those that compete now, in sums. Owned by a queue or a discipline."""

    __slots__ = ("_at", "_era", "_level", "_rate", "_since", "_start", "_total", "_weight", "count")

    def __init__(self) -> None:
        self.count = 0  # how many compete
        self._weight = 0.0  # of all
        self._total = 0.0  # S of all, until `_at`, with what they have borrowed
        self._rate = 0  # units of slots that they hold above their assured ones
        self._at = 0.0
        self._era = 0  # rises when somebody competes after nobody did
        self._since = 0.0  # when somebody began to compete after nobody did
        self._start = 0.0  # and the level then
        self._level = 0.0  # when somebody competed last

    def level(self, mono: float) -> float:
        """Return what those that compete have had on average, by weight; where they stood, if nobody does."""
        if not self.count:
            return self._level
        return (self._total + self._rate * ((mono - self._at) / SLOT)) / self._weight

    def join(self, account: Account, mono: float, ahead: float, first: Account | None) -> None:
        """Let one compete. *first* is the one that is next of those that want the same workers, if known."""
        account.pass_time(mono)
        level, weight = self.level(mono), account.weight
        own = account.used / weight
        if not self.count:
            level = max(own, level)
            self._era, self._since, self._start = self._era + 1, mono, level
            account.used = level * weight
        else:
            if account.era != self._era:  # what it has held since then counts, as far as it still holds it
                own = min(own, self._start + account.over * ((mono - self._since) / SLOT) / weight)
            if first is not None:  # what waits for other workers in vain draws the level down
                level = max(level, first.level(mono))
            account.used = max(own, level) * weight
            if first is not None and own <= level and not account.over:
                account.loan = max(account.used - first.standing(mono, ahead) * weight, 0.0)
                account.used -= account.loan
        self.enter(account, mono)
        if self.is_off(account, mono, ahead):
            self.bound(account, mono, ahead, first)

    def enter(self, account: Account, mono: float) -> None:
        """Count one in as it stands."""
        self._pass_time(mono)
        account.contest = self
        self.count += 1
        self._weight += account.weight
        self._total += account.used + account.loan
        self._rate += account.over

    def leave(self, account: Account, mono: float) -> None:
        """Let one compete no more; what it had borrowed and not used is paid back."""
        account.pass_time(mono)
        self._pass_time(mono)
        self._level = self.level(mono)
        account.used += account.loan
        account.loan = 0.0
        account.contest, account.era = None, self._era
        self.count -= 1
        if self.count:
            self._weight -= account.weight
            self._total -= account.used
            self._rate -= account.over
        else:  # what rounding has left is gone, too
            self._weight = self._total = 0.0
            self._rate = 0

    def hold(self, units: int, mono: float) -> None:
        """One of them holds so many units more of its excess, or fewer."""
        rate = self._rate
        if mono != self._at:
            if rate:
                self._total += rate * ((mono - self._at) / SLOT)
            self._at = mono
        self._rate = rate + units

    def charge(self, slot_seconds: float) -> None:
        """One of them has had so much more than was known."""
        self._total += slot_seconds

    def is_off(self, account: Account, mono: float, ahead: float) -> bool:
        """Say whether one is further before the others than it may be; time has passed for it."""
        if self.count == 1 or account.loan:
            return False
        most = MOST_BEFORE * (ahead if ahead > account.longest else account.longest)
        return account.used - self._beside(account, mono) * account.weight > most

    def bound(self, account: Account, mono: float, ahead: float, first: Account | None) -> None:
        """Let one that is off owe the others no more than it may.

        Those that wait in vain for other workers do not count: it owes nothing less because of them.
        """
        level, used = self._beside(account, mono), account.used
        if first is not None:
            level = max(level, first.level(mono))
        account.used = min(used, level * account.weight + MOST_BEFORE * max(ahead, account.longest))
        self._total += account.used - used

    def lift(self, account: Account, mono: float, first: Account) -> None:
        """One wants other workers, too: it is no further behind than the one that is next there.

        Among those that want the same workers nobody falls behind: who is last is next.
        """
        account.pass_time(mono)
        more = (first.level(mono) - account.level(mono)) * account.weight
        if more > 0.0:
            account.used += more
            self._total += more

    def forgive(self, account: Account, slot_seconds: float, mono: float) -> None:
        """Slots were held in vain: one does not pay for it, nor is it paid for what others had meanwhile."""
        account.pass_time(mono)
        self._pass_time(mono)
        used, least = account.used, self.level(mono)
        if account.contest is self:
            least = self._beside(account, mono) if self.count > 1 else 0.0
        account.used = max(used - slot_seconds, min(used, least * account.weight))
        if account.contest is self:
            self._total += account.used - used

    def _beside(self, account: Account, mono: float) -> float:
        """Return what the others have had on average; there must be some. Time has passed for this one."""
        total = self._total + self._rate * ((mono - self._at) / SLOT) - account.used - account.loan
        return total / (self._weight - account.weight)

    def _pass_time(self, mono: float) -> None:
        self.hold(0, mono)
