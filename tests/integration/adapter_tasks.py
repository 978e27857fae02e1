"""The app that the adapters' tests run: an object with the registry's interface and some tasks."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fairway import context
from fairway.errors import PermanentFailure, RetryAfter


class PlainTask:
    """A task without type conversion."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = str(inspect.signature(function))

    def load(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Read arguments; whether they fit shows when it is called, as with the tasks of an App."""
        found = msgspec.json.decode(payload)
        return tuple(found["args"]), found["kwargs"]

    def dump(self, value: Any) -> bytes:
        """Write the value."""
        return msgspec.json.encode(value)


class PlainApp:
    """A registry of tasks."""

    def __init__(self) -> None:
        self.tasks: dict[str, PlainTask] = {}

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register a function."""
        self.tasks[function.__name__] = PlainTask(function)
        return function


app = PlainApp()


@app.task
def add(a: int, b: int) -> int:
    """Return the sum."""
    return a + b


@app.task
def note(path: str, text: str) -> None:
    """Leave a line in a file."""
    with Path(path).open("a") as file:
        file.write(text + "\n")


@app.task
def sleep(seconds: float) -> str:
    """Sleep in a way that a signal can end."""
    time.sleep(seconds)
    return "slept"


@app.task
def hold_gil(seconds: float) -> None:
    """Sleep without letting any other Python code of this process run."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


@app.task
def look_at_cancelled() -> str:
    """End by oneself when asked to."""
    deadline = time.monotonic() + 30
    while not context.current().cancelled and time.monotonic() < deadline:
        time.sleep(0.01)
    return "asked"


@app.task
def ignore_stops() -> None:
    """Swallow everything."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            time.sleep(1)
        except BaseException:
            continue


@app.task
def die(how: str) -> None:
    """End the whole process."""
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(7)


@app.task
def fail(how: str) -> Any:
    """Fail in one of many ways."""
    match how:
        case "permanent":
            raise PermanentFailure("never")
        case "later":
            raise RetryAfter(12.5)
        case "never":
            raise RetryAfter(math.inf)
        case "exit":
            sys.exit(3)
        case "set":
            return {1, object()}
        case "object":
            return object()
        case "large":
            return "x" * 2_000_000
    raise ValueError("bad " + how)


@app.task
def who() -> list[Any]:
    """Say what one knows of oneself."""
    me = context.current()
    me.progress(0.5, "half")
    return [me.job_id, me.attempt, me.fence, me.queue, me.task, me.cancelled]


@app.task
def spawn_and_sleep(path: str) -> None:
    """Start a process and leave its number in a file."""
    process = subprocess.Popen(["sleep", "1000"])
    Path(path).write_text(str(process.pid))
    time.sleep(1000)


@app.task
async def nap(seconds: float) -> str:
    """Sleep on the loop."""
    await asyncio.sleep(seconds)
    return context.current().job_id


@app.task
async def nap_for_ever() -> None:
    """Ask to be tried again after an endless wait."""
    raise RetryAfter(math.inf)


@app.task
async def block_loop(seconds: float) -> None:
    """Keep the loop from turning."""
    time.sleep(seconds)  # noqa: ASYNC251


@app.task
async def async_pid() -> int:
    """Say in which process this runs."""
    return os.getpid()


@app.task
def tell_progress(times: int) -> None:
    """Say very often how far this is, the last time that it is done."""
    for step in range(1, times + 1):
        context.current().progress(step / times, f"step {step}")


@app.task
def tell_and_wait(path: str) -> None:
    """Say two things shortly after each other, then be silent until a file is there."""
    context.current().progress(0.1)
    context.current().progress(0.2, "later")
    while not Path(path).exists():
        time.sleep(0.01)


@app.task
def go_on() -> Any:
    """Say where an earlier attempt was, and leave a checkpoint of one's own."""
    me = context.current()
    me.checkpoint({"seen": me.resumed, "attempt": me.attempt})
    return me.resumed


@app.task
def checkpoint_and_die() -> None:
    """Leave a checkpoint and end the process at once."""
    context.current().checkpoint([1, 2])
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def checkpoint_in_threads(count: int) -> None:
    """Leave a checkpoint from each of some threads, one after the other."""
    for number in range(count):
        thread = threading.Thread(target=lambda: context.current().checkpoint(number))  # noqa: B023
        thread.start()
        thread.join()


@app.task
def checkpoint_wrongly(how: str) -> list[str]:
    """Try what cannot be a checkpoint, or a progress, and say what came of it."""
    wrong: dict[str, Callable[[], None]] = {
        "large": lambda: context.current().checkpoint("x" * 70_000),
        "object": lambda: context.current().checkpoint(object()),
        "surrogate": lambda: context.current().checkpoint("\ud800"),
        "more": lambda: context.current().progress(1.5),
        "nan": lambda: context.current().progress(math.nan),
    }
    try:
        wrong[how]()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return []


@app.task
def checkpoint_for_ever() -> None:
    """Do nothing but leave checkpoints, large ones."""
    number = 0
    while True:
        number += 1
        context.current().checkpoint([number, "x" * 60_000])


@app.task
def checkpoint_in_a_fork() -> list[str]:
    """Let a fork of this process leave a checkpoint, and say what it met with."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            context.current().checkpoint(1)
        except Exception as error:
            os.write(writer, type(error).__name__.encode())
        os._exit(0)
    os.close(writer)
    return [os.read(reader, 100).decode()]


@app.task
def use(seconds: float, megabytes: int) -> None:
    """Use so much CPU and memory."""
    block = bytearray(megabytes << 20)
    until = time.process_time() + seconds
    while time.process_time() < until:
        block[0] ^= 1


@app.task
async def nap_and_tell(times: int) -> Any:
    """Say how far this is in the loop, leave a checkpoint in a thread, then one in the loop."""
    me = context.current()
    for step in range(1, times + 1):
        me.progress(step / times, f"step {step}")
        await asyncio.sleep(0)
    await asyncio.to_thread(lambda: context.current().checkpoint("in a thread"))
    me.checkpoint({"done": times})
    return me.resumed
