"""How answers go onto the wire: head and body in one piece, a stream's pieces as they come."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from fairway.api.joined import JoinedTransport
from fairway.node.app import Node
from tests.api.conftest import start_node


class Plain:
    """A transport that keeps what was written, each system call by itself."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert data and not self.closed
        self.calls.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.fixture
def plain() -> Plain:
    return Plain()


def joined(plain: Any) -> JoinedTransport:
    return JoinedTransport(plain, asyncio.get_running_loop())


async def test_a_head_goes_with_the_body_that_follows_at_once(plain: Plain) -> None:
    transport = joined(plain)
    transport.write(b"head")
    assert plain.calls == []
    transport.write(b"body")
    assert plain.calls == [b"headbody"]
    await asyncio.sleep(0)
    assert plain.calls == [b"headbody"]


async def test_a_head_alone_waits_for_one_round_of_the_loop_only(plain: Plain) -> None:
    transport = joined(plain)
    transport.write(b"head")
    await asyncio.sleep(0)
    assert plain.calls == [b"head"]
    transport.write(b"piece")
    await asyncio.sleep(0)
    assert plain.calls == [b"head", b"piece"]


async def test_an_empty_body_makes_no_call_of_its_own(plain: Plain) -> None:
    transport = joined(plain)
    transport.write(b"head")
    transport.write(b"")
    assert plain.calls == [b"head"]


async def test_nothing_is_written_once_the_connection_is_gone(plain: Plain) -> None:
    transport = joined(plain)
    transport.write(b"head")
    plain.closed = True
    await asyncio.sleep(0)
    transport.write(b"head")
    transport.write(b"body")
    await asyncio.sleep(0)
    assert plain.calls == []


async def test_many_writes_keep_their_order(plain: Plain) -> None:
    transport = joined(plain)
    for number in range(7):
        transport.write(b"%d" % number)
        if number == 4:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert b"".join(plain.calls) == b"0123456"


async def test_what_is_held_goes_before_the_end(plain: Plain) -> None:
    transport = joined(plain)
    transport.write(b"last")
    transport.close()
    assert plain.calls == [b"last"] and plain.closed and transport.is_closing()
    await asyncio.sleep(0)
    assert plain.calls == [b"last"]


async def test_an_answer_comes_in_one_piece(node: Node) -> None:
    host, _, port = node.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for _ in range(20):
        writer.write(b"GET /v1/cluster HTTP/1.1\r\nHost: %s:%s\r\n\r\n" % (host.encode(), port.encode()))
        async with asyncio.timeout(10):
            piece = await reader.read(65536)
        head, found, body = piece.partition(b"\r\n\r\n")
        assert found and b"content-length: %d" % len(body) in head and body
    writer.close()


async def ask_twice_and_leave(folder: Path) -> None:
    """Be a client that pipelines two submits and does not wait for the answers; then one that does."""
    node = await start_node(folder)
    host, _, port = node.url.removeprefix("http://").partition(":")
    body = b'{"task": "t"}'
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    call = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for _ in range(5):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(call * 2)
        writer.close()
        await writer.wait_closed()
    async with httpx.AsyncClient(base_url=node.url) as client:
        assert (await client.post("/v1/jobs", json={"task": "t"})).status_code == 201
    await node.stop()


def test_a_client_that_leaves_is_no_error_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uvloop.run(ask_twice_and_leave(tmp_path))  # as nodes run: its transports are stricter than asyncio's
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def test_what_has_no_body_is_answered_and_the_next_call_too(node: Node) -> None:
    host, _, port = node.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    calls = (
        "HEAD /healthz",
        "PUT /v1/queues/a",
        "GET /v1/queues/a",
        "DELETE /v1/queues/a",
        "GET /v1/queues/a",
    )
    statuses = []
    for call in calls:
        body = "{}" if call.startswith("PUT") else ""
        head = f"{call} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        async with asyncio.timeout(10):
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            statuses.append(int(answer.split()[1]))
            length = re.search(r"content-length: (\d+)", answer)
            if length and not call.startswith("HEAD"):
                await reader.readexactly(int(length[1]))
    writer.close()
    assert statuses[1:] == [200, 200, 204, 404]
    assert statuses[0] in (200, 405)
