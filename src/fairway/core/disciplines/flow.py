"""What takes a turn in a fair queue: one flow, or the flows that were hashed together."""

from __future__ import annotations

from fairway.core.account import Account
from fairway.core.disciplines.fronts import Fits
from fairway.core.disciplines.rack import FEW, Hears, Key, Rack
from fairway.core.model import Arrival


class FlowAccount(Account):
    """What a flow holds and has had, and how many jobs that were; it stays when the flow has none waiting."""

    __slots__ = ("begun",)

    def __init__(self, weight: float, mono: float) -> None:
        super().__init__()
        self.weight, self.at = weight, mono
        self.begun = 0

    def mean_seconds(self) -> float | None:
        """Return the slot-seconds that one of its jobs has had on average, if that is known."""
        return self.slot_seconds / self.begun if self.begun and self.slot_seconds else None


class Flow(Rack):
    """Jobs that share one turn, higher priority first, then by place. Owned by one discipline."""

    __slots__ = ("account", "armed", "credit", "is_in", "number", "served", "turn", "weight")

    def __init__(self, number: int, weight: float, hears: Hears, account: FlowAccount) -> None:
        super().__init__(True, hears)
        self.number = number  # in the order in which they came
        self.weight = weight
        self.is_in = False  # the ring: something of it is due
        self.armed: int | None = None  # when it is to be looked at because something becomes due
        self.turn = 0  # its place in the ring
        self.credit = 0.0  # what it may still begin in this turn
        self.account = account  # of slot-seconds, where those count
        self.served = 0

    def is_still_due(self, now: int) -> bool:
        """Whether all is as before after jobs were taken: this is the only line, and its next job is due."""
        if len(self.lines) != 1 or len(self.ready) != 1:
            return False
        [line] = self.lines.values()
        return line.first_place() <= now

    def count_due(self, now: int, fits: Fits | None) -> int:
        """Count the due jobs of the shapes that fit; where there are many kinds, all that wait."""
        if len(self.lines) > FEW:
            return self.count
        fitting = (line for key, line in self.lines.items() if fits is None or fits(key.shape))
        return sum(line.count_until(now) for line in fitting)


def key_of(arrival: Arrival) -> Key:
    """Return the line a job belongs to."""
    return Key(arrival.shape, arrival.priority, arrival.flow)


def arrival_of(key: Key, place: int, job: int, tag: int) -> Arrival:
    """Return a job of a line as it came."""
    return Arrival(job, "", key.flow, key.priority, key.shape, place)
