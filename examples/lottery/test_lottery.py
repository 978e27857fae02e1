"""The lottery keeps to the contract, and priority is luck."""

from __future__ import annotations

from fairway_lottery import Lottery

from fairway.core.model import Arrival, QueueSettings, Shape
from fairway.testing.disciplines import DisciplineSuite, serve


class TestLottery(DisciplineSuite):
    make = Lottery


def test_who_has_more_tickets_comes_earlier_on_average() -> None:
    lottery = Lottery(QueueSettings())
    for number in range(400):
        lottery.put(Arrival(number, "q", None, 5 if number % 2 else 0, Shape("cpu"), number))
    served = serve(lottery)
    lucky = sum(served.index(job) for job in served if job % 2) / 200
    others = sum(served.index(job) for job in served if not job % 2) / 200
    assert lucky < others - 50
