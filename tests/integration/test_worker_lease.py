"""A worker's own view of its lease: counted from what it sent and knows was heard, and from nothing later."""

from __future__ import annotations

import pytest

from fairway.worker.lease import Lease

LEASE, MARGIN = 30.0, 2.0
ONE, OTHER = (1, 1), (2, 1)


class Clock:
    """A clock that the test turns."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    """A lease whose hello was sent at 1000 and heard a second later."""
    lease = Lease(clock)
    lease.start_again()
    clock.now += 1.0
    lease.last(LEASE, usual=10.0)
    lease.hello_heard()
    return lease


async def test_it_counts_from_when_the_hello_was_sent(lease: Lease, clock: Clock) -> None:
    assert lease.claim(ONE)
    clock.now = 1000.0 + LEASE - MARGIN - 0.1
    assert lease.take_overdue() == []
    clock.now += 0.2
    assert lease.take_overdue() == [ONE]
    assert lease.take_overdue() == [] and not lease.claim(OTHER)


async def test_a_beat_counts_from_when_it_was_sent_and_once_it_was_heard(lease: Lease, clock: Clock) -> None:
    lease.claim(ONE)
    clock.now = 1010.0
    number = lease.next_number()
    clock.now = 1015.0
    assert lease.until == 1028.0
    lease.heard(number)
    assert lease.until == 1038.0


async def test_a_beat_that_did_not_name_an_attempt_does_not_prolong_it(lease: Lease, clock: Clock) -> None:
    lease.claim(ONE)
    clock.now = 1010.0
    number = lease.next_number()
    lease.claim(OTHER)
    lease.heard(number)
    assert lease.until == 1028.0  # of the other, which stands for all
    lease.heard(lease.next_number())
    assert lease.until == 1038.0


async def test_an_answer_on_an_older_connection_is_none(lease: Lease, clock: Clock) -> None:
    clock.now = 1010.0
    number = lease.next_number()
    lease.start_again()
    lease.heard(number)
    assert lease.until == 1028.0


async def test_an_answer_that_comes_late_does_not_shorten_it(lease: Lease, clock: Clock) -> None:
    numbers = []
    for clock.now in (1010.0, 1012.0):
        numbers.append(lease.next_number())
    for number in reversed(numbers):
        lease.heard(number)
    assert lease.until == 1040.0


async def test_what_has_ended_is_not_overdue(lease: Lease, clock: Clock) -> None:
    lease.claim(ONE)
    lease.claim(OTHER)
    lease.release(ONE)
    clock.now = 2000.0
    assert lease.take_overdue() == [OTHER]


async def test_beats_that_nobody_answers_are_forgotten(lease: Lease, clock: Clock) -> None:
    for _ in range(1000):
        clock.now += 1.0
        lease.next_number()
    assert len(lease._sent) <= LEASE + 1
