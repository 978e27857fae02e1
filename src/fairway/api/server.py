"""The server: uvicorn inside our own loop, without its signals, its logs and its clock.

Its main loop is not run: it wakes ten times a second for nothing but a Date header.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Protocol

import uvicorn

from fairway.api.answers import Receive, Scope, Send
from fairway.api.protocol import BoundedProtocol
from fairway.errors import FairwayError
from fairway.wire.messages import MOST_BYTES

KEEP_ALIVE_SECONDS = 75
BACKLOG = 1024


class CannotListen(FairwayError):
    """The address cannot be listened on."""


class Application(Protocol):
    """An ASGI application that can end its streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def close_streams(self) -> None: ...


class Server:
    """Serves one application on one address."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._uvicorn = uvicorn.Server(_config(app))
        self._socket: socket.socket | None = None

    async def start(self, listen: str) -> tuple[str, int]:
        """Listen on `host:port` (port 0: any) and return the address."""
        self._socket = bind(listen)
        self._uvicorn.config.load()
        self._uvicorn.lifespan = self._uvicorn.config.lifespan_class(self._uvicorn.config)
        await self._uvicorn.startup(sockets=[self._socket])
        host, port = self._socket.getsockname()[:2]
        return host, port

    async def stop(self, grace: float = 5.0) -> None:
        """Stop listening, end the streams, give calls under way the grace, then cut them off."""
        if self._socket is None:
            return
        self._app.close_streams()
        self._uvicorn.config.timeout_graceful_shutdown = grace  # type: ignore[assignment]
        await self._uvicorn.shutdown(sockets=[self._socket])
        for connection in list(self._uvicorn.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        self._socket = None


def bind(listen: str) -> socket.socket:
    """Open the listening socket, or say in one line why not."""
    host, port = split_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise CannotListen(f"cannot listen on {listen}: {reason}; choose another with --listen") from None
    return listening


def split_address(listen: str) -> tuple[str, int]:
    """Take `host:port` or `[v6]:port` apart."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise CannotListen(f"{listen!r} is not an address; write host:port, such as 127.0.0.1:8899")
    return host.strip("[]") or "127.0.0.1", int(port)


def _config(app: Application) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="websockets-sansio",
        ws_max_size=MOST_BYTES,
        ws_per_message_deflate=False,  # a few compressed bytes must not become gigabytes
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=BACKLOG,
    )
    # Errors are answered and logged by the guard; uvicorn's lines would show tokens in URLs.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    return config
