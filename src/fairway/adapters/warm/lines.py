"""The warm protocol, version 1, as types. docs/reference/warm.md explains it to other languages.

Every line is one JSON object whose only key names the message. Unknown keys are ignored on both sides, so
that either may be newer. Job ids are text: a 63-bit number would not survive JavaScript.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NoReturn

import msgspec

from fairway import ids
from fairway.wire.messages import Assignment

PROTOCOL = 1
#: Of a child's line: a value of 1 MiB, as JSON that may escape every second character of it.
MOST_LINE_BYTES = 2 * 1024 * 1024
MOST_TASKS = 10_000
MOST_CONCURRENCY = 1000


class Rubbish(Exception):
    """A child said what the protocol does not know; the message says what."""


# --- child → worker ----------------------------------------------------------------------------------
class Announced(msgspec.Struct, frozen=True):
    """A task the child can run."""

    name: str
    signature: str = ""


class Ready(msgspec.Struct, frozen=True):
    """The first line: what I can."""

    protocol: int
    tasks: list[Announced]
    version: str = ""
    concurrency: int = 1


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed."""

    type: str = "Error"
    message: str = ""
    traceback: str = ""
    permanent: bool = False
    retry_after: float | None = None


class Ending(msgspec.Struct, frozen=True):
    """How an attempt ended."""

    job: str
    attempt: int
    ok: bool
    value: Any = None
    error: Failure | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far an attempt is."""

    job: str
    attempt: int
    fraction: float
    text: str = ""


class Checkpoint(msgspec.Struct, frozen=True):
    """Where a next attempt may go on."""

    job: str
    attempt: int
    value: Any = None


class Said(msgspec.Struct, frozen=True):
    """Something for the log of an attempt."""

    job: str
    attempt: int
    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


Note = Progress | Checkpoint | Said


class Line(msgspec.Struct, frozen=True):
    """A line of a child's: one of these."""

    ready: Ready | None = None
    result: Ending | None = None
    progress: Progress | None = None
    checkpoint: Checkpoint | None = None
    log: Said | None = None


def read_line(line: bytes) -> Line:
    """Read what a child said; raises Rubbish."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_again(line)
    except RecursionError:
        raise Rubbish("a line is nested too deep") from None


def _read_again(line: bytes) -> Line:
    """Read a line that strict JSON refuses for half a character, as JavaScript writes them in a cut text."""
    try:
        value = json.loads(line.decode(errors="replace"), parse_constant=_refuse)
        return _decode(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise Rubbish(f"{error} in the line {line[:200].decode(errors='replace')!r}") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def check_ready(ready: Ready) -> None:
    """Refuse a child that this worker cannot use; raises Rubbish."""
    if ready.protocol != PROTOCOL:
        raise Rubbish(
            f"it speaks version {ready.protocol} of the warm protocol, this worker speaks {PROTOCOL}:"
            " update the older of them"
        )
    if not 1 <= ready.concurrency <= MOST_CONCURRENCY:
        raise Rubbish(f"its concurrency {ready.concurrency} is not 1 to {MOST_CONCURRENCY}")
    if len(ready.tasks) > MOST_TASKS:
        raise Rubbish(f"it announces {len(ready.tasks)} tasks; at most {MOST_TASKS} are allowed")


# --- worker → child ----------------------------------------------------------------------------------
class Call(msgspec.Struct, frozen=True):
    """What a job's work says beside the task; passed on as it is."""

    args: msgspec.Raw = msgspec.Raw(b"[]")
    kwargs: msgspec.Raw = msgspec.Raw(b"{}")


class Payload(msgspec.Struct, frozen=True):
    """A job's payload."""

    work: Call


class Run(msgspec.Struct, frozen=True):
    """Run this."""

    job: str
    attempt: int
    task: str
    args: msgspec.Raw
    kwargs: msgspec.Raw
    queue: str
    timeout: float | None
    generation: int
    checkpoint: Any
    tries: int


def write_run(name: str, assignment: Assignment) -> bytes:
    """Return the line that begins an attempt; raises msgspec.MsgspecError if its payload is no call."""
    call = _payload(assignment.payload).work
    run = Run(
        name,
        assignment.attempt,
        assignment.task,
        call.args,
        call.kwargs,
        assignment.queue,
        assignment.timeout,
        assignment.generation,
        None if assignment.checkpoint is None else msgspec.json.decode(assignment.checkpoint),
        assignment.tries,
    )
    return _encode({"run": run}) + b"\n"


def write_cancel(name: str, attempt: int, reason: str) -> bytes:
    """Return the line that asks an attempt to end."""
    return _encode({"cancel": {"job": name, "attempt": attempt, "reason": reason}}) + b"\n"


EXIT = b'{"exit":{}}\n'

show, find_job = ids.show, ids.find_id
_decode = msgspec.json.Decoder(Line).decode
_payload = msgspec.json.Decoder(Payload).decode
_encode = msgspec.json.Encoder().encode
