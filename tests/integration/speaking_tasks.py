"""Tasks that write, for the tests of output, stacks and recycling."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.integration.adapter_tasks import PlainApp

app = PlainApp()
pool = ThreadPoolExecutor(1)
leaked: list[bytes] = []

print("imported")  # nobody's: it is the worker's own


@app.task
def say(text: str, stream: str = "stdout") -> None:
    """Print a line."""
    print(text, file=getattr(sys, stream))


@app.task
def nothing() -> int:
    """Print nothing; say in which process."""
    return os.getpid()


@app.task
def say_in_many_ways() -> None:
    """Write by everything that Python has."""
    print("printed")
    sys.stdout.write("without a newline ")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"then bytes\n")
    print("to stderr", file=sys.stderr)
    logging.getLogger("shop").info("logged %d", 7)
    logging.getLogger("shop").debug("not this")
    print("lone \ud800 surrogate")
    print("the end", end="")


@app.task
def say_then_sleep(text: str, seconds: float) -> None:
    """Print, then take a while."""
    print(text)
    time.sleep(seconds)


@app.task
def say_and_wait(path: str) -> None:
    """Print, wait for a file, print again."""
    print("first")
    while not Path(path).exists():
        time.sleep(0.02)
    print("second")


@app.task
def say_in_threads(text: str) -> None:
    """Print from a thread of one's own and from a pool's."""
    thread = threading.Thread(target=print, args=(f"{text} in a thread",))
    thread.start()
    thread.join()
    pool.submit(print, f"{text} in a pool").result()


@app.task
def leave_a_thread(path: str) -> None:
    """Leave a thread that prints when somebody else runs."""

    def wait_and_print() -> None:
        while not Path(path).exists():
            time.sleep(0.01)
        print("from a thread that has outlived its job")
        Path(path).unlink()

    threading.Thread(target=wait_and_print, daemon=True).start()


@app.task
def wake_the_thread(path: str) -> None:
    """Let it print, and wait until it has."""
    print("awake")
    Path(path).touch()
    while Path(path).exists():
        time.sleep(0.01)


@app.task
def fork_and_print(text: str) -> None:
    """Print in a fork of the process."""
    pid = os.fork()
    if pid == 0:
        print(text)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)


@app.task
def run_program(text: str) -> None:
    """Let a program write."""
    subprocess.run(["sh", "-c", f"echo {text}; echo {text} >&2"], check=True)


@app.task
def flood(megabytes: int, how: str) -> int:
    """Print without end; return the most kilobytes this process had."""
    line = "x" * 1023
    if how == "lines":
        for _ in range(megabytes * 1024):
            print(line)
    elif how == "program":
        subprocess.run(["sh", "-c", f"yes {line} | head -c {megabytes}M"], check=True)
    else:
        sys.stdout.write(line * 1024 * megabytes)
    return os.getpid()


@app.task
def long_line() -> None:
    """Print a line over its bound, and one after it."""
    print("y" * 1_000_000)
    print("after it")


@app.task
def die_speaking() -> None:
    """Print and end the process."""
    print("last words")
    os._exit(3)


@app.task
def swallow_then_print() -> None:
    """Print all the time, so that a stop comes in the midst of it."""
    while True:
        print("z" * 200)


@app.task
async def asay(text: str, count: int) -> None:
    """Print turn by turn with others."""
    for number in range(count):
        print(f"{text} {number}")
        await asyncio.sleep(0)
    await asyncio.to_thread(print, f"{text} in a thread")
    logging.getLogger("shop").warning("%s logged", text)


@app.task
async def leave_a_task() -> None:
    """Leave an asyncio task that prints when this has ended."""

    async def late() -> None:
        await asyncio.sleep(0.2)
        print("too late")

    leave_a_task.left = asyncio.get_running_loop().create_task(late())  # type: ignore[attr-defined]


# --- where it is ------------------------------------------------------------------------------------------
@app.task
def deep_sleep(seconds: float) -> None:
    """Sleep somewhere below, with another thread elsewhere."""
    threading.Thread(target=wait_aside, args=(seconds,), daemon=True, name="aside").start()
    sleep_below(seconds)


def sleep_below(seconds: float) -> None:
    """Be found here."""
    time.sleep(seconds)


def wait_aside(seconds: float) -> None:
    """Be found here as well."""
    time.sleep(seconds)


@app.task
def hold_interpreter(count: int) -> int:
    """Run C code that lets no other thread run and heeds no signal."""
    return sum(itertools.repeat(1, count))


@app.task
async def await_below(seconds: float) -> None:
    """Wait in a task of a task."""
    await asyncio.gather(pause_below(seconds), pause_below(seconds))


async def pause_below(seconds: float) -> None:
    """Be found here."""
    await asyncio.sleep(seconds)


@app.task
async def block(seconds: float) -> None:
    """Keep the loop from turning, here."""
    time.sleep(seconds)  # noqa: ASYNC251


@app.task
async def await_file(path: str) -> None:
    """Wait until somebody makes a file."""
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)


# --- wear -------------------------------------------------------------------------------------------------
@app.task
def leak(kilobytes: int) -> int:
    """Keep memory for ever; say in which process."""
    leaked.append(os.urandom(1024) * kilobytes)
    return os.getpid()


@app.task
async def aleak(kilobytes: int) -> int:
    """Do the same on a loop."""
    leaked.append(os.urandom(1024) * kilobytes)
    await asyncio.sleep(0)
    return os.getpid()
