"""What is known to be short is begun before a slot is free, and nothing else changes by it."""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappop, heappush
from typing import Any

import pytest

from fairway.core import events as happened
from fairway.core.model import DEFAULT_RULES, SLOT, Held, Result, Shape, TaskInfo, Timers
from fairway.core.plan import Begun
from fairway.core.scheduler import Core
from fairway.core.world import MOST_AHEAD

from .stage import Stage, task

SHORT, LONG = task("short"), task("long")
TASKS = (TaskInfo("short"), TaskInfo("long"))


def stage_of(slots: int = 2, ahead: bool = True, seconds: float = 0.020, **known: float) -> Stage:
    """Return a stage with a worker; how long tasks take is known."""
    stage = Stage(core=Core(Timers(beat=1e9, lease=1e9)))
    for name, takes in ({"short": seconds} | known).items():
        stage.core.world.estimates.add(name, takes * 40, 40)
    stage.join("w", slots, tasks=TASKS, ahead=ahead)
    return stage


def ahead_of(stage: Stage) -> list[int]:
    """Return the jobs that were begun ahead."""
    return sorted(job for job, live in stage.live.items() if live.ahead)


def test_each_slot_that_runs_a_short_job_has_the_next_one_ready() -> None:
    stage = stage_of()
    stage.submit(*range(1, 11), shape=SHORT)
    stage.step()
    assert sorted(stage.live) == [1, 2, 3, 4] and ahead_of(stage) == [3, 4]
    stage.finish(1, seconds=0.020)
    stage.step()
    assert sorted(stage.live) == [2, 3, 4, 5]


def test_bundles_are_begun_ahead_too() -> None:
    stage = stage_of(seconds=0.001)
    stage.submit(*range(1, 101), shape=SHORT)
    stage.step()
    assert len(stage.live) == 40 and ahead_of(stage) == list(range(21, 41))


@pytest.mark.parametrize(
    ("shape", "settings", "known"),
    [
        pytest.param(task("short", once=True), {}, {}, id="at most once"),
        pytest.param(SHORT, {"rate": "1000/s"}, {}, id="rated"),
        pytest.param(SHORT, {"on_lease_lost": "kill"}, {}, id="killed with the lease"),
        pytest.param(LONG, {}, {}, id="of unknown length"),
        pytest.param(LONG, {}, {"long": 0.1}, id="long"),
        pytest.param(Shape("command"), {}, {}, id="a command"),
    ],
)
def test_nothing_else_is_begun_ahead(shape: Shape, settings: dict[str, Any], known: dict[str, float]) -> None:
    stage = stage_of(**known)
    if settings:
        stage.set("q", **settings)
        stage.step(10.0)  # buckets of a new leader fill first
    stage.submit(*range(1, 6), shape=shape)
    stage.step()
    assert len(stage.live) == 2 and not ahead_of(stage)


def test_a_worker_that_does_not_keep_them_is_given_none() -> None:
    stage = stage_of(ahead=False)
    stage.submit(*range(1, 6), shape=SHORT)
    stage.step()
    assert sorted(stage.live) == [1, 2]


def test_behind_a_long_job_nothing_waits() -> None:
    stage = stage_of(slots=1)
    stage.submit(1, shape=LONG)
    stage.step()
    stage.submit(2, 3, shape=SHORT)
    stage.step()
    assert sorted(stage.live) == [1]


def test_beside_a_long_job_nothing_waits_either() -> None:
    """Short ones would wait for each other there, and each look as if it had run for as long as two."""
    stage = stage_of(slots=2)
    stage.submit(1, shape=LONG)
    stage.step()
    stage.submit(2, 3, 4, shape=SHORT)
    stage.step()
    assert sorted(stage.live) == [1, 2]
    stage.finish(1, seconds=0.5)
    stage.step()
    assert sorted(stage.live) == [2, 3, 4] and ahead_of(stage) == [4]


def test_whose_turn_it_is_is_not_passed() -> None:
    """The next is a long job of another queue: it waits for a slot, and the short ones behind it do, too."""
    stage = stage_of(slots=1)
    stage.set("long", weight=100)
    stage.submit(1, 2, 3, queue="short", shape=SHORT)
    stage.submit(11, 12, queue="long", shape=LONG)
    stage.step()
    assert len(stage.live) == 1 and not ahead_of(stage)


def test_it_counts_against_every_limit() -> None:
    stage = stage_of(slots=2)
    stage.set("q", limit=3)
    stage.submit(*range(1, 9), shape=SHORT)
    stage.step()
    assert sorted(stage.live) == [1, 2, 3]


@pytest.mark.parametrize(("seconds", "most"), [(0.011, MOST_AHEAD), (0.020, 2), (0.025, 2)])
def test_with_a_long_way_more_is_ready_but_nothing_has_to_wait_for_long(seconds: float, most: int) -> None:
    stage = stage_of(slots=1, seconds=seconds)
    stage.core.world.workers["w"].lag = 1.0
    stage.submit(*range(1, 20), shape=SHORT)
    stage.step()
    assert len(ahead_of(stage)) == most


def test_how_long_the_way_is_is_learnt_where_a_slot_was_free() -> None:
    stage = stage_of(slots=1)
    worker = stage.core.world.workers["w"]
    for job in range(1, 9):
        stage.submit(job, shape=SHORT)
        stage.step()
        stage.micros += 50_000
        stage.absorb(happened.Reported("w", [Result(job, 1, "ok", b"1", 0.020)], 0.5))
    assert worker.lag == pytest.approx(0.030, abs=0.001)


def test_two_jobs_that_nearly_fit_a_bundle_are_one() -> None:
    stage = stage_of(slots=1, seconds=0.0052)
    stage.submit(1, 2, 3, shape=SHORT)
    stage.step()
    assert stage.live[1].bundle == stage.live[2].bundle != 0


def test_what_is_handed_back_costs_nothing_and_is_not_given_again_at_once() -> None:
    stage = stage_of(slots=1)
    stage.submit(1, 2, 3, shape=SHORT)
    stage.step()
    queue = stage.core.world.tree.grow("q")
    stage.micros += 100_000
    stage.absorb(happened.HandedBack("w", [Held(2, 1, False)]))
    assert queue.slot_seconds_until(stage.now.mono) == pytest.approx(0.1), "the one that runs, alone"
    stage.step()
    assert sorted(stage.live) == [1] and stage.core.world.counts.handed_back == 1
    stage.step(2.0)
    assert sorted(stage.live) == [1, 2] and stage.live[2].attempt == 2


def one_after_the_other(kind: str) -> Stage:
    """Let one job run for 30 ms, and another, which was begun ahead, end as *kind* 25 ms later."""
    stage = stage_of(slots=1)
    stage.submit(1, 2, shape=SHORT)
    stage.step()
    stage.micros += 30_000
    stage.absorb(happened.Reported("w", [Result(1, 1, "ok", b"1", 0.028)], 0.5))
    stage.micros += 25_000
    stage.absorb(happened.Reported("w", [Result(2, 1, kind, b"{}", 0.020)], 0.5))
    return stage


@pytest.mark.parametrize("kind", ["ok", "error"])
def test_what_it_waited_is_not_charged(kind: str) -> None:
    stage = one_after_the_other(kind)
    held = stage.core.world.tree.grow("q").slot_seconds_until(stage.now.mono)
    assert held == pytest.approx(0.030 + 0.025), "it started as the other ended"
    assert stage.core.world.workers["w"].free == SLOT and stage.core.world.workers["w"].brief == 0


@pytest.mark.parametrize("kind", ["ok", "permanent"])
def test_its_row_tells_when_a_slot_was_free_for_it(kind: str) -> None:
    stage = one_after_the_other(kind)
    first, second = stage.step().batch.ends
    assert first.started_at is None, "as it was begun"
    assert second.started_at == second.ended_at - 25_000, "as the other ended"


def test_it_is_told_of_when_it_has_started() -> None:
    stage = stage_of(slots=1)
    stage.submit(1, 2, 3, shape=SHORT)
    plan = stage.step()
    assert [(begin.jobs, begin.ahead) for begin in plan.batch.begins] == [([1], False), ([2], True)]
    stage.finish(1, seconds=0.020)
    told = [(one.kind, list(one.jobs), one.attempt) for one in stage.step().batch.news]
    assert told == [("job.ended", [1], 1), ("job.begun", [2], 1)]
    stage.absorb(happened.Reported("w", [Result(job, 1, "ok", b"1", 0.02) for job in (2, 3)], 0.5))
    told = [(one.kind, list(one.jobs), one.attempt) for one in stage.step().batch.news]
    assert told == [("job.ended", [2], 1), ("job.begun", [3], 1), ("job.ended", [3], 1)]


def test_one_whose_end_comes_with_that_of_the_one_before_is_charged_for_what_it_took() -> None:
    stage = stage_of(slots=1)
    stage.submit(1, 2, shape=SHORT)
    stage.step()
    stage.micros += 45_000
    results = [Result(1, 1, "ok", b"1", 0.028), Result(2, 1, "ok", b"1", 0.015)]
    stage.absorb(happened.Reported("w", results, 0.5))
    queue = stage.core.world.tree.grow("q")
    assert queue.slot_seconds_until(stage.now.mono) == pytest.approx(0.045 + 0.015)
    assert queue.held == queue.waits == stage.core.world.workers["w"].ahead == 0
    assert stage.step().batch.ends[1].started_at == stage.now.wall - 15_000


def test_what_waits_was_begun_before_its_queue_is_paused() -> None:
    stage = stage_of(slots=1)
    stage.submit(1, 2, 3, queue="a/b", shape=SHORT)
    stage.step()
    stage.set("a", paused=True)
    told = [(one.kind, list(one.jobs)) for one in stage.step().batch.news]
    assert told == [("job.begun", [2]), ("queue.changed", [])]
    assert not ahead_of(stage) and stage.core.world.workers["w"].ahead == 0
    stage.finish(1, seconds=0.020)
    stage.finish(2, seconds=0.020)
    assert "job.begun" not in {one.kind for one in stage.step().batch.news}
    queue = stage.core.world.tree.grow("a")
    assert queue.held == queue.waits == queue.in_use == 0


def test_one_whose_begin_is_committed_after_a_slot_became_free_has_started() -> None:
    stage = stage_of(slots=1)
    stage.submit(1, 2, shape=SHORT)
    stage.step()
    live = stage.live[2]
    attempt, live.attempt = live.attempt, 0  # the commit is under way
    stage.finish(1, seconds=0.020)
    assert ahead_of(stage) == [2]
    live.attempt = attempt
    begun = Begun(2, 1, 0, 0, 0, (), DEFAULT_RULES, None, b"")
    stage.absorb(happened.Started([begun]))
    assert ahead_of(stage) == []
    assert [one.kind for one in stage.step().batch.news] == ["job.ended", "job.begun"]


def test_what_was_handed_back_is_forgotten() -> None:
    stage = stage_of(slots=1)
    stage.submit(1, 2, shape=SHORT)
    worker = stage.core.world.workers["w"]
    for attempt in range(1, 6):
        stage.step(2.0)
        stage.micros += 100_000
        stage.absorb(happened.HandedBack("w", [Held(2, attempt, False)]))
        assert len(worker.waiting) == 0
    assert stage.core.world.tree.grow("q").longest == 0.0, "it ran for no time"


def test_what_is_short_and_what_is_not_any_more_are_counted_apart() -> None:
    stage = stage_of(slots=2)
    stage.set("q", limit=3)
    stage.submit(1, 2, 3, 4, shape=SHORT)
    stage.step()
    worker = stage.core.world.workers["w"]
    stage.micros += 20_000
    results = [Result(job, 1, "ok", b"1", 5.0) for job in (1, 2)]
    stage.absorb(happened.Reported("w", results, 0.5))
    stage.core.plan(stage.now)  # at the same moment: 3 has started, 4 begins, and is not short any more
    stage.live[4].attempt = 1
    assert stage.live[3].is_brief and not stage.live[4].is_brief
    assert stage.live[3].begun_at == stage.live[4].begun_at
    stage.micros += 20_000
    stage.absorb(happened.Reported("w", [Result(job, 1, "ok", b"1", 0.02) for job in (3, 4)], 0.5))
    assert worker.free == 2 * SLOT and worker.brief == worker.ahead == 0


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf"), -1.0])
@pytest.mark.parametrize("kind", ["ok", "error"])
def test_seconds_that_cannot_be_are_none(seconds: float, kind: str) -> None:
    stage = stage_of(slots=1)
    stage.submit(1, 2, 3, shape=SHORT)
    stage.step()
    stage.micros += 20_000
    results = [Result(job, 1, kind, b"{}", seconds) for job in (1, 2)]
    stage.absorb(happened.Reported("w", results, 0.5))
    stage.step()
    stage.submit(4, shape=SHORT)
    stage.step()
    assert stage.core.world.tree.grow("q").slot_seconds_until(stage.now.mono) == pytest.approx(0.02, abs=1e-4)


def test_they_start_in_their_order_as_slots_become_free() -> None:
    stage = stage_of(slots=2)
    stage.submit(1, 2, 3, 4, shape=SHORT)
    stage.step()
    assert ahead_of(stage) == [3, 4]
    stage.finish(2, seconds=0.020)
    assert ahead_of(stage) == [4]
    stage.finish(1, seconds=0.020)
    assert ahead_of(stage) == []


class Shop:
    """A worker that runs what it is given, and keeps what is begun ahead until a slot is free."""

    def __init__(self, flows: bool, slots: int, lengths: dict[str, float]) -> None:
        self.stage = Stage(core=Core(Timers(beat=1e9, lease=1e9, ahead_most=0.05)))
        self.slots, self.lengths, self.flows = slots, lengths, flows
        tasks = tuple(TaskInfo(who) for who in lengths)
        self.stage.join("w", slots, tasks=tasks, ahead=True)
        if flows:
            self.stage.set("q", discipline="sfq", charge="seconds")
        self.number, self.running = 0, 0
        self.shelf: deque[int] = deque()
        self.ends: list[tuple[int, int]] = []
        self.who: dict[int, str] = {}
        self.had = Counter[str]()
        self.idle = 0.0

    def run(self, until: float, lag: float = 0.003) -> None:
        """Keep everybody's line full; each report and each begin takes its time."""
        stage = self.stage
        waiting = Counter(self.who[job] for job in self.who if job not in stage.attempts)
        while stage.micros < until * 1e6:
            for who in self.lengths:
                while waiting[who] < 40:
                    self.number += 1
                    self.who[self.number] = who
                    where = {"queue": "q", "flow": who} if self.flows else {"queue": who}
                    stage.submit(self.number, shape=task(who), **where)
                    waiting[who] += 1
            begun = stage.begun()
            waiting.subtract(self.who[job] for job in begun)
            self.shelf.extend(begun)
            self._start()
            self._pass(int(lag * 1e6))

    def _start(self) -> None:
        while self.shelf and self.running < self.slots:
            job = self.shelf.popleft()
            self.running += 1
            heappush(self.ends, (self.stage.micros + int(self.lengths[self.who[job]] * 1e6), job))

    def _pass(self, micros: int) -> None:
        """Let time pass, then tell what ended meanwhile."""
        until, results = self.stage.micros + micros, []
        at = self.stage.micros
        while self.ends and self.ends[0][0] <= until:
            end, job = heappop(self.ends)
            self._hold(end - at)
            at = end
            self.running -= 1
            self.stage.micros = end
            self._start()
            took = self.lengths[self.who[job]]
            self.had[self.who[job]] += took  # type: ignore[assignment]
            results.append(Result(job, self.stage.attempts[job], "ok", b"1", took))
        self._hold(until - at)
        self.stage.micros = until
        if results:
            self.stage.absorb(happened.Reported("w", results, 0.5))

    def _hold(self, micros: int) -> None:
        self.idle += (self.slots - self.running) * micros / 1e6


@pytest.mark.parametrize("flows", [False, True], ids=["tree", "flows"])
def test_shares_are_as_ever_beside_long_jobs(flows: bool) -> None:
    """One has jobs that are begun ahead, the other's are too long for that."""
    shop = Shop(flows, 4, {"short": 0.020, "long": 0.300})
    shop.run(20.0)
    before = shop.had.copy()
    shop.run(80.0)
    had = {who: shop.had[who] - before[who] for who in shop.lengths}
    assert had["short"] / sum(had.values()) == pytest.approx(0.5, abs=0.02)


def test_slots_are_hardly_idle_while_short_jobs_wait() -> None:
    shop = Shop(False, 2, {"short": 0.020})
    shop.run(2.0)
    before = shop.idle
    shop.run(12.0)
    assert (shop.idle - before) / (2 * 10.0) < 0.01
    assert shop.stage.core.world.counts.handed_back == 0
