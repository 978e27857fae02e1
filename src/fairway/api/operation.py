"""The typed route table: one row says how a call is reached, read, answered and documented.

A row's types do three things: they decode the query and the body, they name the field that does not fit,
and they become the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from fairway.api.answers import Answer, Receive, Scope, Send, Stream, send_answer
from fairway.api.body import MOST_BYTES, read_body, refuse_body
from fairway.api.problems import Turned
from fairway.api.relaying import must_pass_on, question_of
from fairway.api.streams import Streams
from fairway.desk import Desk, Question
from fairway.errors import InvalidRequest
from fairway.ids import IdMaker
from fairway.strict import convert, strict_json


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """No query parameter is known here."""


@dataclass(slots=True)
class Call:
    """One request, read and checked. `json` is the body before it got its type."""

    desk: Desk
    ids: IdMaker
    headers: dict[bytes, bytes]
    path: dict[str, str]
    query: Any
    json: Any = None
    body: Any = None
    question: Question | None = None  # the same call for the leader's node, if another one leads


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of the API."""

    method: str
    path: str
    act: Callable[[Call], Awaitable[Answer | Stream]]
    summary: str
    answer: Any = None  # the type of the JSON that comes back
    status: int = 200
    others: tuple[int, ...] = ()  # further statuses of success
    other_answer: Any = None  # what comes back with those, if it is something else
    errors: tuple[int, ...] = ()  # refusals of its own, beside those every call has
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    most_bytes: int = MOST_BYTES
    media: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()  # request headers it reads, with what they mean
    leader: bool = False  # only the leader can: elsewhere it is passed on


class Endpoint:
    """Everything that can be done at one path."""

    def __init__(self, operations: list[Operation], desk: Desk, ids: IdMaker, streams: Streams) -> None:
        self.operations = {operation.method: operation for operation in operations}
        self.path = operations[0].path
        self._desk, self._ids, self._streams = desk, ids, streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["fairway.route"] = self.path
        operation = self.operations.get(scope["method"])
        if operation is None:
            allowed = ", ".join(sorted(self.operations))
            raise Turned(405, "method_not_allowed", f"only {allowed} can be done here", allow=allowed)
        answer = await self._act(operation, await self._read(operation, scope, receive))
        if isinstance(answer, Answer):
            await send_answer(send, answer)
        else:
            await self._streams.serve(answer, receive, send)

    async def _act(self, operation: Operation, call: Call) -> Answer | Stream:
        if operation.leader:
            passed = await must_pass_on(self._desk, call.question)
            if passed is not None:
                return passed
        return await operation.act(call)

    async def _read(self, operation: Operation, scope: Scope, receive: Receive) -> Call:
        headers = dict(scope["headers"])
        query = read_query(scope["query_string"], operation.query)
        call = Call(self._desk, self._ids, headers, scope["path_params"], query)
        body = None
        if operation.body is None:
            await refuse_body(headers, receive)
        else:
            body = await read_body(headers, receive, operation.most_bytes)
            call.json = strict_json(body)
            call.body = convert(call.json, operation.body)
        call.question = question_of(scope, headers, body, self._desk)
        return call


def read_query(text: bytes, type: type[msgspec.Struct]) -> msgspec.Struct:
    """Read the query of a URL; unknown and doubled parameters are refused by name."""
    if not text:
        return type()
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise InvalidRequest("the query of the URL cannot be read", code="bad_query_string") from None
    known = type.__struct_fields__
    for name, _ in pairs:
        if name not in known:
            names = ", ".join(known) or "none"
            raise InvalidRequest(
                f"unknown query parameter {name[:60]!a}; known here: {names}", field=name[:60]
            )
    values = dict(pairs)
    if len(values) != len(pairs):
        raise InvalidRequest("a query parameter stands twice in the URL")
    return convert(values, type, strict=False)
