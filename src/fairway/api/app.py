"""The API of one node, put together: the table of calls, the worker socket, the guard before them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute

from fairway.api import (
    cluster,
    demand,
    events,
    failures,
    health,
    job_actions,
    job_moves,
    jobs,
    logs,
    queue_changes,
    queues,
    schedules,
    stacks,
    submit,
    worker_socket,
    workers,
)
from fairway.api.answers import Answer, Receive, Scope, Send
from fairway.api.guard import Guard
from fairway.api.openapi import document
from fairway.api.operation import Call, Endpoint, Operation
from fairway.api.problems import Turned
from fairway.api.streams import Streams
from fairway.api.tally import Tally
from fairway.desk import Desk
from fairway.ids import IdMaker

DOCUMENT_PATH = "/v1/openapi.json"


def build_api(
    desk: Desk,
    *,
    token: str | None = None,
    hosts: Collection[str] = (),
    ids: IdMaker | None = None,
    prefix: str = "",
) -> Api:
    """Return the API of a node. *hosts* are the names it answers to beside the loopback ones; `*` is any.

    *prefix* is where it is reached, such as `/night`, if it shares its listener with others.
    """
    return Api(desk, token, hosts, ids or IdMaker(), prefix)


class Api:
    """An ASGI application; owns the open streams and the counts of requests."""

    def __init__(
        self, desk: Desk, token: str | None, hosts: Collection[str], ids: IdMaker, prefix: str
    ) -> None:
        self.desk = desk
        self.tally = Tally()
        self.streams = Streams()
        routes = [
            *_routes(operations(self.tally, prefix), desk, ids, self.streams),
            Route(worker_socket.PATH, _NeedsUpgrade()),
            WebSocketRoute(worker_socket.PATH, worker_socket.WorkerSocket(desk, self.tally)),
        ]
        router = Router(routes, redirect_slashes=False, default=_not_found)
        self._app = Guard(router.app, self.tally, token, hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def close_streams(self) -> None:
        """End all streams, so that the server can stop."""
        self.streams.close()


def operations(tally: Tally, prefix: str = "") -> list[Operation]:
    """Return the whole table, the document's own calls included."""
    table = [
        *submit.OPERATIONS,
        *job_actions.OPERATIONS,
        *jobs.OPERATIONS,
        *job_moves.OPERATIONS,
        *logs.OPERATIONS,
        *stacks.OPERATIONS,
        *failures.OPERATIONS,
        *queue_changes.OPERATIONS,
        *queues.OPERATIONS,
        *workers.OPERATIONS,
        *schedules.OPERATIONS,
        *demand.OPERATIONS,
        *events.OPERATIONS,
        *cluster.OPERATIONS,
        *health.operations(tally, prefix),
    ]
    table += _document_operations(table, prefix)
    return table


def _document_operations(table: list[Operation], prefix: str) -> list[Operation]:
    drawn: list[bytes] = []  # when first asked for: it costs a node's start several milliseconds

    async def show_document(call: Call) -> Answer:
        if not drawn:
            drawn.append(msgspec.json.encode(document(table, prefix)))
        return Answer(200, drawn[0])

    async def redirect(call: Call) -> Answer:
        return Answer(308, b"", headers=((b"location", DOCUMENT_PATH.encode()),))

    return [
        Operation("GET", DOCUMENT_PATH, show_document, "This document", answer=dict[str, Any]),
        Operation("GET", "/openapi.json", redirect, "Where the document is", status=308),
    ]


def _routes(table: Iterable[Operation], desk: Desk, ids: IdMaker, streams: Streams) -> list[BaseRoute]:
    """Make one route for each path, in the order of the table."""
    by_path: dict[str, list[Operation]] = {}
    for operation in table:
        by_path.setdefault(operation.path, []).append(operation)
    return [_route(path, Endpoint(group, desk, ids, streams)) for path, group in by_path.items()]


def _route(path: str, endpoint: Endpoint) -> Route:
    """Make a route whose `{path:path}` takes a newline, too: it is a wrong name there, not another place."""
    route = Route(path, endpoint)
    route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)
    return route


class _NeedsUpgrade:
    """What an ordinary call to the worker socket finds."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise Turned(426, "websocket_only", "connect here with a WebSocket", upgrade="websocket")


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise Turned(404, "not_found", "there is nothing at this path; see /v1/openapi.json")
