"""When no worker can run a job, the answer says exactly what is missing, and at whom the least."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.core.explain import explain
from fairway.core.model import Shape, TaskInfo

from .stage import COMMAND, Stage, task

Workers = dict[str, dict[str, Any]]

PLAIN: dict[str, Any] = {}
GPU: dict[str, Any] = {"tags": ("gpu", "zone-eu-1")}
BETA: dict[str, Any] = {"queues": ("beta/*",)}
COMMANDS_ONLY: dict[str, Any] = {"adapters": frozenset({"command"}), "tasks": ()}
RESIZER: dict[str, Any] = {"tasks": (TaskInfo("resize"),)}


@pytest.mark.parametrize(
    ("workers", "shape", "detail", "on"),
    [
        ({"w": PLAIN}, Shape("rails"), "no worker has adapter rails", "rails"),
        ({"w": PLAIN}, task("resize"), "no worker has task resize", "resize"),
        ({"w": PLAIN}, Shape("command", tags=("gpu",)), "no worker has tag gpu", "gpu"),
        ({"w": GPU}, Shape("command", tags=("gpu", "zone-us-*")), "no worker has tag zone-us-*", "zone-us-*"),
        ({"w": BETA}, COMMAND, "no worker serves queue 'acme/mail'", "acme/mail"),
        ({"w": PLAIN}, task("resize", "gpu"), "no worker has task resize, none has tag gpu", "resize"),
        (
            {"w": {**COMMANDS_ONLY, **BETA}},
            task("resize"),
            "no worker has adapter python, none serves queue 'acme/mail'",
            "python",
        ),
        # Each has what the other lacks.
        (
            {"v": {**GPU, **BETA}, "w": PLAIN},
            Shape("command", tags=("gpu",)),
            "no worker has all it needs; nearest: w has no tag gpu; v does not serve queue 'acme/mail'",
            "gpu",
        ),
        (
            {"u": RESIZER, "v": GPU, "w": COMMANDS_ONLY},
            task("resize", "gpu"),
            "no worker has all it needs; nearest: u has no tag gpu; v has no task resize; w has no adapter"
            " python and no tag gpu",
            "gpu",
        ),
        # One thing is lacked by all of them; who lacks less is nearer.
        (
            {"u": PLAIN, "v": RESIZER},
            task("resize", "gpu"),
            "no worker has tag gpu; nearest: v has no tag gpu; u has no task resize and no tag gpu",
            "gpu",
        ),
        # Workers that lack the same are named together.
        (
            {**{f"w{number}": PLAIN for number in range(6)}, "v": {**GPU, **BETA}},
            Shape("command", tags=("gpu",)),
            "no worker has all it needs; nearest: w0, w1, w2 and 3 more have no tag gpu;"
            " v does not serve queue 'acme/mail'",
            "gpu",
        ),
    ],
)
def test_what_is_missing_is_named(workers: Workers, shape: Shape, detail: str, on: str) -> None:
    stage = Stage()
    for name, announced in workers.items():
        stage.join(name, 1, **announced)
    stage.submit(1, queue="acme/mail", shape=shape)
    why = explain(stage.core.world, stage.arrivals[1], stage.now.wall)
    assert why is not None
    assert (why.reason, why.detail, why.on) == ("no_worker", detail, on)


def test_what_a_new_worker_brings_is_missing_no_more() -> None:
    stage = Stage()
    stage.join("w", 1)
    stage.submit(1, queue="acme/mail", shape=Shape("command", tags=("gpu",)))
    stage.join("v", 1, **GPU)
    why = explain(stage.core.world, stage.arrivals[1], stage.now.wall)
    assert why is not None and why.reason == "starting"
