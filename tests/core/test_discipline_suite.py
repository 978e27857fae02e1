"""Fairway's own disciplines pass the suite that others use for theirs."""

from __future__ import annotations

import random
from collections.abc import Iterator

from fairway.core.discipline import Discipline
from fairway.core.disciplines.deadline import Deadline
from fairway.core.disciplines.fifo import Fifo
from fairway.core.disciplines.priority import Priority
from fairway.core.disciplines.sfq import Sfq
from fairway.core.model import Arrival, Extras, QueueSettings
from fairway.testing.disciplines import DisciplineSuite


class TestPriority(DisciplineSuite):
    make = Priority


class TestFifo(DisciplineSuite):
    make = Fifo


class TestDeadline(DisciplineSuite):
    make = Deadline


class TestDeadlineOfSomeJobs(DisciplineSuite):
    make = Deadline

    def _drawn(self) -> Iterator[tuple[Discipline, dict[int, Arrival], random.Random]]:
        """Give most of the jobs a deadline, some of them the same one."""
        for discipline, jobs, dice in super()._drawn():
            for number, job in jobs.items():
                if dice.random() < 0.7:
                    assert discipline.remove(job)
                    jobs[number] = job._replace(extras=Extras(deadline=5_000 + dice.randint(0, 10)))
                    discipline.put(jobs[number])
            yield discipline, jobs, dice


class TestSfq(DisciplineSuite):
    make = Sfq


class TestSfqBySeconds(DisciplineSuite):
    make = Sfq
    settings = QueueSettings(charge="seconds")


class TestSfqHashed(DisciplineSuite):
    make = Sfq
    settings = QueueSettings(divisor=2)
