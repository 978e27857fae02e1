"""The process in which the user's tasks run: `python -m fairway.adapters.python.child KIND APP...`

It inherits five descriptors: the data socket, the control socket, the page, a pipe for stacks that are asked
for and the worker's own stderr; with a loop a sixth, the pipe by which a blocked one is told. It imports the
apps, says which tasks they have (or why they cannot be imported), and serves until the agent is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import os
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

from fairway.adapters.python import frames
from fairway.adapters.python.async_child import AsyncChild
from fairway.adapters.python.judge import RegisteredTask
from fairway.adapters.python.page import map_page
from fairway.adapters.python.speech import Speech
from fairway.adapters.python.spoken_streams import listen_to_logging, replace_streams
from fairway.adapters.python.stacks import dump_on_signal
from fairway.adapters.python.sync_child import SyncChild
from fairway.wire.messages import Task

DATA, CONTROL, PAGE, STACKS, WORKER = OWN = 3, 4, 5, 6, 7
BLOCKED = 8  # a child with a loop has it


def main(kind: str, apps: list[str]) -> None:
    """Import, say so, serve."""
    for fd in OWN if kind == "sync" else (*OWN, BLOCKED):
        os.set_inheritable(fd, False)
    data, control = socket.socket(fileno=DATA), socket.socket(fileno=CONTROL)
    print_by_line()
    speech = Speech(control)
    replace_streams(speech, os.fdopen(WORKER, "w", 1, errors="backslashreplace", closefd=False))
    dump_on_signal(STACKS)
    try:
        tasks = load_tasks(apps)
    except BaseException as error:
        data.sendall(frames.pack(frames.FAILED, explain(error).encode(errors="replace")))
        sys.exit(1)
    listen_to_logging()
    announced = [Task(task.name, task.is_async, str(task.signature)) for task in tasks.values()]
    data.sendall(frames.pack(frames.READY, msgspec.msgpack.encode(announced)))
    with contextlib.suppress(ConnectionError):
        serve(kind, tasks, apps, data, control, speech)


def serve(
    kind: str,
    tasks: dict[str, RegisteredTask],
    apps: list[str],
    data: socket.socket,
    control: socket.socket,
    speech: Speech,
) -> None:
    """Run what comes, in the manner of *kind*."""
    if kind == "sync":
        SyncChild(tasks, apps, data, speech).serve(control, map_page(PAGE))
        return

    async def run() -> None:
        await AsyncChild(tasks, apps, speech, BLOCKED).serve(data, control)

    with asyncio.Runner(loop_factory=find_loop_factory()) as runner:
        runner.run(run())


def load_tasks(apps: list[str]) -> dict[str, RegisteredTask]:
    """Import every `module:app` and return all their tasks by name."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    tasks: dict[str, RegisteredTask] = {}
    for app in apps:
        tasks.update(find_app(app).tasks)
    return tasks


def find_app(name: str) -> Any:
    """Return the object that `module:app` names."""
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in (attribute or "app").split("."):
        found = getattr(found, part)
    if not isinstance(getattr(found, "tasks", None), dict):
        raise TypeError(f"{name} is a {type(found).__name__}, not a fairway.App")
    return found


def explain(error: BaseException) -> str:
    """Write a failed import for the people who must mend it."""
    return "".join(traceback.format_exception(error))[-20_000:]


def print_by_line() -> None:
    """Let every printed line be seen at once, although it goes to no terminal."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def find_loop_factory() -> Any:
    """Return uvloop's loop if there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
