"""How far a job is, for people: a bar in a line, and one that moves while somebody waits.

The call that waits at the node answers only when the job ended, so a thread beside it looks at the job now
and then, as `reasons.py` does. It draws on stderr, on a terminal only, and nothing before the job says how
far it is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from fairway.cli.calling import part
from fairway.cli.moments import show_seconds
from fairway.cli.output import clean
from fairway.errors import FairwayError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from fairway.client.http import Transport

BAR_WIDTH = 20
LOOK_SECONDS = 0.5


def progress_line(job: Mapping[str, Any]) -> str | None:
    """Write progress as `[########------------] 40 %, 1.2 % a second, 50 s left: halfway`."""
    progress = job.get("progress")
    if not isinstance(progress, Mapping):
        return None
    fraction = float(progress["fraction"])
    done = int(fraction * BAR_WIDTH)
    bar = f"[{'#' * done}{'-' * (BAR_WIDTH - done)}] {fraction * 100:.0f} %"
    text = str(progress.get("text") or "")
    return bar + _pace(progress) + (f": {text}" if text else "")


def _pace(progress: Mapping[str, Any]) -> str:
    rate, left = progress.get("rate_per_second"), progress.get("seconds_left")
    if rate is None or left is None:
        return ""
    return f", {rate * 100:.2g} % a second, {show_seconds(left)} left"


def usage_line(job: Mapping[str, Any]) -> str | None:
    """Write what the last attempt used as `1.2 s of CPU, 48 MB of memory`."""
    usage = job.get("usage") or {}
    cpu, memory = usage.get("cpu_seconds"), usage.get("memory_bytes")
    parts = [f"{show_seconds(cpu)} of CPU"] if cpu is not None else []
    parts += [f"{memory / 1e6:.0f} MB of memory"] if memory is not None else []
    return ", ".join(parts) or None


@contextmanager
def showing_progress(transport: Transport, job: str) -> Iterator[None]:
    """Draw on a terminal how far *job* is, as long as the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(transport, job, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LOOK_SECONDS)  # so that the bar is off the line before anything else is written


def _watch(transport: Transport, job: str, over: threading.Event) -> None:
    with ExitStack() as stack:
        bar: tuple[Progress, TaskID] | None = None
        while not over.wait(LOOK_SECONDS):
            try:
                found = transport.call("GET", f"/jobs/{part(job)}")
            except FairwayError:  # the call beside us meets the same trouble
                continue
            if isinstance(found.get("progress"), Mapping) and found["state"] == "running":
                bar = bar or _new_bar(stack)
                _draw(*bar, found["progress"])


def _new_bar(stack: ExitStack) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    progress = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    return progress, progress.add_task("", total=1.0)


def _draw(bar: Progress, task: TaskID, progress: Mapping[str, Any]) -> None:
    left = progress.get("seconds_left")
    words = [f"{show_seconds(left)} left"] if left is not None else []
    words += [clean(progress["text"])] if progress.get("text") else []
    bar.update(task, completed=float(progress["fraction"]), description=", ".join(words))
