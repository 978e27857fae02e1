"""A client and a worker that know the API from outside only."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection

from fairway.wire.messages import PROTOCOL, FromWorker, Hello, ToWorker

T = TypeVar("T")
SECONDS = 10.0

_read = msgspec.msgpack.Decoder(ToWorker).decode
_read_text = msgspec.json.Decoder(ToWorker).decode


class Api:
    """Calls the API and checks that what comes back is what every answer must be."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def __call__(self, method: str, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        answer = await self.client.request(method, path, json=body, **more)
        assert answer.status_code == status, answer.text
        if status >= 400:
            check_problem(answer)
        return answer.json() if answer.content else None

    async def submit(self, **spec: Any) -> Any:
        if "work" not in spec:
            spec.setdefault("task", "mail.send")
        return await self("POST", "/v1/jobs", spec, 201)


def check_problem(answer: httpx.Response) -> None:
    """An error is problem+json with a code, and shows nothing of our inside."""
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert {"type", "title", "status", "code", "detail"} <= set(said)
    assert said["status"] == answer.status_code
    assert "Traceback" not in answer.text and ".py" not in answer.text


class SocketWorker:
    """A worker on the far end of a WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, message: FromWorker | bytes | str) -> None:
        raw = message if isinstance(message, bytes | str) else msgspec.msgpack.encode(message)
        await self.connection.send(raw)

    async def read(self) -> ToWorker:
        async with asyncio.timeout(SECONDS):
            frame = await self.connection.recv()
        message: ToWorker = _read(frame) if isinstance(frame, bytes) else _read_text(frame)
        return message

    async def read_until(self, kind: type[T]) -> T:
        while True:
            message = await self.read()
            if isinstance(message, kind):
                return message

    async def join(self, name: str = "w1", **more: Any) -> None:
        more.setdefault("slots", 1)
        more.setdefault("adapters", ["python"])
        await self.send(Hello(protocol=PROTOCOL, name=name, incarnation=f"{name}-life", **more))
