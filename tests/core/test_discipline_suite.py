"""Fairway's own disciplines pass the suite that others use for theirs."""

from __future__ import annotations

from fairway.core.disciplines.fifo import Fifo
from fairway.core.disciplines.priority import Priority
from fairway.core.disciplines.sfq import Sfq
from fairway.core.model import QueueSettings
from fairway.testing.disciplines import DisciplineSuite


class TestPriority(DisciplineSuite):
    make = Priority


class TestFifo(DisciplineSuite):
    make = Fifo


class TestSfq(DisciplineSuite):
    make = Sfq


class TestSfqBySeconds(DisciplineSuite):
    make = Sfq
    settings = QueueSettings(charge="seconds")


class TestSfqHashed(DisciplineSuite):
    make = Sfq
    settings = QueueSettings(divisor=2)
