"""Who of a queue's members is next for one kind of worker.

Only members below which something can begin on such a worker now stand here; they are put in and taken out
by the events that make it so, and a choice never walks over the others. Those that are owed slots come
first, by the least part of their assured they hold; then the excess: highest priority, then least standing;
ties go to the one served longest ago.

A standing grows while its member holds slots, so one noted earlier is a lower bound: the top of the heap is
looked at again before it is believed. With one member there is nothing to compare and nothing is noted.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

from fairway.core.member import Member

#: (what decides, from left to right; then the member's version when this was noted, and the member)
Owed = tuple[float, int, int, int, Member]
Excess = tuple[int, float, int, int, int, Member]


class Ring:
    """The members of one queue that can begin something on one kind of worker."""

    __slots__ = ("_excess", "_owed", "members", "owing")

    def __init__(self) -> None:
        self.members: dict[Member, bool] = {}  # → whether it is owed slots
        self.owing = 0  # how many of them are
        self._owed: list[Owed] = []
        self._excess: list[Excess] = []

    def put(self, member: Member, owed: bool, mono: float, ahead: float) -> None:
        """Take a member in, or note its new standing."""
        members = self.members
        before = members.get(member)
        members[member] = owed
        if len(members) > 1:
            if before is None and len(members) == 2:
                for first, its_owed in members.items():
                    if first is not member:
                        self._note(first, its_owed, mono, ahead)
            self._note(member, owed, mono, ahead)
        self.owing += owed - bool(before)

    def drop(self, member: Member) -> None:
        """Take a member out, if it is in."""
        if self.members.pop(member, False):
            self.owing -= 1
        if not self.members:
            self._owed.clear()
            self._excess.clear()

    def best(self, mono: float, ahead: float) -> Member | None:
        """Name the next member, or None if nothing can begin."""
        members = self.members
        if len(members) <= 1:
            return next(iter(members), None)
        if self.owing:
            owed = self._owed
            while True:
                *_, version, member = owed[0]
                if version == member.version and members.get(member):
                    return member
                heappop(owed)
        found = self._first(mono, ahead)
        assert found is not None, "members of the excess, and none of them noted"
        return found

    def first(self, priority: int, mono: float, ahead: float) -> Member | None:
        """Return the next member of the excess, if it is of this priority."""
        members = self.members
        if len(members) == self.owing:
            return None
        member = self._first(mono, ahead) if len(members) > 1 else next(iter(members))
        # In the middle of a change the notes of those that change may all be void.
        return member if member is not None and member.priority == priority else None

    def _first(self, mono: float, ahead: float) -> Member | None:
        """Return the first of the excess that is noted; there must be two members."""
        excess, members = self._excess, self.members
        while excess:
            rank, noted, served, order, version, member = excess[0]
            if version != member.version or members.get(member) is not False:
                heappop(excess)
                continue
            standing = member.standing(mono, ahead)
            if standing <= noted:
                return member
            heapreplace(excess, (rank, standing, served, order, version, member))
        return None

    def note_anew(self, member: Member, mono: float, ahead: float) -> None:
        """Note where a member stands, if it is in: what was noted before its version rose is void."""
        owed = self.members.get(member)
        if owed is not None and len(self.members) > 1:
            self._note(member, owed, mono, ahead)

    def _note(self, member: Member, owed: bool, mono: float, ahead: float) -> None:
        if owed:
            heappush(self._owed, (_part(member), member.served, member.order, member.version, member))
        else:
            note = (
                -member.priority,
                member.standing(mono, ahead),
                member.served,
                member.order,
                member.version,
                member,
            )
            heappush(self._excess, note)
        if len(self._owed) + len(self._excess) > 4 * len(self.members) + 64:
            self._tidy()

    def _tidy(self) -> None:
        """Drop notes that are void, and those that say the same."""
        members = self.members
        self._owed = list({one[-1]: one for one in self._owed if _holds(one, members, True)}.values())
        self._excess = list({one[-1]: one for one in self._excess if _holds(one, members, False)}.values())
        heapify(self._owed)
        heapify(self._excess)


def _part(member: Member) -> float:
    """Return the part of its assured slots that a member holds."""
    return member.held / member.assured if member.assured else float("inf")


def _holds(note: Owed | Excess, members: dict[Member, bool], owed: bool) -> bool:
    version, member = note[-2], note[-1]
    assert isinstance(member, Member)
    return version == member.version and members.get(member) is owed
