"""What came of an attempt in a warm child: its line, or the end of its process, as a result."""

from __future__ import annotations

from fairway.adapters.python.judge import MOST_VALUE_BYTES, bound_wait, describe
from fairway.adapters.warm.lines import Ending, Failure
from fairway.adapters.warm.turn import Turn
from fairway.errors import InvalidRequest
from fairway.strict import compact_json

Outcome = tuple[str, bytes, float]


def judge(ending: Ending, task: str) -> Outcome:
    """Judge what a child said of an attempt."""
    return _judge_value(ending.value, task) if ending.ok else _judge_failure(ending.error or Failure())


def _judge_value(value: object, task: str) -> Outcome:
    try:
        body = compact_json(value, "the value")
    except InvalidRequest as error:
        return "permanent", describe("ResultNotEncodable", f"{task}: {error}"), 0.0
    if len(body) > MOST_VALUE_BYTES:
        message = f"{task} returned {len(body)} bytes; the most is {MOST_VALUE_BYTES}"
        return "permanent", describe("ResultTooLarge", message), 0.0
    return "ok", body, 0.0


def _judge_failure(error: Failure) -> Outcome:
    body = describe(error.type[:200], error.message, error.traceback)
    if error.permanent:
        return "permanent", body, 0.0
    if error.retry_after is not None:
        return "retry_after", body, bound_wait(error.retry_after)
    return "error", body, 0.0


def judge_end(turn: Turn, lease_over: bool, stopping: bool, how: str, why: str) -> tuple[str, bytes]:
    """Judge an attempt whose process has ended; *stopping*: to stop one of those that it ran."""
    kind = turn.stopped_as or ("stopped" if lease_over else None)
    if kind == "timeout":
        limit = turn.assignment.timeout or 0
        return kind, describe("TimeLimitReached", f"it was stopped after {limit:g} s; {how}")
    if kind is not None:
        return kind, describe("Stopped", f"it did not end when asked; {how}")
    if stopping:
        return "stopped", describe("Stopped", "its process was ended to stop another attempt in it")
    if why:
        return "crashed", describe("ProtocolBroken", f"its process was killed: {why}", turn.output.tail)
    message = f"its process ended while running it: {how}"
    return "crashed", describe("ChildCrashed", message, turn.output.tail)
