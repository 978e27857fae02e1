"""The asynchronous client's own HTTP: every form an answer may have, and none that it may not."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
import uvloop

from fairway.client import exchange
from fairway.client.async_http import AsyncConnections
from fairway.client.exchange import Answer
from fairway.errors import InvalidRequest, NotFound

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[AsyncConnections]:
    """Listen, hand each connection to *serve*, and lend a client."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = AsyncConnections(urlsplit(f"http://127.0.0.1:{port}"))
    try:
        yield connections
    finally:
        connections.close()
        server.close()


def saying(*answers: bytes, then_close: bool = False) -> Serve:
    """Give each request of a connection the next answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        if not then_close:
            await reader.read()

    return serve


async def get(connections: AsyncConnections, timeout: float = 10) -> Answer:
    return await connections.exchange("GET", "/", None, {"accept": "*/*"}, timeout)


CASES = {
    "by length": (PLAIN, b"hi"),
    "in chunks": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n3\r\n ho\r\n0\r\n\r\n",
        b"hi ho",
    ),
    "without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "after a word in between": (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + PLAIN, b"hi"),
    "empty": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_connection_is_used_again_after_an_answer(case: str) -> None:
    given, read = CASES[case]
    async with serving(saying(given, PLAIN)) as connections:
        assert (await get(connections)).body == read
        assert (await get(connections)).body == b"hi"


async def test_an_answer_may_end_with_its_connection() -> None:
    async with serving(saying(b"HTTP/1.1 200 OK\r\n\r\nall of it", then_close=True)) as connections:
        assert (await get(connections)).body == b"all of it"
        assert (await get(connections)).body == b"all of it"  # on another one


async def test_a_large_answer_comes_whole() -> None:
    body = bytes(range(256)) * 40_000
    large = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with serving(saying(large, PLAIN)) as connections:
        assert (await get(connections)).body == body
        assert (await get(connections)).body == b"hi"


async def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_BYTES", 100_000)
    large = b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + bytes(9_000_000)
    async with serving(saying(large)) as connections:
        with pytest.raises(ConnectionResetError, match="more than 100000 bytes"):
            await get(connections)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
async def test_half_an_answer_is_none(given: bytes, said: str) -> None:
    async with serving(saying(given, then_close=True)) as connections:
        with pytest.raises(ConnectionResetError, match=said):
            await get(connections)


async def test_nobody_there_is_told_from_a_lost_connection() -> None:
    async with serving(saying()) as connections:
        pass
    with pytest.raises(ConnectionRefusedError):
        await get(connections)


async def test_a_silent_node_is_given_up_and_its_connection_with_it() -> None:
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await saying(PLAIN)(reader, writer) if opened > 1 else await reader.read()

    async with serving(serve) as connections:
        with pytest.raises(TimeoutError):
            await get(connections, 0.1)
        assert (await get(connections)).body == b"hi"
    assert opened == 2


async def test_what_was_not_asked_for_is_not_taken_for_the_next_answer() -> None:
    async with serving(saying(PLAIN + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", PLAIN)) as them:
        for _ in range(3):
            assert (await get(them)).body == b"hi"


async def test_headers_cannot_be_smuggled_in() -> None:
    async with serving(saying(PLAIN)) as connections:
        with pytest.raises(InvalidRequest, match="character that none may have"):
            await connections.exchange("GET", "/", None, {"a": "b\r\nc: d"}, 5)


async def test_a_target_is_quoted_where_it_must_be() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(PLAIN)

    async with serving(serve) as connections:
        await connections.exchange("GET", "/v1/queues/größe und%20so?a=1&b=x\r\ny", None, {}, 5)
    assert asked[0].startswith(
        b"GET /v1/queues/gr%C3%B6%C3%9Fe%20und%20so?a=1&b=x%0D%0Ay HTTP/1.1\r\nhost: 127.0.0.1:"
    )


# --- piece by piece --------------------------------------------------------------------------------------
async def test_a_stream_is_read_as_it_comes_and_never_far_ahead() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(400):
            writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            await writer.drain()
            sent += 65536
        writer.write(b"0\r\n\r\n")

    async with serving(serve) as connections:
        pieces = connections.stream("/", {}, 10)
        read = len(await anext(pieces))
        await asyncio.sleep(0.3)
        assert sent < 400 * 65536  # the rest waits at the other end
        read += sum([len(piece) async for piece in pieces])
    assert read == 400 * 65536


async def test_a_stream_that_falls_silent_is_broken() -> None:
    async with serving(saying(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")) as them:
        pieces = them.stream("/", {}, 0.2)
        assert await anext(pieces) == b"hi"
        with pytest.raises(TimeoutError):
            await anext(pieces)


async def test_a_refused_stream_says_why() -> None:
    body = b'{"status": 404, "code": "no_such_job", "detail": "there is no such job"}'
    head = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n\r\n"
    async with serving(saying(head % len(body) + body)) as connections:
        with pytest.raises(NotFound, match="no such job"):
            await anext(connections.stream("/", {}, 5))


# --- loops -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_loops_that_are_over_are_forgotten(run: Callable[..., object]) -> None:
    connections = AsyncConnections(urlsplit("http://127.0.0.1:1"))

    async def call() -> None:
        async with serving(saying(PLAIN)) as them:
            connections._address = them._address
            assert (await get(connections)).body == b"hi"

    for _ in range(3):
        run(call())
    assert len(connections._loops) == 1


async def test_whoever_waits_hears_that_no_answer_will_come() -> None:
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()

    async with serving(serve) as connections:
        waiting = asyncio.create_task(get(connections))
        await asked.wait()
        connections.cut()
        with pytest.raises(ConnectionResetError):
            await waiting


async def test_a_connection_that_ended_while_nobody_looked_is_not_used_again() -> None:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                one, _ = server.accept()
                with one:
                    one.recv(1000)
                    one.sendall(PLAIN)
                ended.set()

        thread = threading.Thread(target=serve)
        thread.start()
        connections = AsyncConnections(urlsplit(f"http://127.0.0.1:{server.getsockname()[1]}"))
        await get(connections)
        ended.wait(10)  # the loop stands still meanwhile: it cannot have heard of it
        await get(connections)
        thread.join(10)
        connections.close()


async def test_a_head_without_end_is_refused() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000
    async with serving(saying(endless)) as connections:
        with pytest.raises(ConnectionResetError, match="bytes of headers"):
            await get(connections)


async def test_no_body_follows_an_answer_to_head() -> None:
    async with serving(saying(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")) as connections:
        answer = await connections.exchange("HEAD", "/", None, {}, 10)
        assert (answer.status, answer.body) == (200, b"")
