"""What a node's refusal means here: problem+json becomes an error of errors.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairway.errors import (
    Busy,
    CallerError,
    Conflict,
    FairwayError,
    InvalidRequest,
    NoLeader,
    NotFound,
    Refused,
    StoreUnavailable,
    WorldError,
)

#: Answers that say "not now": the same call may be sent again.
PASSING = frozenset({429, 502, 503, 504})
LONGEST_RETRY_AFTER = 60

_by_status: dict[int, type[CallerError]] = {
    400: InvalidRequest,
    401: Refused,
    403: Refused,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
}
_by_code: dict[str, type[WorldError]] = {
    error.code: error for error in (NoLeader, StoreUnavailable, Busy, WorldError)
}


def error_from(status: int, headers: Mapping[str, str], body: bytes) -> FairwayError:
    """Turn an answer with an error status into the error to raise. Header names are in lower case."""
    problem = _read(body)
    detail = str(problem.get("detail") or problem.get("title") or f"the node answered {status}")
    code, field = problem.get("code"), problem.get("field")
    if status < 500 and status not in PASSING:
        kind = _by_status.get(status, CallerError)
        return kind(detail, code=_text(code), field=_text(field), status=status)
    return _passing(status, _text(code), detail, headers.get("retry-after"))


def unreachable(url: str, cause: Exception) -> WorldError:
    """Return the error for a connection that could not be made, or broke."""
    said = str(cause) or type(cause).__name__
    if isinstance(cause, ConnectionResetError | BrokenPipeError | ValueError):
        error = WorldError(f"the connection to the node at {url} broke: {said}")
    else:
        error = WorldError(f"no node answers at {url}; start one with `fairway up` ({said})")
    error.code, error.retry_after_seconds = "unreachable", 0
    return error


def timed_out(url: str, timeout: float) -> WorldError:
    """Return the error for a node that is there but did not answer in time."""
    error = WorldError(f"the node at {url} did not answer within {timeout:g} s")
    error.code, error.status, error.retry_after_seconds = "timeout", 504, 0
    return error


def _passing(status: int, code: str | None, detail: str, retry_after: str | None) -> WorldError:
    kind = Busy if status == 429 else _by_code.get(code or "", WorldError)
    error = kind(detail)
    error.status, error.code = status, code or kind.code
    error.retry_after_seconds = _seconds(retry_after)
    return error


def _read(body: bytes) -> dict[str, Any]:
    # A proxy in between answers with a page of its own: then the status is all we know.
    try:
        problem = msgspec.json.decode(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _seconds(retry_after: str | None) -> int:
    try:
        return min(max(int(retry_after or 0), 0), LONGEST_RETRY_AFTER)
    except ValueError:
        return 0  # a date: rare, and our own backoff will do


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
