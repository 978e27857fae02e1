"""Waiting for jobs to end, and printing what they write meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from fairway.cli.calling import part
from fairway.cli.describing import ENDED
from fairway.cli.output import clean
from fairway.cli.progress import showing_progress
from fairway.cli.reasons import leaving_alone, telling_why

if TYPE_CHECKING:
    from fairway.client.http import Transport

#: How long one call waits at the node before it asks again.
ONE_WAIT_SECONDS = 20.0


def wait_for(transport: Transport, jobs: Iterable[str], timeout: float | None) -> list[Any]:
    """Return the jobs once all of them ended; raises when *timeout* seconds were not enough."""
    deadline = None if timeout is None else time.monotonic() + timeout
    left, ended = list(jobs), []
    is_one = len(left) == 1
    with leaving_alone(left):
        while left:
            name = "" if is_one else left[0]
            with telling_why(transport, left[0], name=name), showing_progress(transport, left[0]):
                ended.append(wait_for_one(transport, left[0], deadline))
            del left[0]
    return ended


def wait_for_one(transport: Transport, job: str, deadline: float | None = None) -> Any:
    """Return the job once it ended, asking the node again and again."""
    while True:
        left = ONE_WAIT_SECONDS if deadline is None else max(deadline - time.monotonic(), 0.0)
        wait = min(left, ONE_WAIT_SECONDS)
        params = {"wait": f"{wait:.3f}s"}
        found = transport.call("GET", f"/jobs/{part(job)}", params=params, timeout=wait + 15)
        if found["state"] in ENDED:
            return found
        if deadline is not None and time.monotonic() >= deadline:
            raise click.ClickException(f"job {job} is still {found['state']}; wait again, it goes on")


def print_log(transport: Transport, job: str, attempt: int | None = None, raw: bool = False) -> None:
    """Print what a job wrote so far, both streams in their order."""
    text = transport.call("GET", f"/jobs/{part(job)}/log", params={"attempt": attempt})
    write(text or "", "stdout", raw)


def read_lines(transport: Transport, job: str, attempt: int | None = None) -> list[str]:
    """Return the lines a job wrote so far, both streams in their order."""
    text = transport.call("GET", f"/jobs/{part(job)}/log", params={"attempt": attempt}) or ""
    return text.removesuffix("\n").split("\n") if text else []


def follow_log(transport: Transport, job: str, attempt: int | None = None, raw: bool = False) -> None:
    """Print what a job writes until it ended, each stream to its own."""
    params = {"attempt": attempt, "follow": True}
    for event in transport.follow(f"/jobs/{part(job)}/log", params):
        if event.event == "end":
            return
        if event.event == "log":
            piece = event.json()
            write(str(piece["text"]), piece["stream"], raw)


def write(text: str, stream: str, raw: bool) -> None:
    """Write output where it belongs; without *raw* a terminal obeys nothing in it."""
    file = sys.stdout if stream == "stdout" else sys.stderr  # a notice is Fairway's, not the job's
    file.write(text if raw else clean(text, keep="\n\t"))
    file.flush()
