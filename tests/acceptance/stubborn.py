"""Code that does not want to end, for tests that end it. Everything it starts carries a token in its argv."""

from __future__ import annotations

import asyncio
import ctypes
import subprocess
import time
from pathlib import Path

import fairway
from tests.witness import say

app = fairway.App()

#: Daemons: in the group, in a session of their own, with `nohup`, forked twice with a clean environment.
DAEMONS = """
sleep 1000{token} &
nohup setsid sleep 1000{token} >/dev/null 2>&1 &
setsid sh -c 'trap "" TERM HUP; while :; do sleep 1000{token}; done' &
env -i setsid sh -c '(trap "" TERM HUP; while :; do sleep 1000{token}; done) & exit 0'
"""


@app.task
def spin(token: str) -> None:
    """Use the processor for ever."""
    say("start")
    while True:
        pass


@app.task
def sleep_for_ever(token: str) -> None:
    say("start")
    time.sleep(1e9)


@app.task
def hold_the_gil(token: str) -> None:
    """Block in C, with the interpreter's lock: no other thread of this process runs, and no handler."""
    say("start")
    while True:
        ctypes.PyDLL(None).usleep(900_000_000)


@app.task
def block_in_c(token: str) -> None:
    """Block in C without the lock, deaf to signals: the call goes on when one has come."""
    say("start")
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(256)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


@app.task
def swallow(token: str) -> None:
    """Take every exception for a mistake."""
    say("start")
    while True:
        try:
            time.sleep(1e9)
        except BaseException:
            continue


@app.task
def start_daemons(token: str) -> None:
    """Start a tree of processes and wait for none of them."""
    subprocess.run(["sh", "-c", DAEMONS.format(token=token)], check=True)
    say("start")
    time.sleep(1e9)


@app.task
async def nap(go_on: str) -> int:
    """Neighbour of the others, on a loop: until it is let go."""
    say("start")
    while not Path(go_on).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)
    return fairway.current().attempt


@app.task
def work(go_on: str) -> int:
    """Neighbour of the others, in a process: until it is let go."""
    say("start")
    while not Path(go_on).exists():
        time.sleep(0.02)
    return fairway.current().attempt
