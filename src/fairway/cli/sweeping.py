"""An action on all that a query finds, done by the node in the background: begun here, watched, aborted.

The first Ctrl-C aborts the operation, which stops after its batch; a second one ends the watching only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fairway.cli.calling import current, part
from fairway.cli.looking import looks
from fairway.cli.output import clean, count_of, remark

TELL_SECONDS = 5.0
#: From so many jobs on a bar shows how far it is.
BAR_FROM = 20
UNDER_WAY = ("running", "aborting")
#: The node counts so far; what it finds more than that is known at the end.
MOST_COUNTED = 10_000

Operation = dict[str, Any]
#: Shows how far an operation is.
Shows = Callable[[Operation], None]


def sweep(body: dict[str, Any], *, detach: bool) -> Operation:
    """Begin an operation and, unless detached, follow it until it is over."""
    begun = current().transport().call("POST", "/jobs/actions", body=body)
    return begun if detach else follow(begun)


def follow(operation: Operation) -> Operation:
    """Show how an operation goes on until it is over."""
    with _showing(operation) as show:
        try:
            return _until_over(operation, show)
        except KeyboardInterrupt:
            remark("aborting after the jobs under way; Ctrl-C again leaves it to itself")
        try:
            path = f"/operations/{part(operation['id'])}"
            return _until_over(current().transport().call("DELETE", path), show)
        except KeyboardInterrupt:
            remark(f"the operation goes on without you: fairway operations show {clean(operation['id'])}")
            raise


def words(operation: Operation) -> str:
    """Write how far it is: `120 of 312 jobs, 3 refused; canary 2 of 5 succeeded`."""
    is_known = operation["found"] <= MOST_COUNTED or operation["state"] == "done"
    found = operation["found"] if is_known else f"more than {MOST_COUNTED}"
    said = f"{operation['done'] + operation['refused']} of {found} jobs"
    said += f", {operation['refused']} refused" if operation["refused"] else ""
    canary = operation.get("canary")
    return said + (f"; canary: {canary['succeeded']} of {canary['jobs']} succeeded" if canary else "")


def _is_open(operation: Operation) -> bool:
    return operation["state"] in UNDER_WAY


def _until_over(operation: Operation, show: Shows) -> Operation:
    now = operation
    for now in looks(operation):
        if not _is_open(now):
            break
        show(now)
    return now


@contextmanager
def _showing(operation: Operation) -> Iterator[Shows]:
    """Draw a bar on a terminal if the jobs are many; elsewhere write a line now and then."""
    if not sys.stderr.isatty():
        yield _Lines()
    elif operation["found"] < BAR_FROM and not operation.get("canary"):
        yield lambda operation: None
    else:
        with _bar(operation) as show:
            yield show


class _Lines:
    """Tells how far it is, every few seconds."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, operation: Operation) -> None:
        if time.monotonic() > self._told + TELL_SECONDS:
            self._told = time.monotonic()
            remark(words(operation))


@contextmanager
def _bar(operation: Operation) -> Iterator[Shows]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), text)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(clean(operation["action"]), total=_total(operation))

        def show(now: Operation) -> None:
            done = now["done"] + now["refused"]
            progress.update(task, completed=done, total=_total(now), description=words(now))

        yield show


def _total(operation: Operation) -> int | None:
    """Return how many there are; with None the bar only shows that something goes on."""
    found: int = operation["found"]
    return found if found <= MOST_COUNTED else None


def told(operation: Operation, done: str) -> tuple[str, int]:
    """Return what to say of an operation that is over, and the exit code."""
    said = f"{count_of(operation['done'], 'job')} {done}"
    state, reason = operation["state"], operation.get("reason")
    if state == "done":
        return said, 1 if operation["refused"] else 0
    why = f": {reason}" if reason else ""
    return f"{said}; {state}{why}", 130 if state == "aborted" else 1
