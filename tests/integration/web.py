"""A web server for tests: it answers by path, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

Answer = tuple[int, dict[str, str], bytes]


class Asked(NamedTuple):
    """One request as it came; names of headers in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    """A server on loopback. `/slow` never answers."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)  # a caller of /slow has gone
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return the address of a path."""
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close."""
        task = asyncio.current_task()
        assert task is not None
        self.serving[task] = writer
        try:
            asked = await read_request(reader)
            self.asked.append(asked)
            if asked.path.startswith("/slow"):
                await reader.read()
                self.dropped.set()
            elif asked.path.startswith("/mute"):
                writer.write(b"")
            else:
                status, headers, body = answer(asked)
                headers = {"content-length": str(len(body)), "connection": "close", **headers}
                head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(f"HTTP/1.1 {status} Word\r\n{head}\r\n".encode() + body)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            del self.serving[task]
            writer.close()

    async def hang_up(self) -> None:
        """Drop all callers."""
        for writer in self.serving.values():
            writer.transport.abort()
        if self.serving:
            await asyncio.wait(self.serving, timeout=5)


async def read_request(reader: asyncio.StreamReader) -> Asked:
    """Read one request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split()
    return Asked(method, path, headers, body)


def answer(asked: Asked) -> Answer:
    """Answer `/status/503?retry-after=7`, `/echo`, `/big`, `/bomb` and the like."""
    parts = urlsplit(asked.path)
    kind, _, rest = parts.path.strip("/").partition("/")
    headers = dict(parse_qsl(parts.query))
    if kind == "status":
        return int(rest), headers, b"words of the server"
    if kind == "loop":
        return 302, {"location": "/loop"}, b""
    if kind == "big":
        return 200, {"content-type": "text/plain"}, b"x" * 3_000_000
    if kind == "binary":
        return 200, {"content-type": "application/octet-stream"}, b"\x01" * 1_000_000
    if kind == "bomb":
        return 200, {"content-encoding": "gzip"}, gzip.compress(b"x" * 50_000_000)
    if kind == "zipped":
        return 200, {"content-encoding": "gzip", "content-type": "application/json"}, gzip.compress(b"[1]")
    if kind == "broken":
        return 200, {"content-type": "application/json"}, b"{"
    body = {"method": asked.method, "path": asked.path, "body": asked.body.decode()}
    return 200, {"content-type": "application/json", "set-cookie": "a=b"}, json.dumps(body).encode()


@asynccontextmanager
async def web_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """Run a server as long as the block."""
    web = Web()
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()
        await web.hang_up()
