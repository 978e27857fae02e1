"""Which worker may take which job: every filter, and the reason it names."""

from __future__ import annotations

import pytest

from fairway.core.matching import WorkerClass, class_key, serves, why_not
from fairway.core.model import Shape, TaskInfo, WorkerSpec

WORKER = WorkerSpec(
    "w", "w.1", 4, frozenset({"command", "python"}),
    (TaskInfo("send"), TaskInfo("fetch", True)), ("gpu", "zone-eu-1"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "lack"),
    [
        (Shape("command"), None),
        (Shape("python", "send"), None),
        (Shape("rails"), "adapter rails"),
        (Shape("python", "resize"), "task resize"),
        (Shape("command", tags=("gpu",)), None),
        (Shape("command", tags=("zone-eu-*", "g?u")), None),
        (Shape("command", tags=("gpu", "zone-us-*")), "tag zone-us-*"),
        (Shape("rails", "send", ("tpu",)), "adapter rails"),
    ],
)
def test_a_worker_says_what_it_lacks(shape: Shape, lack: str | None) -> None:
    assert why_not(WORKER, shape) == lack
    assert WorkerClass(WORKER).fits(shape) == (lack is None)


@pytest.mark.parametrize(
    ("globs", "path", "attached"),
    [
        (("**",), "acme/emails", True),
        (("acme",), "acme", True),
        (("acme",), "acme/emails", False),
        (("acme/*",), "acme/emails", True),
        (("acme/*",), "acme", False),
        (("a*",), "ab", True),
        (("acme/*", "beta"), "beta", True),
        ((), "acme", False),
    ],
)
def test_a_worker_serves_the_queues_its_globs_cover(
    globs: tuple[str, ...], path: str, attached: bool
) -> None:
    assert serves(globs, path) == attached


def test_a_task_belongs_to_its_adapter() -> None:
    tasks = (TaskInfo("add", True, "python"), TaskInfo("add", False, "node"), TaskInfo("old"))
    worker = WorkerSpec("w", "w.1", 4, frozenset({"python", "node", "warm"}), tasks)
    lacks = [why_not(worker, Shape(adapter, "add")) for adapter in ("python", "node", "warm")]
    assert lacks == [None, None, "task add"]
    assert why_not(worker, Shape("warm", "old")) is None
    kind = WorkerClass(worker)
    assert [kind.is_async(Shape(adapter, "add")) for adapter in ("python", "node")] == [True, False]
    assert kind.part is not None and not kind.part.fits(Shape("node", "add"))


def test_only_async_tasks_share_a_slot() -> None:
    kind = WorkerClass(WORKER)
    assert kind.is_async(Shape("python", "fetch"))
    assert not kind.is_async(Shape("python", "send"))
    assert not kind.is_async(Shape("command"))
    assert kind.part is not None
    assert kind.part.fits(Shape("python", "fetch"))
    assert not kind.part.fits(Shape("python", "send"))
    assert not kind.part.fits(Shape("python", "fetch", ("tpu",)))


def test_what_was_learnt_once_is_the_same_again() -> None:
    kind = WorkerClass(WORKER)
    shape = Shape("command", tags=("tpu",))
    assert [kind.fits(shape), kind.fits(shape)] == [False, False]
    assert [kind.attached("x"), kind.attached("x")] == [True, True]


def test_workers_are_alike_whatever_their_names_and_slots() -> None:
    twin = WorkerSpec("other", "o.7", 9, WORKER.adapters, WORKER.tasks, WORKER.tags)
    assert class_key(twin) == class_key(WORKER)
    assert class_key(WorkerSpec("w", "w.1", 4, WORKER.adapters, WORKER.tasks)) != class_key(WORKER)
