"""When will it start: the leader keeps score of what it said, and its bounds hold."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from math import pi, sin
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core.eta import ENOUGH, LATEST, MARGIN, Eta, eta, expect
from tests.drawing import drawn

from .stage import COMMAND, Stage

WEIGHTS = {"acme/mail": 1.0, "acme/reports": 2.0, "beta": 4.0}


class Shop:
    """A stage on which jobs take their time, and the load rises and falls."""

    def __init__(self, seed: int, slots: int = 4) -> None:
        self.stage, self.luck = Stage(), Random(seed)
        self.stage.join("w", slots)
        self.said: dict[int, Eta | None] = {}
        self.started: dict[int, int] = {}
        self._ends: list[tuple[int, int]] = []
        self._last = 0

    def arrivals(self, jobs: int) -> Iterator[tuple[int, str]]:
        """Yield when which queue gets a job: from half to nearly twice of what four slots can do."""
        at = 0.0
        for _ in range(jobs):
            load = 1.05 + 0.75 * sin(2 * pi * at / 900)
            at += self.luck.expovariate(load * 2.0)
            yield int(at * 1e6), self.luck.choice(list(WEIGHTS))

    def run(self, jobs: int) -> None:
        """Let jobs come, and work until all have begun."""
        for at, queue in self.arrivals(jobs):
            self._work(until=at)
            self._come(at, queue)
        self._work(until=10**15)

    def _come(self, at: int, queue: str) -> None:
        self.stage.micros = max(at, self.stage.micros)
        self._last += 1
        self.stage.submit(self._last, queue=queue)
        world, now = self.stage.core.world, self.stage.now
        self.said[self._last] = eta(world, self.stage.arrivals[self._last], now)
        self._begin()

    def _work(self, until: int) -> None:
        while self._ends and self._ends[0][0] <= until:
            self.stage.micros, job = heappop(self._ends)
            began = self.started[job]
            self.stage.beat("w", *self.stage.live)
            self.stage.finish(job, seconds=(self.stage.now.wall - began) / 1e6)
            self._begin()

    def _begin(self) -> None:
        for job in self.stage.begun():
            self.started[job] = self.stage.now.wall
            takes = self.luck.lognormvariate(0.4, 0.7)  # 1.9 s on average
            heappush(self._ends, (self.stage.micros + int(takes * 1e6), job))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nine_tenths_of_the_jobs_start_within_the_bounds(seed: int) -> None:
    shop = Shop(seed)
    for path, weight in WEIGHTS.items():
        shop.stage.set(path, weight=weight)
    shop.run(2000)
    assert len(shop.started) == 2000
    told = {job: said for job, said in shop.said.items() if said is not None}
    assert len(told) > 1900
    within = [said.p90[0] <= shop.started[job] <= said.p90[1] for job, said in told.items()]
    halves = [said.p50[0] <= shop.started[job] <= said.p50[1] for job, said in told.items()]
    assert sum(within) / len(within) >= 0.85
    assert 0.35 <= sum(halves) / len(halves) <= 0.7


def taught(slots: int = 2, samples: int = ENOUGH) -> Stage:
    """A stage on which jobs of one second took turns, and so many were seen to wait for half of one."""
    stage = Stage()
    stage.join("w", slots)
    numbers = count(1)
    running = [next(numbers) for _ in range(slots)]
    stage.submit(*running)
    stage.step()
    for left in reversed(range(samples + 2)):  # nothing is expected of those that wait behind the first
        stage.step(0.5)
        waiting = [next(numbers) for _ in range(slots)] if left else []
        stage.submit(*waiting)
        stage.step(0.5)
        stage.finish(*running)
        stage.beat("w", *stage.live)
        stage.step()
        running = waiting
    return stage


def busy(stage: Stage, *jobs: int) -> Stage:
    """Take the slots, and let these jobs wait behind."""
    stage.submit(*range(1000, 1000 + stage.workers["w"].spec.slots))
    stage.step()
    stage.submit(*jobs)
    return stage


def told(stage: Stage, job: int) -> Eta | None:
    return eta(stage.core.world, stage.arrivals[job], stage.now)


def test_nothing_is_said_before_there_is_enough_to_go_by() -> None:
    assert told(busy(taught(samples=ENOUGH - 1), 150), 150) is None
    assert told(busy(taught(samples=ENOUGH), 150), 150) is not None


def test_a_job_waits_for_the_work_ahead_by_the_slots_of_its_queue() -> None:
    stage = busy(taught(slots=2), 150, 151, 152, 153)
    for job, seconds in ((150, 0.5), (151, 1.0), (153, 2.0)):
        found = expect(stage.core.world, stage.arrivals[job], stage.now)
        assert found is not None
        assert found.seconds == pytest.approx(seconds, rel=0.05)


def test_rivals_share_the_slots_as_long_as_they_have_work() -> None:
    stage = busy(taught(slots=2), 150, 151, 152, 153)
    stage.submit(*range(160, 164), queue="rival")
    found = expect(stage.core.world, stage.arrivals[153], stage.now)
    assert found is not None
    assert found.seconds == pytest.approx(4.0, rel=0.05)


def test_a_long_wait_is_told_with_room_for_what_nobody_saw_coming() -> None:
    stage = busy(taught(slots=2), *range(2000, 2400))
    room = {}
    for job in (2000, 2399):
        found, said = expect(stage.core.world, stage.arrivals[job], stage.now), told(stage, job)
        assert found is not None and said is not None
        learnt = stage.core.world.forecasts.bounds(found.seconds, found.grain, stage.now.mono)
        assert learnt is not None
        room[job] = (said.p90[1] - stage.now.wall) / 1e6 / learnt[3]
    assert room[2000] == pytest.approx(1.0, abs=0.02)
    assert 1.3 < room[2399] < 1 + MARGIN


def test_a_job_that_is_not_due_counts_from_its_time() -> None:
    stage = taught()
    stage.submit(150, delay=600)
    said = told(stage, 150)
    assert said is not None
    assert (
        said.starts_at
        == stage.arrivals[150].place
        <= said.p90[0]
        <= said.p50[0]
        <= said.p50[1]
        <= said.p90[1]
    )


def test_a_rate_holds_jobs_back() -> None:
    stage = taught()
    stage.set("q", rate="1/min", burst=1)
    stage.submit(150, 151, 152)
    found = expect(stage.core.world, stage.arrivals[152], stage.now)
    assert found is not None
    assert found.seconds == pytest.approx(120, rel=0.02)
    assert "rate" in found.basis


def test_what_would_start_after_all_time_is_told_to_start_at_its_end() -> None:
    stage = taught()
    stage.set("q", rate="1/365d", burst=1)
    stage.submit(*range(150, 9150))
    said = told(stage, 9149)
    assert said is not None
    assert said.starts_at == said.p90[1] == LATEST


def test_of_a_queue_of_which_nothing_has_ended_it_is_told_by_what_turns_take_on_the_whole() -> None:
    stage = busy(taught())
    stage.submit(*range(500, 520), queue="new")
    said = told(stage, 519)
    assert said is not None
    assert (said.starts_at - stage.now.wall) / 1e6 == pytest.approx(20 * 1.0 / 2, rel=0.5)


def test_a_deep_fair_queue_teaches_too() -> None:
    """Nothing but that queue is there, and never fewer than 1,500 jobs in it."""
    stage = Stage()
    stage.set("q", discipline="sfq")
    stage.join("w", 50)
    numbers = count(1)
    for _ in range(1500):
        stage.submit(job := next(numbers), flow=f"f{job % 300}")
    for _ in range(60):
        stage.micros += 1_000_000
        stage.finish(*stage.live)
        for _ in range(60):
            stage.submit(job := next(numbers), flow=f"f{job % 300}")
        stage.beat("w")
        stage.step()
    said = told(stage, next(numbers) - 1)
    assert said is not None
    waits = (said.starts_at - stage.now.wall) / 1e6
    assert waits == pytest.approx(len(stage.core.world.tree.queues["q"].own) / 50, rel=0.5)


@pytest.mark.parametrize("settings", [{"paused": True}, {"limit": 0}])
def test_a_job_that_cannot_begin_has_no_time(settings: dict[str, bool | int]) -> None:
    stage = busy(taught(), 150)
    assert told(stage, 150) is not None
    stage.set("q", **settings)
    assert told(stage, 150) is None


def test_a_job_that_no_worker_can_run_has_no_time() -> None:
    stage = busy(taught())
    stage.submit(150, shape=COMMAND.__class__("rails"))
    assert told(stage, 150) is None


def test_what_is_awaited_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.core.eta.MOST_PENDING", 3)
    stage = busy(taught())
    for job in range(150, 160):
        stage.submit(job)
        stage.step(0.2)
    pending = stage.core.world.forecasts._pending
    assert len(pending) == 3
    stage.absorb(happened.CancelAsked("ticket", stage.arrivals[150], False))
    assert 150 not in pending


def test_a_queue_that_was_paused_does_not_make_others_pessimistic() -> None:
    stage = taught()
    stage.submit(199, queue="other/below")
    stage.step()
    stage.step(1.0)
    stage.finish(199)
    busy(stage, 150)
    for job in range(200, 225):
        stage.submit(job, queue="other/below")
        stage.step(0.2)
    stage.set("other", paused=True)
    for _ in range(600):
        stage.beat("w", *stage.live)
        stage.step(1.0)
    said = told(stage, 150)
    assert said is not None
    assert said.p90[1] - stage.now.wall < 60_000_000


def test_looking_changes_nothing() -> None:
    stage = busy(taught(), 150, 151)
    assert told(stage, 151) == told(stage, 151)
    stage.finish(1000)
    assert stage.begun() == [150]


# --- the three agree -------------------------------------------------------------------------------------
def check_nested(stage: Stage, job: int) -> bool:
    """What is told of a job, if anything, agrees with itself and with the rate of its queue."""
    world, now, arrival = stage.core.world, stage.now, stage.arrivals[job]
    said = eta(world, arrival, now)
    if said is None:
        return False
    assert said.p90[0] <= said.p50[0] <= said.starts_at <= said.p50[1] <= said.p90[1]
    queue = world.tree.queues["q"]
    soonest = 0.0
    if queue.bucket is not None:
        tokens = queue.ahead_of(arrival, now.wall) + 1 - queue.bucket.level(now.mono)
        soonest = tokens / queue.bucket.rate
    assert said.p90[0] >= max(arrival.place, now.wall + soonest * 1e6 - 1)
    return True


@drawn(60)
@given(
    slots=st.integers(1, 3),
    rate=st.sampled_from([None, "1/min", "1/s", "5/s"]),
    works=st.lists(st.tuples(st.floats(0.05, 3.0), st.floats(0.01, 20.0)), min_size=5, max_size=40),
    delay=st.sampled_from([0.0, 30.0]),
)
def test_bounds_lie_within_each_other_and_no_sooner_than_a_rate_allows(
    slots: int, rate: str | None, works: list[tuple[float, float]], delay: float
) -> None:
    stage, ends = taught(slots), dict[int, float]()
    if rate is not None:
        stage.set("q", rate=rate)
    for job, (gap, takes) in enumerate(works, 5000):
        stage.submit(job)
        assert check_nested(stage, job)
        stage.submit(job + 1000, delay=delay)
        check_nested(stage, job + 1000)
        ends |= dict.fromkeys(stage.begun(gap), stage.now.mono + takes)
        stage.beat("w", *stage.live)
        over = [one for one, at in ends.items() if at <= stage.now.mono]
        stage.finish(*over, seconds=takes)
        for one in over:
            del ends[one]


def test_nobody_is_told_a_time_before_the_rate_lets_those_ahead_begin() -> None:
    stage = taught()
    stage.set("q", rate="1/min", burst=1)
    stage.submit(*range(150, 153))
    said = told(stage, 152)
    assert said is not None
    assert said.p90[0] >= stage.now.wall + 119_000_000
