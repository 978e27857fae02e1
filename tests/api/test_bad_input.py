"""Whatever comes in, the answer is quick, has a stable code, and changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fairway.node.app import Node
from fairway.query import Query
from fairway.wire.messages import MOST_BYTES, Beat, Held, Result, Results
from tests.api.bad_requests import BAD, HELLO, RAW, SOCKET, Bad, pack
from tests.api.from_outside import SECONDS, check_problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(lasting_node: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=lasting_node.url, timeout=SECONDS) as client:
        yield client


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_is_stored(lasting_node: Node) -> AsyncIterator[None]:
    """After every test there is no job and no queue, and the node still leads."""
    yield
    assert await lasting_node.store.count(Query(), 2**62) == 0
    assert await lasting_node.desk.queues() == []


@pytest.mark.parametrize("bad", BAD, ids=str)
async def test_a_bad_request_is_refused_by_its_code(client: httpx.AsyncClient, bad: Bad) -> None:
    url = client.base_url.copy_with(raw_path=quote(bad.path, safe="/?&=%:;'*+,.-").encode())
    request = client.build_request(bad.method, url, content=bad.body)
    request.headers.update({name: value.encode() for name, value in bad.headers.items()})  # type: ignore[arg-type]
    answer = await client.send(request)
    check_problem(answer)
    assert 400 <= answer.status_code < 500
    assert answer.json()["code"] == bad.code, answer.text


async def test_there_are_plenty_of_them() -> None:
    assert len(BAD) > 200


# --- below HTTP --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", RAW)
async def test_what_is_hardly_http_is_answered_and_closed(lasting_node: Node, name: str) -> None:
    status, headers, body = await exchange(lasting_node, RAW[name])
    assert 400 <= status < 500
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["code"]


async def exchange(node: Node, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes and read one answer, which must come although the request may never end."""
    host, _, port = node.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(SECONDS):
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.strip().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:])
            return int(lines[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))
    finally:
        writer.close()


# --- the worker socket -------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SOCKET)
async def test_a_worker_that_misbehaves_is_refused_and_closed(lasting_node: Node, name: str) -> None:
    code, frames = SOCKET[name]
    async with connect(socket_url(lasting_node)) as worker, asyncio.timeout(SECONDS):
        for frame in frames:
            await worker.send(frame)
        said: list[Any] = []
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                said.append(await worker.recv())
    last = said[-1]
    decode = msgspec.json.decode if isinstance(last, str) else msgspec.msgpack.decode
    assert decode(last)[:2] == ["refusal", code]
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


async def test_reports_on_attempts_that_are_not_its_own_change_nothing(lasting_node: Node) -> None:
    async with connect(socket_url(lasting_node)) as worker, asyncio.timeout(SECONDS):
        await worker.send(pack(HELLO))
        await worker.send(pack(Results([Result(77, 3, "ok", b'"stolen"', 0.1)])))
        await worker.send(pack(Beat([Held(78, 1)])))
        assert msgspec.msgpack.decode(await worker.recv(decode=False))[0] == "welcome"
        kind, _, done, stale, lost = msgspec.msgpack.decode(await worker.recv(decode=False))
        assert (kind, done) == ("acks", [])
        assert [77, 3] in stale and lost == [[78, 1]]


async def test_a_frame_beyond_the_bound_ends_the_connection(lasting_node: Node) -> None:
    async with connect(socket_url(lasting_node)) as worker, asyncio.timeout(SECONDS):
        await worker.send(pack(HELLO))
        with pytest.raises(ConnectionClosed) as closed:
            await worker.send(b"\x00" * (MOST_BYTES + 1))
            while True:
                await worker.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


async def test_a_frame_without_a_mask_ends_the_connection(lasting_node: Node) -> None:
    host, _, port = lasting_node.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"GET /v1/worker HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with asyncio.timeout(SECONDS):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        writer.write(b"\x82\x02\x90\x00")
        rest = await reader.read()
    assert rest[:1] in (b"\x88", b"")
    writer.close()


@pytest.mark.parametrize(
    ("headers", "path", "status", "code"),
    [
        ({"Host": "evil.example"}, "/v1/worker", 421, "bad_host"),
        ({"Origin": "http://evil.example"}, "/v1/worker", 403, "bad_origin"),
        ({}, "/v1/worker?token=x", 400, "token_in_url"),
        ({}, "/v1/jobs", 404, "not_found"),
        ({}, "/nowhere", 404, "not_found"),
    ],
)
async def test_a_handshake_is_guarded_like_a_call(
    lasting_node: Node, headers: dict[str, str], path: str, status: int, code: str
) -> None:
    url = socket_url(lasting_node).replace("/v1/worker", path)
    with pytest.raises(InvalidStatus) as refusal:
        await connect(url, additional_headers=headers, open_timeout=SECONDS)
    assert refusal.value.response.status_code == status
    assert json.loads(bytes(refusal.value.response.body or b""))["code"] == code


def socket_url(node: Node) -> str:
    return node.url.replace("http", "ws") + "/v1/worker"


async def test_nothing_of_it_was_our_fault(client: httpx.AsyncClient) -> None:
    numbers = (await client.get("/metrics")).text
    assert "fairway_http_requests_total" in numbers
    assert 'code="5' not in numbers
