"""Advice: the numbers, forecasts, positions and explanations of a leader. It may fail, and nothing else does.

Only what decides or records may end a leader. What tells people something may not: a forecast that divided
by zero once ended one leader after the other, since the client sent its submit again. So the deciding code
reaches the book of numbers and the forecasts through the verbs here and in no other way. An exception in
them goes no further: it is counted by part and noted with its place (`mishaps.py`), which the engine logs and
`fairway doctor` and `/metrics` tell. Numbers are then short of one record; a forecast learns nothing from it.

Not advice, although it is learnt: estimates. They decide which jobs share a slot.
Each verb is called once for a record, which names many jobs; a `try` that holds costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from fairway.core.eta import Forecasts
from fairway.core.mishaps import Mishaps, Part
from fairway.core.model import SLOT, Arrival, Moment
from fairway.core.numbers import NumberBook
from fairway.core.queue import Queue

if TYPE_CHECKING:
    from fairway.core.world import Live, World

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


class Advice:
    """What a leader knows for people's sake. Owned by the world; touched only from the engine's task."""

    def __init__(self) -> None:
        self.numbers = NumberBook()
        self.forecasts = Forecasts()
        self.mishaps = Mishaps()

    # --- heard from what decides ---------------------------------------------------------------------
    def arrived(self, queue: Queue, count: int, mono: float) -> None:
        """Jobs came to wait."""
        try:
            self.numbers.arrived(queue, count, mono)
        except Exception as error:
            self.mishaps.note(Part.NUMBERS, error)

    def flow_arrived(self, queue: Queue, flow: str | None, count: int) -> None:
        """Jobs of one flow came to wait; called after `arrived`, where flows take turns."""
        try:
            self.numbers.flow_arrived(queue, flow, count)
        except Exception as error:
            self.mishaps.note(Part.NUMBERS, error)

    def sample(self, world: World, arrivals: Sequence[Arrival], now: Moment) -> None:
        """Note, now and then, what would be said of one of these jobs that have just come to wait."""
        try:
            self.forecasts.sample(world, arrivals, now)
        except Exception as error:
            self.mishaps.note(Part.FORECAST, error)

    def began(
        self,
        queue: Queue,
        jobs: Sequence[int],
        places: Sequence[int],
        flow: str | None,
        flows: Sequence[str | None] | None,
        now: Moment,
    ) -> None:
        """Jobs of one queue begin together, of one *flow*, or each of its own of *flows*."""
        try:
            wait = (now.wall - places[len(places) // 2]) / 1e6
            self.numbers.began(queue, len(jobs), wait, now.mono)
            if queue.has_flows:
                for its_flow, count in (Counter(flows) if flows is not None else {flow: len(jobs)}).items():
                    self.numbers.flow_began(queue, its_flow, count, wait)
        except Exception as error:
            self.mishaps.note(Part.NUMBERS, error)
        try:
            self.forecasts.began(jobs, now.mono)
        except Exception as error:
            self.mishaps.note(Part.FORECAST, error)

    def ended(self, ended: Sequence[Live], seconds: float, size: int, mono: float, failed: bool) -> None:
        """Attempts of one queue began and ended together, ran for *seconds* and held *size* in all."""
        try:
            queue, each = ended[0].queue, (mono - ended[0].begun_at) / SLOT
            self.numbers.ended(queue, len(ended), seconds, size * each, failed, mono)
            if queue.has_flows:
                for flow, (count, part) in _by_flow(ended, size).items():
                    ran = seconds * count / len(ended)
                    self.numbers.flow_ended(queue, flow, count, ran, part * each, failed)
        except Exception as error:
            self.mishaps.note(Part.NUMBERS, error)

    def forget_job(self, job: int) -> None:
        """A job will not begin, or not as it was when something was said of it."""
        try:
            self.forecasts.forget(job)
        except Exception as error:
            self.mishaps.note(Part.FORECAST, error)

    def forget_branch(self, top: Queue) -> None:
        """A queue was stopped by hand: how long its jobs wait now says nothing of others."""
        try:
            self.forecasts.forget_branch(top)
        except Exception as error:
            self.mishaps.note(Part.FORECAST, error)

    def forget_queue(self, queue: Queue) -> None:
        """A queue is gone."""
        try:
            self.numbers.forget(queue)
        except Exception as error:
            self.mishaps.note(Part.NUMBERS, error)

    # --- asked by people -----------------------------------------------------------------------------
    def ask(self, part: Part, otherwise: U, say: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | U:
        """Return what *say* has to say, or *otherwise* if it fails. It must not be lazy: no generator."""
        try:
            return say(*args, **kwargs)
        except Exception as error:
            self.mishaps.note(part, error)
            return otherwise


def _by_flow(ended: Sequence[Live], size: int) -> dict[str | None, tuple[int, int]]:
    """Return of each flow how many of these attempts are its own, and what of their *size*."""
    counts, unit = Counter([live.flow for live in ended]), ended[-1].size
    if len(counts) == 1:
        return {ended[0].flow: (len(ended), size)}
    sizes = {flow: count * unit for flow, count in counts.items()}
    for live in ended:
        if live.size != unit:  # what a bundle leaves of its slot is held by its first job
            sizes[live.flow] += live.size - unit
    return {flow: (count, sizes[flow]) for flow, count in counts.items()}
