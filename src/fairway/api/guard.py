"""The guard: stands before every call, and turns every error into problem+json.

A browser on this machine can be made to call us by any page it shows. So a call must name us as its host
(else a foreign name was pointed at our address) and, if a page sent it, that page must be ours. A token in
a URL is refused, since URLs end in logs and histories; it is not logged here either.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection
from functools import lru_cache
from urllib.parse import parse_qsl

from fairway.api.answers import Answer, Message, Receive, Scope, Send, send_answer
from fairway.api.body import Gone
from fairway.api.problems import Turned, answer_for, problem
from fairway.api.tally import Tally
from fairway.errors import CallerError, WorldError

log = logging.getLogger("fairway.api")

App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
#: Probes reach these by whatever address they know, and learn nothing from them.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
TOKEN_NAMES = frozenset({"token", "access_token", "bearer_token", "api_key"})


class Guard:
    """Checks host, origin and token; answers errors; counts requests by route and status."""

    def __init__(self, app: App, tally: Tally, token: str | None, hosts: Collection[str]) -> None:
        self._app, self._tally = app, tally
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(host.lower() for host in (*LOOPBACK, *hosts))
        self._is_our_host = lru_cache(maxsize=256)(self._check_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve_http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._serve_websocket(scope, receive, send)

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 0

        async def counted(message: Message) -> None:
            nonlocal status
            if not status:
                status = message["status"]
            await send(message)

        try:
            if scope["path"] not in OPEN_PATHS:
                self._check(scope)
            await self._app(scope, receive, counted)
        except Gone:
            status = status or 499
        except Exception as error:
            answer = _answer(error, scope)
            if not status:
                await send_answer(counted, answer)
        finally:
            self._tally.count(scope["method"], scope.get("fairway.route"), status)

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 101
        try:
            self._check(scope)
            await self._app(scope, receive, send)
        except Turned as turned:  # only before the handshake; afterwards the endpoint answers by itself
            status = turned.status
            await _send_handshake_answer(send, turned.answer())
        finally:
            self._tally.count("WEBSOCKET", scope.get("fairway.route"), status)

    def _check(self, scope: Scope) -> None:
        """Turn away what must not come in."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"")
        if not self._is_our_host(host):
            raise Turned(421, "bad_host", "this server does not answer to that Host")
        origin = headers.get(b"origin")
        if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
            raise Turned(403, "bad_origin", "calls from pages of another origin are refused")
        if b"=" in scope["query_string"]:
            _check_query(scope)
        if self._token is not None:
            self._check_token(headers.get(b"authorization"))

    def _check_host(self, host: bytes) -> bool:
        name = host.decode("latin-1").lower()
        if not name.endswith("]"):
            before, colon, port = name.rpartition(":")
            name = before if colon and port.isdigit() else name
        return "*" in self._hosts or name in self._hosts

    def _check_token(self, authorization: bytes | None) -> None:
        if authorization is None:
            raise Turned(
                401, "token_required", "send a token: Authorization: Bearer ...", www_authenticate="Bearer"
            )
        scheme, _, token = authorization.partition(b" ")
        assert self._token is not None
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            wrong = 'Bearer error="invalid_token"'
            raise Turned(401, "token_invalid", "the token is not valid", www_authenticate=wrong)


def _check_query(scope: Scope) -> None:
    """Refuse a token in the URL, and forget it."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if any(name.lower() in TOKEN_NAMES for name, _ in pairs):
        scope["query_string"] = b""
        raise Turned(400, "token_in_url", "send the token in the Authorization header, never in the URL")


def _answer(error: Exception, scope: Scope) -> Answer:
    """Say what happened: the caller's and the world's faults as they are, ours by an id only."""
    if isinstance(error, Turned):
        return error.answer()
    if isinstance(error, CallerError | WorldError):
        return answer_for(error)
    error_id = secrets.token_hex(6)
    log.error("internal error %s at %s %s", error_id, scope["method"], scope["path"], exc_info=error)
    return problem(500, "internal", f"this is our fault; it was logged under the id {error_id}", id=error_id)


async def _send_handshake_answer(send: Send, answer: Answer) -> None:
    """Answer a handshake with an ordinary response instead of a connection."""
    headers = [(b"content-type", answer.media), *answer.headers]
    await send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})
