"""Slot-seconds as the core counts them beside those of the rows: they differ by the same at all times.

A queue that was dropped and comes back counts from nothing, and a leader does not count what was before it.
So not the counts are compared, but what is added to them from one commit to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .holdings import Holdings, Key

if TYPE_CHECKING:
    from fairway.core.queue import Queue

    from .engine import Leader
    from .witness import Witness

NOTHING = 0.001
#: How attempts end of which some are counted as runs and some are not.
DOUBTFUL = (None, "stopped", "handed_back")


@dataclass
class Difference:
    """By how much the rows have more than the core has counted for a queue."""

    queue: Queue
    held: float  # by all attempts in its branch
    ended: float | None  # by its own that are over, for the numbers that people see


class SlotSeconds:
    """What was last found. Owned by the witness."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._found: dict[str, Difference] = {}

    def forget(self) -> None:
        """Start anew: something was counted for another queue."""
        self._found.clear()

    def ended(self, keys: Iterable[Key]) -> None:
        """Attempts have ended; where it is not known whether they are counted, nothing is compared."""
        for key in keys:
            found = self._found.get(self._witness.rows[key[0]].queue)
            if found is not None and self._witness.verdicts.get(key) in DOUBTFUL:
                found.ended = None

    def compare(self, leader: Leader, holdings: Holdings) -> None:
        """Hold what the core has counted so far against the rows."""
        mono, queues = self._witness.world.mono, leader.core.world.tree.queues
        if self._found.keys() - queues.keys():
            self.forget()  # what was counted for a queue that is gone is its parent's now
        for path, queue in queues.items():
            numbers, since = leader.core.world.numbers.find(queue), mono - holdings.at
            held = holdings.had[path] + holdings.held.get(path, 0) * since - queue.slot_seconds_until(mono)
            ended = holdings.ended[path] - (numbers.slot_seconds if numbers is not None else 0.0)
            before = self._found.get(path)
            if path and before is not None and before.queue is queue:
                self._require(path, "hold", before.held, held)
                self._require(path, "have had", ended if before.ended is None else before.ended, ended)
            self._found[path] = Difference(queue, held, ended)

    def _require(self, path: str, what: str, before: float, after: float) -> None:
        text = f"the core counts {before - after:.3f} slot-seconds more than the attempts of '{path}' {what}"
        self._witness.require(abs(after - before) < NOTHING, "slot-seconds", text)
