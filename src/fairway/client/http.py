"""How clients and the command line speak with a node over HTTP: JSON in, JSON or an error of ours out.

One `Transport` per node address, shared by all threads and event loops of a process; it opens nothing
before the first call. A call that may be repeated (it reads, replaces, deletes, or carries an
Idempotency-Key) is repeated on a broken connection, 429 and 503 within its timeout: up to `tries` times, or,
if that is more than once, as often as it takes where the node was there before and so will come back. Any
other is sent once, as nobody can know whether the first one was done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from fairway.client import problems
from fairway.client.async_http import AsyncConnections
from fairway.client.connections import Connections
from fairway.client.exchange import Answer
from fairway.client.repeats import PATIENT_TRIES, Patience, Repeat, Request
from fairway.client.sse import Decoder, SentEvent
from fairway.errors import InvalidRequest, WorldError
from fairway.names import check_token
from fairway.places import node_address

#: A stream is broken when nothing came for this long; a node writes at least every 15 s.
SILENCE_SECONDS = 60.0

NO_TEXT = "what was given has a lone surrogate, which is not text"

Params = Mapping[str, Any] | None


class Transport:
    """Calls one node. `tries` bounds how often one is asked that has never answered; `user` is who calls."""

    def __init__(
        self, url: str, token: str | None = None, *, tries: int = 1, user: str | None = None
    ) -> None:
        self.url = url.rstrip("/")
        parts = node_address(url)
        self.tries = tries
        self._prefix = parts.path + "/v1"
        self._headers = {"accept": "application/json"}
        if check_token(token):
            self._headers["authorization"] = f"Bearer {token}"
        if user:
            self._headers["fairway-user"] = user.encode("ascii", "replace").decode()
        self._connections = Connections(parts)
        self._async = AsyncConnections(parts)
        self._met = False  # the node, by now

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Any:
        """Call `/v1` + *path* and return the decoded answer; raises CallerError or WorldError.

        *body* is encoded as JSON; bytes are taken to be JSON already. *timeout* is for the whole call.
        """
        return self.ask(method, path, params=params, body=body, headers=headers, timeout=timeout)[1]

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> tuple[int, Any]:
        """Do the same, for those to whom the status says more than that it went well."""
        request = self._request(method, path, params, body, headers)
        repeat = Repeat(request, timeout)
        while True:
            try:
                answer = self._send(request, repeat.left())
                return answer.status, _decode(answer)
            except WorldError as error:
                time.sleep(repeat.pause_after(error, self._tries()))

    async def acall(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Any:
        """Do the same without blocking the event loop."""
        request = self._request(method, path, params, body, headers)
        repeat = Repeat(request, timeout)
        while True:
            try:
                return _decode(await self._asend(request, repeat.left()))
            except WorldError as error:
                await asyncio.sleep(repeat.pause_after(error, self._tries()))

    def stream(self, path: str, params: Params = None, *, last_id: str = "") -> Iterator[SentEvent]:
        """Yield server-sent events of one connection until the node ends it."""
        request = self._stream_request(path, params, last_id)
        decoder = Decoder(last_id)
        try:
            for piece in self._connections.stream(request.target, request.headers, SILENCE_SECONDS):
                self._met = True
                yield from decoder.feed(piece)
        except (OSError, ValueError) as cause:
            raise problems.unreachable(self.url, cause) from cause

    async def astream(
        self, path: str, params: Params = None, *, last_id: str = ""
    ) -> AsyncIterator[SentEvent]:
        """Do the same without blocking the event loop."""
        request = self._stream_request(path, params, last_id)
        decoder = Decoder(last_id)
        try:
            async for piece in self._async.stream(request.target, request.headers, SILENCE_SECONDS):
                self._met = True
                for event in decoder.feed(piece):
                    yield event
        except (OSError, ValueError) as cause:
            raise problems.unreachable(self.url, cause) from cause

    def follow(self, path: str, params: Params = None, *, last_id: str = "") -> Iterator[SentEvent]:
        """Yield events for ever, resuming behind the last one when the connection breaks."""
        patience = Patience(self.tries)
        while True:
            try:
                for event in self.stream(path, params, last_id=last_id):
                    last_id = event.id
                    patience.renew()
                    yield event
            except WorldError as error:
                patience.lose(error, self._met)
            time.sleep(patience.pause())

    async def afollow(
        self, path: str, params: Params = None, *, last_id: str = ""
    ) -> AsyncIterator[SentEvent]:
        """Do the same without blocking the event loop."""
        patience = Patience(self.tries)
        while True:
            try:
                async for event in self.astream(path, params, last_id=last_id):
                    last_id = event.id
                    patience.renew()
                    yield event
            except WorldError as error:
                patience.lose(error, self._met)
            await asyncio.sleep(patience.pause())

    def close(self) -> None:
        """Close idle connections; the transport can be used again."""
        self._connections.close()
        self._async.close()

    def _request(
        self, method: str, path: str, params: Params, body: Any, headers: Mapping[str, str] | None
    ) -> Request:
        sent = {**self._headers, **(headers or {})}
        content = body if body is None or isinstance(body, bytes) else _encode(body)
        if content is not None:
            sent["content-type"] = "application/json"
        return Request(method, self._target(path, params), content, sent)

    def _stream_request(self, path: str, params: Params, last_id: str) -> Request:
        headers = {**self._headers, "accept": "text/event-stream"}
        if last_id:
            headers["last-event-id"] = last_id
        return Request("GET", self._target(path, params), None, headers)

    def _target(self, path: str, params: Params) -> str:
        given = {name: _show(value) for name, value in (params or {}).items() if value is not None}
        try:
            return f"{self._prefix}{path}" + (f"?{urlencode(given)}" if given else "")
        except UnicodeEncodeError:
            raise InvalidRequest(NO_TEXT) from None

    def _tries(self) -> int:
        return PATIENT_TRIES if self._met and self.tries > 1 else self.tries

    def _send(self, request: Request, timeout: float) -> Answer:
        try:
            answer = self._connections.exchange(
                request.method, request.target, request.body, request.headers, timeout
            )
        except TimeoutError as cause:
            raise problems.timed_out(self.url, timeout) from cause
        except OSError as cause:
            self._met |= isinstance(cause, ConnectionResetError)
            raise problems.unreachable(self.url, cause) from cause
        self._met = True
        return answer

    async def _asend(self, request: Request, timeout: float) -> Answer:
        try:
            answer = await self._async.exchange(
                request.method, request.target, request.body, request.headers, timeout
            )
        except TimeoutError as cause:
            raise problems.timed_out(self.url, timeout) from cause
        except OSError as cause:
            self._met |= isinstance(cause, ConnectionResetError)
            raise problems.unreachable(self.url, cause) from cause
        self._met = True
        return answer


def _encode(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise InvalidRequest(NO_TEXT) from None


def _decode(answer: Answer) -> Any:
    if answer.status >= 400:
        raise problems.error_from(answer.status, answer.headers, answer.body)
    if not answer.body:
        return None
    if "json" in answer.headers.get("content-type", ""):
        return msgspec.json.decode(answer.body)
    return answer.body.decode("utf-8", "replace")


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
