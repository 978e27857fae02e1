"""Tasks that fail in a dozen ways, each with something in its message that changes from job to job."""

from __future__ import annotations

import os
import signal
import uuid
from datetime import UTC, datetime

import fairway

app = fairway.App()


def missing_key(number: int) -> None:
    {}[f"user-{number}"]


def missing_order(number: int) -> None:
    raise LookupError(f"there is no order {number}")


def missing_user(number: int) -> None:
    raise LookupError(f"there is no user {uuid.uuid4()}")


def late(number: int) -> None:
    raise TimeoutError(f"timed out after {number / 7:.3f} s at {datetime.now(UTC).isoformat()}")


def duplicate(number: int) -> None:
    raise ValueError(
        f'violates constraint "users_mail"\nDETAIL:  Key (mail)=(u{number}@example.org) already exists.'
    )


def server_error(number: int) -> None:
    raise RuntimeError(f"HTTP 503 for url https://api.example.org/v1/users/{number}?t={uuid.uuid4().hex}")


def not_found(number: int) -> None:
    raise RuntimeError(f"HTTP 404 for url https://api.example.org/v1/users/{number}?t={uuid.uuid4().hex}")


def no_file(number: int) -> None:
    with open(f"/nowhere/part-{number}/{uuid.uuid4().hex}.csv"):  # noqa: PTH123
        pass


def bad_rows(number: int) -> None:
    raise ValueError(f"bad rows {list(range(number % 5 + 2))} in batch {uuid.uuid4().hex[:8]}")


def refused(number: int) -> None:
    raise ConnectionError(f"connect to 10.0.{number % 256}.{number // 256}:{5000 + number} refused")


def stale(number: int) -> None:
    raise RuntimeError(f"{object()} is stale")


def broken(number: int) -> None:
    deeper(number)


def deeper(number: int) -> None:
    raise RuntimeError(f"{object()} is stale")


WAYS = [
    missing_key, missing_order, missing_user, late, duplicate, server_error, not_found, no_file, bad_rows,
    refused, stale, broken,
]  # fmt: skip


@app.task
def fail(way: int, number: int) -> None:
    """Fail in one of the ways."""
    WAYS[way](number)


@app.task
async def afail(way: int, number: int) -> None:
    """The same in an event loop."""
    WAYS[way](number)


@app.task
def succeed(value: str = "done") -> str:
    """Do what is asked."""
    return value


@app.task
def die(number: int) -> None:
    """End the process by a signal."""
    os.kill(os.getpid(), number)
    signal.pause()


@app.task
def leave(code: int) -> None:
    """End the process by itself."""
    os._exit(code)
