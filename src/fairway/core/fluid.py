"""Work as water: when a queue has been given so much, if slots flow to the queues as the tree shares them.

Every queue with jobs of its own is a stream in which so many slot-seconds wait. Slots go from the root down,
by assured, priority and weight; when a backlog has run dry the others share its slots, and so on. Jobs are
not told apart, luck plays no part and nobody comes: it is the middle of what may happen, and says nothing of
how far off it may be. (With the work that comes in added to the streams it was further off: a rush was taken
to last for ever.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from fairway.core.look import MemberLook
from fairway.core.model import SLOT
from fairway.core.queue import Queue

NOTHING = 1e-9  # of a slot-second


@dataclass(slots=True)
class Stream:
    """The waiting work of one queue's own jobs. `way` leads from a child of the root down to its line."""

    way: Sequence[MemberLook]
    work: float  # slot-seconds that wait
    rate: float = 0.0  # slots it is given


def seconds_until_served(rivals: Sequence[Stream], own: Stream, slots: float) -> float:
    """Return when the work of *own* is done; infinite if that never comes."""
    passed = 0.0
    streams = [own, *rivals]
    while own.work > NOTHING:
        _share(streams, 0, slots)
        flowing = [one for one in streams if one.rate > NOTHING]
        if not flowing:
            return inf
        dry = min(one.work / one.rate for one in flowing)
        passed += dry
        for one in flowing:
            one.work -= one.rate * dry
        streams = [one for one in streams if one.work > NOTHING]
    return passed


def _share(streams: Iterable[Stream], depth: int, slots: float) -> None:
    """Give slots to streams that are below the same queue, child by child."""
    below: dict[MemberLook, list[Stream]] = {}
    for stream in streams:
        below.setdefault(stream.way[depth], []).append(stream)
    for member, given in _pour({member: _wants(member) for member in below}, slots).items():
        group = below[member]
        if depth + 1 == len(group[0].way):
            group[0].rate = given
        else:
            _share(group, depth + 1, given)


def _wants(member: MemberLook) -> float:
    limit = member.settings.limit if isinstance(member, Queue) else None
    return inf if limit is None else limit


def _pour(wants: dict[MemberLook, float], slots: float) -> dict[MemberLook, float]:
    """Give each what it is assured, then the rest by priority and weight, and none more than it wants."""
    given = {member: min(wanted, member.assured / SLOT) for member, wanted in wants.items()}
    left = slots - sum(given.values())
    if left < 0.0:
        return {member: part * slots / (slots - left) for member, part in given.items()}
    for priority in sorted({member.priority for member in wants}, reverse=True):
        thirsty = {one for one in wants if one.priority == priority and wants[one] > given[one]}
        while thirsty and left > NOTHING:
            part = left / sum(member.weight for member in thirsty)
            sated = {one for one in thirsty if wants[one] - given[one] <= part * one.weight}
            for member in sated or thirsty:
                more = min(wants[member] - given[member], part * member.weight)
                given[member] += more
                left -= more
            thirsty = thirsty - sated if sated else set()
    return given
