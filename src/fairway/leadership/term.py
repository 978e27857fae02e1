"""Terms, pure: when a candidate may stand, and how long a leader may trust itself.

A lease in a database is judged by two clocks that never meet. The candidate watches the beat: if it has not
changed for the TTL *on the candidate's own monotonic clock*, the leader is silent and the term may be raised
by compare-and-set. The leader trusts itself for less than the TTL, counted from when it *sent* its last
successful renewal: a slow answer must not lengthen its reign. Trust only decides what a leader says; what it
writes is fenced by the term in every transaction, so two leaders can never both commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairway.store import Leadership


@dataclass(slots=True)
class Watch:
    """A candidate's view of the leader's beat."""

    ttl: float
    _seen: tuple[int, int, str] | None = None
    _since: float = 0.0

    def may_stand(self, leadership: Leadership | None, mono: float) -> bool:
        """Say whether the seat is free: never taken, given up, or silent for a whole TTL."""
        if leadership is None or leadership.holder == "":
            return True
        seen = (leadership.term, leadership.beat, leadership.holder)
        if seen != self._seen:
            self._seen, self._since = seen, mono
        return mono - self._since >= self.ttl


@dataclass(slots=True)
class Reign:
    """A leader's own view of its term."""

    term: int
    holder: str
    ttl: float
    margin: float
    trusted_until: float

    def renewed(self, sent: float) -> None:
        """A renewal that was sent at *sent* succeeded."""
        self.trusted_until = max(self.trusted_until, sent + self.ttl - self.margin)

    def trusts_itself(self, mono: float) -> bool:
        """Say whether nobody else can lead yet."""
        return mono < self.trusted_until


def begin_reign(leadership: Leadership, sent: float, ttl: float) -> Reign:
    """Start to reign after an election whose request was sent at *sent*."""
    margin = ttl / 5
    return Reign(leadership.term, leadership.holder, ttl, margin, sent + ttl - margin)
