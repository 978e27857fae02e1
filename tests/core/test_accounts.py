"""What attempts have held and cost: each counts from its own begin, in whatever message its end is told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core.account import Account
from fairway.core.model import Result, TaskInfo, Timers
from fairway.core.scheduler import Core
from tests.drawing import drawn

from .stage import COMMAND, Stage, task

QUEUES = {"plain": "priority", "turns": "sfq", "seconds": "sfq"}
FLOWS = (None, "ann", "bob")
SHORT = task("short")


class Start(NamedTuple):
    """A job of each of these flows; they begin together, so long after those before them."""

    gap: float
    queue: str
    flows: list[str | None]
    short: bool  # so that they begin in a bundle


STARTS = st.lists(
    st.builds(
        Start, st.sampled_from([0.0, 0.01, 1.0, 30.0]), st.sampled_from(sorted(QUEUES)),
        st.lists(st.sampled_from(FLOWS), min_size=1, max_size=4), st.booleans(),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


class Accounts:
    """A core that has begun some jobs, and what was charged to whom."""

    def __init__(self, starts: Sequence[Start]) -> None:
        self.stage = Stage(core=Core(Timers(beat=1e9, lease=1e9)))
        self.jobs: list[int] = []
        stage, world = self.stage, self.stage.core.world
        stage.join("w", 20, tasks=(TaskInfo("short"),))
        world.estimates.add("short", 0.02, 20)
        for path, discipline in QUEUES.items():
            stage.set(path, discipline=discipline, **({"charge": "seconds"} if path == "seconds" else {}))
        for gap, queue, flows, short in starts:
            stage.micros += int(gap * 1e6)
            for number, flow in enumerate(flows, start=100 * (len(self.jobs) + 1)):
                stage.submit(number, queue=queue, flow=flow, shape=SHORT if short else COMMAND)
            self.jobs += stage.begun()

    def end(self, reports: Sequence[Sequence[int]]) -> dict[str, float]:
        """Let the jobs end in these reports, all at one moment; return what was counted of them."""
        stage, world = self.stage, self.stage.core.world
        stage.micros += 10_000_000
        for jobs in reports:
            results = [Result(job, stage.live[job].attempt, "ok", b"1", job % 7 / 10) for job in jobs]
            stage.absorb(happened.Reported("w", results, 0.5))
        stage.step()
        accounts: dict[str | None, Account] = world.tree.grow("seconds").own._accounts  # type: ignore[attr-defined]
        found: dict[str, float] = {f"flow {flow}": one.slot_seconds for flow, one in accounts.items()}
        found["turn"] = world.tree.turn_seconds or 0.0
        for path in QUEUES:
            queue = world.tree.grow(path)
            numbers = world.numbers.of_branch(queue)
            held = queue.slot_seconds_until(stage.now.mono)
            assert numbers.slot_seconds == pytest.approx(held)
            found |= {f"held {path}": held, f"work {path}": numbers.mean_work() or 0.0}
            for flow, counted in world.numbers.flows(queue).items():
                found |= {
                    f"ended {path} {flow}": counted.ended,
                    f"held {path} {flow}": counted.slot_seconds,
                    f"work {path} {flow}": counted.mean_work() or 0.0,
                }
        return found


@drawn(150)
@given(STARTS, st.integers(0, 1 << 32), st.booleans())
def test_ends_count_the_same_however_they_are_told(starts: list[Start], seed: int, shuffled: bool) -> None:
    dice, one_by_one, together = random.Random(seed), Accounts(starts), Accounts(starts)
    jobs = list(together.jobs)
    assert jobs == one_by_one.jobs
    if shuffled:
        dice.shuffle(jobs)
    cuts = sorted(dice.sample(range(len(jobs) + 1), dice.randint(0, min(3, len(jobs)))))
    reports = [jobs[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(jobs)], strict=True)]
    expected = one_by_one.end([[job] for job in one_by_one.jobs])
    found = together.end(reports)
    # A running mean: of more than twenty turns that differ their order counts, a little.
    assert found.pop("turn") == pytest.approx(expected.pop("turn"), rel=0.01)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_long_and_a_short_job_that_end_in_one_report_held_what_each_held(order: tuple[int, int]) -> None:
    stage = Stage(core=Core(Timers(beat=1e9, lease=1e9)))
    stage.join("w", 2)
    stage.submit(1)
    stage.step()
    stage.submit(2)
    stage.step(90.0)
    stage.micros = 100_000_000
    stage.absorb(happened.Reported("w", [Result(job, 1, "ok", b"1", 10.0) for job in order], 0.5))
    numbers = stage.core.world.numbers.of_branch(stage.core.world.tree.root)
    assert numbers.slot_seconds == pytest.approx(110.0, rel=1e-5)
    assert numbers.mean_work() == pytest.approx(55.0, rel=1e-5)
    assert stage.core.world.tree.turn_seconds == pytest.approx((100.0 * 10.0) ** 0.5, rel=1e-5)


def test_jobs_that_began_together_end_in_one_record() -> None:
    stage = Stage()
    stage.join("w", 4)
    stage.submit(*range(1, 5))
    stage.step()
    stage.absorb(happened.Reported("w", [Result(job, 1, "ok", b"1", 1.0) for job in range(1, 5)], 0.5))
    assert [list(end.jobs) for end in stage.step(1.0).batch.ends] == [[1, 2, 3, 4]]
