"""The warm children that run the same tests: one in Python, the example in Node, a Rails application.

All of them have the same tasks (see warm_child.py); in Rails these are classes.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fairway.adapters.rails import RUNNER, make_rails_adapter
from fairway.adapters.warm.adapter import WarmAdapter
from fairway.wire.messages import Assignment
from fairway.worker.warden import Warden
from tests.integration.rails_app import make_app
from tests.packages import find_node, find_rails

HERE = Path(__file__).parent
EXAMPLE = HERE.parent.parent / "examples" / "node" / "worker.js"
CHILD = [sys.executable, str(HERE / "warm_child.py")]


@dataclass(frozen=True)
class WarmKind:
    """A kind of child: how to start it, what its tasks are called."""

    adapter: str
    argv: Callable[[Path], list[str]]  # given a folder of its own
    name: Callable[[str], str] = str

    def work(self, task: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the work that calls a task."""
        key = "job" if self.adapter == "rails" else "task"
        return {"adapter": self.adapter, key: self.name(task), "args": list(args), "kwargs": kwargs}

    def call(self, job: int, task: str, *args: Any, **kwargs: Any) -> Assignment:
        """Return an assignment that calls a task."""
        payload = json.dumps({"work": self.work(task, *args, **kwargs)}).encode()
        return Assignment(job, 1, self.adapter, self.name(task), payload, None, "acme/mail")


def node_argv(folder: Path) -> list[str]:
    """Return how the example in Node is started."""
    return [find_node(), str(EXAMPLE)]


def rails_argv(folder: Path) -> list[str]:
    """Return how the Rails application is started, which is made by this."""
    root = folder / "rails"
    return [find_rails(), str(RUNNER), str(root if root.exists() else make_app(root))]


WARM_KINDS = {
    "warm": WarmKind("warm", lambda folder: CHILD),
    "node": WarmKind("node", node_argv),
    "rails": WarmKind("rails", rails_argv, str.capitalize),
}


@cache
def shared_folder() -> Path:
    """Return a folder for what all tests of this process share: the Rails application."""
    folder = Path(tempfile.mkdtemp(prefix="fairway-warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def make_adapter(kind: str, warden: Warden, slots: int = 2) -> WarmAdapter:
    """Return the adapter of a kind, as a worker makes it."""
    argv = WARM_KINDS[kind].argv(shared_folder())
    return (
        make_rails_adapter(argv[-1], warden, slots)
        if kind == "rails"
        else WarmAdapter(kind, argv, warden, slots)
    )
