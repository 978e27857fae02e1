"""A client that costs almost nothing, so that what is measured is the server.

Bare HTTP/1.1 over kept-alive connections: one request on each at a time, the same bytes every time, and of
the answer only the status and the length are read. Runs in a process of its own and prints one JSON line.

    python -m bench.lean_client PORT --count 20000 --connections 32 --body '{"task": "nothing"}'
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from typing import Any

import uvloop


class Load:
    """How many requests are still to be sent, and how the answered ones went. Shared by all connections."""

    def __init__(self, count: int, request: bytes) -> None:
        self.left = count
        self.unanswered = count
        self.request = request
        self.statuses: Counter[str] = Counter()
        self.milliseconds: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Connection(asyncio.Protocol):
    """One connection: sends a request, reads its answer, sends the next."""

    transport: asyncio.Transport

    def __init__(self, load: Load) -> None:
        self._load = load
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if found and len(body) >= length_of(head):
            self._buffer = body[length_of(head) :]
            self._answered(head[9:12].decode())

    def connection_lost(self, error: Exception | None) -> None:
        if not self._load.done.done():
            self._load.done.set_exception(error or ConnectionError("the server closed a connection"))

    def _answered(self, status: str) -> None:
        load = self._load
        load.milliseconds.append((time.perf_counter() - self._sent) * 1000)
        load.statuses[status] += 1
        load.unanswered -= 1
        if load.unanswered == 0:
            load.done.set_result(None)
        self._send()

    def _send(self) -> None:
        if self._load.left > 0:
            self._load.left -= 1
            self._sent = time.perf_counter()
            self.transport.write(self._load.request)


def length_of(head: bytes) -> int:
    """Return the Content-Length an answer's head names."""
    lower = head.lower()
    start = lower.index(b"content-length:") + 15
    end = lower.find(b"\r\n", start)
    return int(lower[start : end if end >= 0 else len(lower)])


async def run(port: int, count: int, connections: int, path: str, body: str) -> dict[str, Any]:
    """Send *count* requests over *connections*; return what came of it."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n\r\n"
    )
    load = Load(count, (head + body).encode())
    loop = asyncio.get_running_loop()
    started, cpu = time.perf_counter(), time.process_time()
    made = [
        await loop.create_connection(lambda: Connection(load), "127.0.0.1", port) for _ in range(connections)
    ]
    await asyncio.wait_for(load.done, timeout=300)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    for transport, _ in made:
        transport.abort()
    waits = sorted(load.milliseconds)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "statuses": dict(load.statuses),
        "p50": waits[int(count * 0.50)],
        "p99": waits[int(count * 0.99)],
    }


def main() -> None:
    """Run as a command and print the result as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--path", default="/v1/jobs")
    parser.add_argument("--body", default='{"task": "nothing", "queue": "bench"}')
    arguments = parser.parse_args()
    print(json.dumps(uvloop.run(run(**vars(arguments)))))


if __name__ == "__main__":
    main()
