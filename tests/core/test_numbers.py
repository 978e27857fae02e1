"""Numbers of queues and flows: what was counted is what happened, rates fade, and there is a bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core import numbers as counting
from fairway.core.model import Arrival
from fairway.core.numbers import SCALE_AFTER, Figures, NumberBook
from fairway.core.sketch import Sketch
from fairway.core.tree import Tree

from .stage import COMMAND, Stage


def figures(stage: Stage, path: str) -> Figures:
    world = stage.core.world
    return world.numbers.figures(world.numbers.of_branch(world.tree.grow(path)), stage.now.mono)


def worked(stage: Stage, *jobs: int, queue: str = "acme/mail", kind: str = "ok") -> None:
    """Let jobs come, wait for a second, run and end."""
    stage.submit(*jobs, queue=queue)
    stage.micros += 1_000_000
    stage.step()
    stage.micros += 2_000_000
    stage.finish(*jobs, kind=kind, seconds=2.0)


def test_a_branch_counts_what_happened_below_it() -> None:
    stage = Stage()
    stage.join("w", 4)
    worked(stage, 1, 2)
    worked(stage, 3, queue="acme/reports", kind="permanent")
    for path, attempts, errors in (("acme/mail", 2, 0.0), ("acme", 3, 1 / 3), ("acme/reports", 1, 1.0)):
        found = figures(stage, path)
        assert (found.begun, found.ended) == (attempts, attempts)
        assert found.errors == pytest.approx(errors, abs=0.02)
        assert found.wait == pytest.approx([1.0] * 3, rel=0.12)
        assert found.run == pytest.approx([2.0] * 3, rel=0.12)
    tree = stage.core.world.tree
    assert tree.grow("acme").slot_seconds_until(stage.now.mono) == pytest.approx(6.0, rel=0.01)
    assert tree.grow("acme/reports").slot_seconds_until(stage.now.mono) == pytest.approx(2.0, rel=0.01)


def test_all_branches_at_once_are_the_same_as_one_by_one() -> None:
    stage = Stage()
    stage.join("w", 4)
    worked(stage, 1, 2)
    worked(stage, 3, queue="acme/reports/daily", kind="permanent")
    worked(stage, 4, queue="beta")
    book, tree = stage.core.world.numbers, stage.core.world.tree
    branches = book.of_branches([queue for _, queue in sorted(tree.queues.items())])
    found = {queue.path: book.figures(one, stage.now.mono) for queue, one in branches.items()}
    assert found == {path: figures(stage, path) for path in tree.queues}
    tenants = {queue.path: book.figures(one, stage.now.mono) for queue, one in book.of_tenants().items()}
    assert tenants == {path: figures(stage, path) for path in ("acme", "beta")}


def test_a_lost_attempt_went_wrong_and_one_handed_back_did_not_end() -> None:
    stage = Stage()
    stage.join("w", 4)
    stage.submit(1, 2)
    stage.step()
    stage.finish(1, kind="stopped")
    assert figures(stage, "q").ended == 0
    stage.absorb(happened.Gone("w"))
    found = figures(stage, "q")
    assert (found.ended, found.errors) == (1, 1.0)


def test_rates_are_what_came_and_went_and_fade_with_a_half_life_of_a_minute() -> None:
    stage = Stage()
    stage.join("w", 9)
    for job in range(300):
        stage.submit(job)
        stage.beat("w", *stage.live)
        stage.step()
        stage.micros += 500_000
        stage.finish(job, seconds=0.5)
    found = figures(stage, "q")
    assert (found.rate_in, found.rate_begun, found.rate_out) == pytest.approx((2.0, 2.0, 2.0), rel=0.03)
    stage.micros += 60_000_000
    assert figures(stage, "q").rate_out == pytest.approx(found.rate_out / 2, rel=0.15)


def test_flows_have_numbers_where_they_take_turns() -> None:
    stage = Stage()
    stage.join("w", 3)
    stage.set("q", discipline="sfq")
    for job, flow in enumerate(("ann", "ann", "bob", None), start=1):
        stage.arrivals[job] = Arrival(job, "q", flow, 0, COMMAND, stage.now.wall)
        stage.absorb(happened.Submitted([stage.arrivals[job]]))
    stage.step()
    stage.micros += 1_000_000
    stage.finish(*stage.live)
    stage.step()
    shown = stage.core.world.numbers.flows(stage.core.world.tree.grow("q"))
    counted = {flow: (one.begun, one.ended) for flow, one in shown.items()}
    assert counted == {"ann": (2, 1), "bob": (1, 1), None: (1, 1)}
    assert shown["bob"].slot_seconds == pytest.approx(1.0, rel=0.01)


def test_a_queue_that_is_forgotten_leaves_its_counts_to_its_parent() -> None:
    stage = Stage()
    stage.join("w", 4)
    worked(stage, 1, 2)
    stage.step()
    stage.absorb(happened.QueueDropAsked("ticket", "acme/mail"))
    assert stage.core.world.tree.find("acme/mail") is None
    assert figures(stage, "acme").begun == 2


def test_numbers_survive_being_scaled_back() -> None:
    tree, book = Tree(), NumberBook()
    queue = tree.grow("q")
    mono = 5.0
    for _ in range(200):
        mono += SCALE_AFTER / 100
        book.began(queue, 3, 1.0, mono)
        book.ended(queue, 3, 3.0, 3.0, False, mono)
    found = book.figures(book.of_branch(queue), mono)
    assert (found.begun, found.ended) == (600, 600)
    assert found.run == pytest.approx([1.0] * 3, rel=0.12)
    assert 0 < found.rate_out < 1


def test_queues_and_flows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_QUEUES", 3)
    monkeypatch.setattr(counting, "MOST_FLOWS", 4)
    stage = Stage()
    stage.join("w", 99)
    stage.set("fair", discipline="sfq")
    for job in range(10):
        stage.submit(job, queue=f"q{job}")
        stage.arrivals[job + 50] = Arrival(job + 50, "fair", f"f{job}", 0, COMMAND, stage.now.wall)
        stage.absorb(happened.Submitted([stage.arrivals[job + 50]]))
    stage.step()
    book = stage.core.world.numbers
    counted = [path for path, queue in stage.core.world.tree.queues.items() if book.find(queue) is not None]
    assert len(counted) == 3
    assert book.rest.begun == 20 - sum(figures(stage, path).begun for path in counted)
    assert list(book.flows(stage.core.world.tree.grow("fair"))) == ["f6", "f7", "f8", "f9"]


@given(st.lists(st.floats(0.002, 1e6), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_off_by_a_tenth_at_most(seconds: list[float], part: float) -> None:
    sketch = Sketch()
    for one in seconds:
        sketch.add(one, 1.0)
    true = sorted(seconds)[max(0, -int(-part * len(seconds) // 1) - 1)]
    assert sketch.quantiles([part]) == pytest.approx([true], rel=0.1)


def test_a_sketch_is_small_whatever_goes_in() -> None:
    sketch = Sketch()
    assert sketch.quantiles([0.5]) == []
    for exponent in range(-30, 60):
        for step in range(7):
            sketch.add(2.0 ** (exponent + step / 7), 1.0)
    assert len(sketch.weights) <= 129
