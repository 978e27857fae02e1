"""Frames of the worker protocol: decoded strictly, and checked before the node sees them.

A worker may be written by anybody in any language. What passes here has the right types, numbers that a
database can hold, names within their grammars, and bodies that are JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fairway.errors import CallerError, InvalidRequest
from fairway.misfits import misfit
from fairway.names import check_globs, check_task, check_text, check_worker
from fairway.notes import MOST_TEXT, check_checkpoint
from fairway.strict import compact_json
from fairway.times import LATEST, LONGEST_SECONDS
from fairway.wire.messages import (
    PROTOCOL,
    Beat,
    FromWorker,
    HandBack,
    Hello,
    Logs,
    Note,
    Notes,
    Results,
    ToWorker,
)

MOST_JOB = 2**63 - 1
MOST_ATTEMPT = 2**31 - 1
MOST_SLOTS = 10_000
MOST_ASYNC = 1_000_000
MOST_TASKS = 10_000
MOST_NAMES = 200
MOST_FACTS = 64 * 1024
KINDS = frozenset({"ok", "error", "permanent", "retry_after", "timeout", "cancelled", "crashed", "stopped"})

STREAMS = frozenset({"stdout", "stderr", "notice"})


class BadFrame(CallerError):
    """A frame that is not of the protocol."""

    code = "bad_frame"


def read_frame(frame: bytes | str, drop: Callable[[CallerError], None] = lambda error: None) -> FromWorker:
    """Decode and check a frame: msgpack if binary, JSON if text. *drop* hears of notes that were left out.

    What an attempt says of itself is its code's word, and a worker says it again after every hello: were
    the frame refused for it, one job could keep a worker off for as long as it runs.
    """
    try:
        message: FromWorker = _from_text(frame) if isinstance(frame, str) else _from_binary(frame)
        if isinstance(message, Notes):
            return Notes([note for note in message.notes if _is_good(note, drop)])
        check_message(message)
    except msgspec.ValidationError as error:
        raise BadFrame(str(misfit(error).detail)) from None
    except InvalidRequest as error:
        raise BadFrame(error.detail, field=error.field) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadFrame(f"the frame cannot be read: {str(error)[:200]}") from None
    return message


def encoder_for(frame: bytes | str) -> Callable[[ToWorker], bytes | str]:
    """Answer a worker the way it spoke."""
    if isinstance(frame, str):
        return lambda message: _to_text(message).decode()
    return _to_binary


def check_message(message: FromWorker) -> None:
    """Refuse what no honest worker sends."""
    check = _checks.get(type(message))
    if check is not None:
        check(message)


def check_protocol(hello: Hello) -> None:
    """Refuse a worker that speaks another version."""
    if hello.protocol != PROTOCOL:
        raise BadFrame(
            f"this node speaks protocol {PROTOCOL}, the worker {hello.protocol}; update the older of them",
            code="protocol_version",
        )


def _check_hello(hello: Hello) -> None:
    check_protocol(hello)
    check_worker(hello.name)
    check_text(hello.incarnation, "incarnation", 64)
    if hello.predecessor is not None:
        check_text(hello.predecessor, "predecessor", 64)
    _check_range(hello.slots, 1, MOST_SLOTS, "slots")
    _check_range(hello.async_per_slot, 1, MOST_ASYNC, "async_per_slot")
    _check_range(hello.pid, 0, MOST_JOB, "pid")
    _check_count(hello.adapters, MOST_NAMES, "adapters")
    _check_count(hello.tasks, MOST_TASKS, "tasks")
    for adapter in hello.adapters:
        check_text(adapter, "adapters", 64)
    for task in hello.tasks:
        check_task(task.name, "tasks")
        if task.adapter:
            check_text(task.adapter, "tasks", 64)
    check_globs(hello.tags, "tags", MOST_NAMES)
    check_globs(hello.queues, "queues", MOST_NAMES)
    _check_facts(hello.facts)
    _check_attempts(hello.holds)
    _check_results(hello.results)


def _check_beat(beat: Beat) -> None:
    _check_attempts(beat.holds)
    _check_facts(beat.facts)
    _check_range(beat.number, 0, MOST_JOB, "number")


def _check_attempts(attempts: Iterable[tuple[Any, ...]]) -> None:
    for attempt in attempts:
        _check_attempt(attempt[0], attempt[1])


def _check_attempt(job: int, attempt: int) -> None:
    if not (0 <= job <= MOST_JOB and 1 <= attempt <= MOST_ATTEMPT):
        raise BadFrame("a job or attempt number is out of range")


def _check_results(results: Iterable[Any]) -> None:
    for result in results:
        _check_attempt(result.job, result.attempt)
        if result.kind not in KINDS:
            raise BadFrame(f"there is no kind of result {result.kind[:40]!a}")
        if not (0 <= result.seconds < math.inf and 0 <= result.retry_after <= LONGEST_SECONDS):
            raise BadFrame("seconds and retry_after must be finite and not negative")
        if result.body != b"null":
            _check_json(result.body)


def _check_json(body: bytes) -> None:
    """It will be passed on as it is, so it must be whole."""
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise BadFrame("the body of a result is not JSON") from None


def _check_logs(logs: Logs) -> None:
    for piece in logs.pieces:
        _check_attempt(piece.job, piece.attempt)
        _check_range(piece.number, 0, MOST_JOB, "number")
        _check_range(piece.at, 0, LATEST, "at")
        if piece.stream not in STREAMS:
            raise BadFrame("the stream of a log piece is stdout, stderr or notice")


def _is_good(note: Note, drop: Callable[[CallerError], None]) -> bool:
    try:
        _check_note(note)
    except CallerError as error:
        drop(error)
        return False
    return True


def _check_note(note: Note) -> None:
    _check_attempt(note.job, note.attempt)
    if note.progress is not None and not 0 <= note.progress <= 1:
        raise BadFrame("progress must be between 0 and 1", field="progress")
    if len(note.text) > MOST_TEXT:
        raise BadFrame(f"the text of a note has more than {MOST_TEXT} characters", field="text")
    if note.cpu_seconds is not None and not 0 <= note.cpu_seconds < math.inf:
        raise BadFrame("cpu_seconds must be finite and not negative", field="cpu_seconds")
    if note.memory_bytes is not None:
        _check_range(note.memory_bytes, 0, MOST_JOB, "memory_bytes")
    if note.checkpoint is not None:
        check_checkpoint(note.checkpoint)


def _check_facts(facts: dict[str, Any]) -> None:
    if facts and len(compact_json(facts, "facts")) > MOST_FACTS:
        raise BadFrame(f"facts are larger than {MOST_FACTS} bytes")


def _check_range(number: int, least: int, most: int, field: str) -> None:
    if not least <= number <= most:
        raise BadFrame(f"{field} must be between {least} and {most}", field=field)


def _check_count(items: list[Any], most: int, field: str) -> None:
    if len(items) > most:
        raise BadFrame(f"{field} has more than {most} entries", field=field)


def _check_results_frame(frame: Results) -> None:
    _check_results(frame.results)


def _check_hand_back(frame: HandBack) -> None:
    _check_attempts(frame.attempts)


_checks: dict[type, Callable[[Any], None]] = {
    Hello: _check_hello,
    Beat: _check_beat,
    Results: _check_results_frame,
    HandBack: _check_hand_back,
    Logs: _check_logs,
}
_from_binary = msgspec.msgpack.Decoder(FromWorker).decode
_from_text = msgspec.json.Decoder(FromWorker).decode
_to_binary = msgspec.msgpack.Encoder().encode
_to_text = msgspec.json.Encoder().encode
