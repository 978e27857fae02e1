"""What an answer means: a value, a try that may go better later, or an end."""

from __future__ import annotations

import math
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import msgspec

from fairway.adapters.http_exchange import Answer, BadRedirect, Request
from fairway.adapters.outcome import Outcome, describe
from fairway.addresses import PrivateAddress

#: Beside all from 500 on, what may be gone the next time.
PASSING = frozenset({408, 425, 429})
#: A server may ask for patience; not for more than a day of it.
LONGEST_WAIT = 86_400.0
MOST_TEXT_BYTES = 1024 * 1024 + 2  # with its quotes
MOST_TRACE = 4096
#: What of an answer's head is worth keeping.
SHOWN_HEADERS = (
    "content-type", "content-length", "date", "etag", "last-modified", "location", "retry-after", "server",
    "x-request-id", "x-correlation-id", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
)  # fmt: skip


def judge_answer(request: Request, answer: Answer, now: float) -> Outcome:
    """Judge what a server answered; *now* is seconds since 1970."""
    status, expect = answer.status, request.work.expect
    if status in expect if expect is not None else 200 <= status < 300:
        return "ok", show_answer(answer), 0.0
    error = describe_answer(request, answer)
    if status >= 500 or status in PASSING:
        wait = read_wait(answer.headers.get("retry-after"), now)
        return ("error", error, 0.0) if wait is None else ("retry_after", error, wait)
    return "permanent", error, 0.0


def judge_error(request: Request, error: Exception) -> Outcome:
    """Judge what kept an answer from coming."""
    said = f"{request.shown}: {error or type(error).__name__}"
    if isinstance(error, PrivateAddress):
        hint = "; a worker started with --allow-private would go there"
        return "permanent", describe("PrivateAddress", said + hint), 0.0
    if isinstance(error, BadRedirect):
        return "permanent", describe("BadRedirect", str(error)), 0.0
    if isinstance(error, httpx.HTTPError | OSError | UnicodeError):
        return "error", describe("ConnectionFailed", said), 0.0
    raise error


def read_wait(text: str | None, now: float) -> float | None:
    """Return the seconds that Retry-After asks for, as a number or as a date; None if it does not."""
    if text is None:
        return None
    try:
        seconds = float(text) if text.strip().isdecimal() else read_date(text) - now
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT) if math.isfinite(seconds) else None


def read_date(text: str) -> float:
    """Read the date of a header; one without a zone is meant in UTC."""
    date = parsedate_to_datetime(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def show_answer(answer: Answer) -> dict[str, Any]:
    """Return the value of a job that went well: status, some headers, and the body as JSON or text."""
    value: dict[str, Any] = {"status": answer.status, "headers": shown_headers(answer)}
    if not answer.is_cut and is_json(answer):
        return value | {"json": msgspec.Raw(answer.body.strip())}
    text, is_cut = text_of(answer), answer.is_cut
    while len(msgspec.json.encode(text)) > MOST_TEXT_BYTES:  # control characters take six bytes each
        text, is_cut = text[: len(text) * 9 // 10], True
    return value | {"body": text} | ({"truncated": True} if is_cut else {})


def is_json(answer: Answer) -> bool:
    """Say whether the body is what its type says it is: JSON."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        return False
    try:
        msgspec.json.decode(answer.body)
    except (ValueError, RecursionError):
        return False
    return True


def text_of(answer: Answer) -> str:
    """Read the body as text, in the encoding it names."""
    charset = httpx.Response(200, headers={"content-type": answer.headers.get("content-type", "")})
    try:
        return answer.body.decode(charset.charset_encoding or "utf-8", errors="replace")
    except LookupError:
        return answer.body.decode(errors="replace")


def shown_headers(answer: Answer) -> dict[str, str]:
    """Return the headers that are kept; cookies and the like are not."""
    return {name: answer.headers[name][:1000] for name in SHOWN_HEADERS if name in answer.headers}


def describe_answer(request: Request, answer: Answer) -> dict[str, Any]:
    """Return the error of an answer that is none we wanted."""
    said = f"{request.shown} answered {answer.status} {answer.phrase}".rstrip()
    if 300 <= answer.status < 400 and not request.work.follow:
        said += "; redirects are followed with follow: true"
    error = describe("HttpStatus", said, text_of(answer)[:MOST_TRACE])
    return error | {"status": answer.status, "headers": shown_headers(answer)}
