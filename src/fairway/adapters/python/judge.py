"""What came of calling a task: its value or its exception as (kind, body, retry_after)."""

from __future__ import annotations

import math
import traceback
from typing import Any, Protocol

import msgspec

from fairway.errors import PermanentFailure, RetryAfter
from fairway.times import LONGEST_SECONDS

MOST_VALUE_BYTES = 1024 * 1024
MOST_MESSAGE = 10_000
MOST_TRACEBACK = 20_000

Outcome = tuple[str, bytes, float]


class RegisteredTask(Protocol):
    """A task of a user's app, as the child calls it."""

    name: str
    is_async: bool
    signature: str
    function: Any

    def load(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Turn a payload into arguments, by the function's type hints."""

    def dump(self, value: Any) -> bytes:
        """Turn the value it returned into JSON."""


def judge_value(task: RegisteredTask, value: Any) -> Outcome:
    """Judge what a task returned."""
    try:
        body = task.dump(value)
    except Exception as error:
        message = f"{task.name} returned {_with_article(type(value).__name__)}, which is not JSON: {error}"
        return "permanent", describe("ResultNotEncodable", message), 0.0
    if len(body) > MOST_VALUE_BYTES:
        message = f"{task.name} returned {len(body)} bytes; the most is {MOST_VALUE_BYTES}"
        return "permanent", describe("ResultTooLarge", message), 0.0
    return "ok", body, 0.0


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in tuple("aeio") else f"a {noun}"  # a UUID, a user


def judge_call(task: RegisteredTask, error: BaseException) -> Outcome:
    """Judge what came of calling a task, in the frame that called it."""
    if isinstance(error, TypeError) and error.__traceback__ is not None and not error.__traceback__.tb_next:
        # No frame below the call's: Python could not bind the arguments, and none of the task's code has run.
        return judge_arguments(task, error)
    return judge_error(error)


def judge_error(error: BaseException) -> Outcome:
    """Judge what a task raised."""
    body = describe(name_of(type(error)), text_of(error), trace_of(error))
    if isinstance(error, PermanentFailure):
        return "permanent", body, 0.0
    if isinstance(error, RetryAfter):
        return "retry_after", body, bound_wait(error.seconds)
    return "error", body, 0.0


def bound_wait(seconds: Any) -> float:
    """Return a wait that can be kept, whatever a task wrote: never negative, at most ten years."""
    try:
        seconds = float(seconds)
    except (TypeError, ValueError, OverflowError):
        return LONGEST_SECONDS
    return min(max(0.0, seconds), LONGEST_SECONDS) if math.isfinite(seconds) else LONGEST_SECONDS


def judge_arguments(task: RegisteredTask, error: Exception) -> Outcome:
    """Judge a payload that does not fit the task."""
    return "permanent", describe("BadArguments", f"{task.name}{task.signature}: {text_of(error)}"), 0.0


def judge_missing(name: str, apps: list[str]) -> Outcome:
    """Judge a job whose task nobody here knows."""
    return "error", describe("UnknownTask", f"no task {name!r} in {', '.join(apps)}"), 0.0


def describe(type: str, message: str, trace: str = "") -> bytes:
    """Write an error as the body of a result."""
    if len(trace) > MOST_TRACEBACK:
        half = MOST_TRACEBACK // 2
        trace = trace[:half] + "\n... cut ...\n" + trace[-half:]
    body = {"type": type, "message": message[:MOST_MESSAGE], "traceback": trace}
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # lone surrogates in a message
        clean = {key: text.encode(errors="replace").decode() for key, text in body.items()}
        return msgspec.json.encode(clean)


def name_of(kind: type[BaseException]) -> str:
    """Return a class's qualified name; builtins stand without their module."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def text_of(error: BaseException) -> str:
    """Return an exception's message, even if making it fails."""
    try:
        return str(error)
    except Exception as second:
        return f"(its message could not be made: {type(second).__name__})"


def trace_of(error: BaseException) -> str:
    """Return the traceback from the task's own first frame on."""
    # The outermost frame is the child's call of the task: nothing a user could do about it.
    ours = error.__traceback__
    own = ours.tb_next if ours is not None and ours.tb_next is not None else ours
    try:
        return "".join(traceback.format_exception(type(error), error, own, limit=-100))
    except Exception as second:
        return f"(its traceback could not be made: {type(second).__name__})"
