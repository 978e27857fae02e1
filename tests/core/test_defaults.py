"""Job defaults of queues: inherited each by itself, live, and only for what a job does not say."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest

from fairway.core.defaults import in_force, rules_below, said
from fairway.core.model import DEFAULT_RULES, JOB_DEFAULTS, QueueSettings, Rules
from tests.core.stage import Stage

OF_QUEUE = Rules(2, 1, 30.0, 5.0, 50.0, JOB_DEFAULTS)


@pytest.mark.parametrize(
    ("own", "judged_by"),
    [
        (DEFAULT_RULES, OF_QUEUE),
        (Rules(), Rules()),  # everything was said, if only what would have been anyway
        (Rules(None, unsaid=("max_crashes", "timeout", "backoff")), Rules(None, 1, 30.0, 5.0, 50.0)),
        (Rules(timeout=None, unsaid=("max_attempts",)), Rules(2, 3, None)),
        (Rules(7, 8, 9.0, unsaid=("backoff",)), Rules(7, 8, 9.0, 5.0, 50.0)),
    ],
)
def test_a_job_is_judged_by_its_queue_where_it_said_nothing(own: Rules, judged_by: Rules) -> None:
    assert values(in_force(own, OF_QUEUE)) == values(judged_by)
    assert in_force(own, DEFAULT_RULES) is own


def values(rules: Rules) -> tuple[Any, ...]:
    return astuple(rules)[:5]


def test_what_is_said_later_counts_as_said() -> None:
    edited = said(DEFAULT_RULES, max_attempts=10)
    assert in_force(edited, OF_QUEUE).max_attempts == 10
    assert in_force(edited, OF_QUEUE).timeout == 30.0


def test_a_grace_is_the_jobs_own_then_its_queues() -> None:
    stage = Stage()
    stage.set("a", grace=30.0)
    of_queue = stage.core.world.tree.grow("a/b").rules
    assert in_force(DEFAULT_RULES, of_queue).grace == 30.0
    assert in_force(said(DEFAULT_RULES, grace=5.0), of_queue).grace == 5.0
    assert in_force(said(DEFAULT_RULES, grace=None), of_queue).grace is None  # the worker's own
    assert in_force(said(DEFAULT_RULES, max_attempts=1), of_queue).grace == 30.0


@pytest.mark.parametrize("grace", [-1.0, 3601.0, float("nan")])
def test_a_grace_is_bounded(grace: float) -> None:
    stage = Stage()
    stage.set("a", grace=grace)
    assert [reply.field for reply in stage.step().replies] == ["grace"]


def test_a_queue_that_sets_nothing_leaves_the_one_object_alone() -> None:
    assert rules_below(DEFAULT_RULES, QueueSettings(limit=3)) is DEFAULT_RULES


def rules_of(stage: Stage, path: str) -> tuple[Any, ...]:
    rules = stage.core.world.tree.grow(path).rules
    return rules.max_attempts, rules.max_crashes, rules.timeout, (rules.retry_first, rules.retry_max)


def test_none_is_no_bound_whatever_is_set_above() -> None:
    stage = Stage()
    stage.set("a", max_attempts=5, max_crashes=2, timeout=60.0)
    stage.set("a/b", max_attempts="none", max_crashes="none", timeout="none")
    assert rules_of(stage, "a/b/c")[:3] == (None, None, None)
    stage.set("a/b/c", timeout=5.0)
    assert rules_of(stage, "a/b/c")[:3] == (None, None, 5.0)
    stage.set("a/b", max_attempts=None, max_crashes=None, timeout=None)
    assert rules_of(stage, "a/b")[:3] == (5, 2, 60.0)


def test_each_setting_is_inherited_by_itself_and_changes_live() -> None:
    stage = Stage()
    stage.set("a", max_attempts=5, timeout=60.0)
    stage.set("a/b", timeout=10.0, backoff={"first": 2.0, "max": 4.0})
    assert rules_of(stage, "a/b/c") == (5, 3, 10.0, (2.0, 4.0))
    stage.set("a", max_attempts=None, max_crashes=1)
    assert rules_of(stage, "a") == (10, 1, 60.0, (1.0, 3600.0))
    assert rules_of(stage, "a/b/c") == (10, 1, 10.0, (2.0, 4.0))
    stage.set("a/b", timeout=None, backoff=None)
    assert rules_of(stage, "a/b/c") == (10, 1, 60.0, (1.0, 3600.0))
    assert stage.core.world.tree.grow("ab").rules is DEFAULT_RULES
    assert stage.core.world.tree.rules_at("a/nowhere/yet") is stage.core.world.tree.grow("a").rules


def test_settings_that_are_no_part_of_a_discipline_leave_it_alone() -> None:
    stage = Stage()
    stage.submit(1, queue="a")
    own = stage.core.world.tree.grow("a").own
    stage.set("a", max_attempts=1, retention=60.0)
    assert stage.core.world.tree.grow("a").own is own


@pytest.mark.parametrize(
    ("rules", "ends"), [(DEFAULT_RULES, "failed"), (Rules(5, unsaid=("timeout",)), "again")]
)
def test_the_backlog_is_judged_by_what_is_set_now(rules: Rules, ends: str) -> None:
    stage = Stage(rules=rules)
    stage.join("w")
    stage.submit(1, queue="a/b")
    assert stage.begun() == [1]
    stage.set("a", max_attempts=1)
    stage.finish(1, kind="error")
    batch = stage.step().batch
    assert [end.state for end in batch.ends] == (["failed"] if ends == "failed" else [])
    assert len(batch.returns) == (ends == "again")


def test_the_pause_before_a_new_try_is_the_queues() -> None:
    stage = Stage(rules=DEFAULT_RULES)
    stage.set("a", backoff={"first": 40.0, "max": 40.0})
    stage.join("w")
    stage.submit(1, queue="a")
    stage.begun()
    stage.finish(1, kind="error")
    [back] = stage.step().batch.returns
    assert 40.0 <= (back.run_at - stage.now.wall) / 1e6 <= 50.0


def test_a_queue_that_keeps_ended_jobs_for_a_time_of_its_own_is_known_as_such() -> None:
    stage = Stage()
    stage.set("a", retention=60.0)
    stage.set("a/b", retention=9.0)
    tree = stage.core.world.tree
    assert {queue.path for queue in tree.retaining} == {"a", "a/b"}
    stage.set("a", retention=None)
    assert {queue.path for queue in tree.retaining} == {"a/b"}
    tree.prune(tree.grow("a/b"))
    assert not tree.retaining


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("max_attempts", {"max_attempts": 0}),
        ("max_crashes", {"max_crashes": 0}),
        ("timeout", {"timeout": 0.0}),
        ("timeout", {"timeout": float("inf")}),
        ("backoff", {"backoff": {"first": 9.0, "max": 1.0}}),
        ("retention", {"retention": 0.5}),
    ],
)
def test_settings_that_cannot_be_are_refused(field: str, changes: dict[str, Any]) -> None:
    stage = Stage()
    stage.set("a", **changes)
    [reply] = stage.step().replies
    assert reply.error is not None and reply.field == field
    assert stage.core.world.tree.find("a") is None
