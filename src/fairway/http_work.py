"""The work of an HTTP request: method, address, headers, and a body as text or JSON.

Checked as strictly as a request has to be written: whoever could put a line break into a header would write
requests of his own.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fairway.errors import InvalidRequest
from fairway.masking import is_secret_header
from fairway.work_fields import check_known, check_not_masked, check_string, check_timeout, check_whole

HTTP_KEYS = ("adapter", "method", "url", "headers", "json", "body", "timeout", "expect", "follow")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: These are the connection's own.
FORBIDDEN = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
     "keep-alive", "proxy-connection"}
)  # fmt: skip
MOST_HEADERS = 100
MOST_HEADER = 8192
MOST_URL = 8000

_name = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_value = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
_url = re.compile(r"[\x21-\x7e]+", re.ASCII)


def check_http(work: dict[str, Any]) -> None:
    """Refuse a request that could not be sent."""
    check_known(work, HTTP_KEYS)
    _check_method(work.get("method", "GET"))
    check_url(work.get("url"))
    _check_headers(work.get("headers"))
    _check_body(work)
    check_timeout(work.get("timeout"), "work.timeout")
    _check_expect(work.get("expect"))
    if not isinstance(work.get("follow", False), bool):
        raise InvalidRequest("work.follow must be true or false", field="work.follow")


def check_url(url: object, field: str = "work.url") -> SplitResult:
    """Return the parts of an address that a request can go to."""
    if not isinstance(url, str) or not _url.fullmatch(url) or len(url) > MOST_URL:
        raise InvalidRequest(
            f"{field} must be an address such as https://example.org/hook: ASCII without spaces"
            f" (percent-encode the rest), at most {MOST_URL} characters",
            field=field,
        )
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise InvalidRequest(f"{field} is no address: its host or port cannot be read", field=field) from None
    if not is_address:
        raise InvalidRequest(f"{field} must begin with http:// or https:// and name a host", field=field)
    if "@" in parts.netloc:
        raise InvalidRequest(
            f"{field} carries a user or password, which everybody would see; send an Authorization header",
            field=field,
        )
    return parts


def _check_method(method: object) -> None:
    if method not in METHODS:
        raise InvalidRequest(f"work.method must be one of {', '.join(METHODS)}", field="work.method")


def _check_headers(headers: object) -> None:
    if headers is None:
        return
    if not isinstance(headers, dict) or len(headers) > MOST_HEADERS:
        raise InvalidRequest(f"work.headers must be an object of at most {MOST_HEADERS} strings",
                             field="work.headers")  # fmt: skip
    if len({name.lower() for name in headers}) != len(headers):
        raise InvalidRequest("a header stands twice in work.headers", field="work.headers")
    for name, value in headers.items():
        _check_header(name, value)


def _check_header(name: str, value: object) -> None:
    if not _name.fullmatch(name):
        raise InvalidRequest(f"{name[:60]!a} is no name of a header", field="work.headers")
    field = f"work.headers.{name}"
    if name.lower() in FORBIDDEN:
        raise InvalidRequest(f"{field} is the connection's own; leave it out", field=field)
    if not isinstance(value, str) or not _value.fullmatch(value) or len(value) > MOST_HEADER:
        raise InvalidRequest(
            f"{field} must be printable ASCII of at most {MOST_HEADER} characters", field=field
        )
    if is_secret_header(name):
        check_not_masked(value, field)


def _check_body(work: dict[str, Any]) -> None:
    if work.get("body") is None:
        return
    if "json" in work:
        raise InvalidRequest("give work.body (text) or work.json, not both", field="work.body")
    check_string(work["body"], "work.body")


def _check_expect(expect: object) -> None:
    if expect is None:
        return
    if not isinstance(expect, list) or not 1 <= len(expect) <= 100:
        raise InvalidRequest("work.expect must be a list of statuses such as [200, 201]", field="work.expect")
    for status in expect:
        check_whole(status, 200, 599, "work.expect")
