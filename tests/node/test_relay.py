"""Relaying when things go wrong: what was surely not sent is done here or refused; the rest is no guess."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from fairway.desk import Question
from fairway.errors import NoLeader, Unanswered
from fairway.node.app import Node, NodeOptions
from fairway.node.link import Link
from fairway.node.relay import Relay
from fairway.store import Leadership

from .virtual_time import until

SECONDS = 10.0
ASK = Question("GET", "/v1/queues", {})
TRUE = {"work": {"adapter": "command", "run": [["true"]]}}

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A node that says it leads; how it answers all but the pulse is the test's."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Peer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            self.hang_up()
            server.close()

    def hang_up(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.transport.abort()

    def leadership(self, term: int = 3) -> Leadership:
        return Leadership(term, "their-life", "peer", self.url, 0, 1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                if b"/v1/cluster/pulse" in head:
                    await self._beat(writer)
                self.asked.append(head + body)
                await self.answer(head, writer)

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"2\r\n3\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)


def says(status: int, body: bytes = b"{}") -> Answer:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
            % (status, len(body), body)
        )

    return answer


async def hangs_up(head: bytes, writer: asyncio.StreamWriter) -> None:
    """Take the question, and never answer."""
    writer.transport.abort()


@asynccontextmanager
async def linked(peer: Peer, ttl: float = 2.0) -> AsyncIterator[tuple[Link, Relay]]:
    """Return a link to a peer that leads, once it is up, and a relay over it."""
    link = Link("our-life", ttl, token="t0ken")
    keeping = asyncio.create_task(link.keep())
    link.see(peer.leadership())
    try:
        await link.until_up(SECONDS)
        yield link, Relay(link, "us", "t0ken")
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        link.close()


async def test_a_question_is_passed_on_marked_and_with_the_token() -> None:
    async with Peer(says(418, b'"tea"')).listening() as peer, linked(peer) as (_, relay):
        reply = await relay.pass_on(
            Question("POST", "/v1/x?a=%20b", {"idempotency-key": "k"}, b"[1]"), SECONDS
        )
        assert (reply.status, reply.body) == (418, b'"tea"')
        head, _, body = peer.asked[0].partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        assert lines[0] == b"post /v1/x?a=%20b http/1.1" and body == b"[1]"
        assert {b"fairway-relayed: us", b"authorization: bearer t0ken", b"idempotency-key: k"} <= set(lines)


async def test_what_was_taken_and_not_answered_may_have_been_done() -> None:
    async with Peer(hangs_up).listening() as peer, linked(peer) as (_, relay):
        with pytest.raises(Unanswered, match="may have been done"):
            await relay.pass_on(ASK, SECONDS)
        assert len(peer.asked) == 1


async def test_a_peer_that_never_answers_is_given_up_in_time() -> None:
    async def waits(head: bytes, writer: asyncio.StreamWriter) -> None:
        return

    async with Peer(waits).listening() as peer, linked(peer) as (_, relay):
        with pytest.raises(Unanswered):
            await relay.pass_on(ASK, 0.2)


TOKEN = "does not accept this node's token: set the same FAIRWAY_TOKEN on all nodes"


@pytest.mark.parametrize(("status", "why"), [(401, TOKEN), (403, TOKEN), (421, "not answer to the host")])
async def test_a_leader_that_refuses_us_is_no_fault_of_the_caller(status: int, why: str) -> None:
    async with Peer(says(status)).listening() as peer, linked(peer) as (_, relay):
        with pytest.raises(NoLeader, match=why) as refused:
            await relay.pass_on(ASK, SECONDS)
        assert not isinstance(refused.value, Unanswered)


async def test_a_link_that_is_refused_says_why_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Peer(says(200)).listening() as peer, linked(peer, ttl=0.4) as (link, relay):
        beat, peer._beat = peer._beat, _refuse  # type: ignore[method-assign]
        peer.hang_up()
        await until(lambda: not link.up)
        for _ in range(2):
            with pytest.raises(NoLeader, match=f"peer at {peer.url}, {TOKEN}"):
                await relay.pass_on(ASK, SECONDS)
        warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert len(warnings) == 1 and warnings[0].endswith(TOKEN)
        peer._beat = beat  # type: ignore[method-assign]
        await link.until_up(SECONDS)
        assert (await relay.pass_on(ASK, SECONDS)).status == 200


async def _refuse(writer: asyncio.StreamWriter) -> None:
    await says(401)(b"", writer)
    writer.close()


async def test_a_link_goes_down_when_the_peer_hangs_up_and_comes_back() -> None:
    async with Peer(says(200)).listening() as peer, linked(peer) as (link, relay):
        slow = asyncio.create_task(link.pause(peer.leadership()))  # would wait for a quarter of a TTL
        await asyncio.sleep(0)
        peer.hang_up()
        async with asyncio.timeout(SECONDS):
            await slow
        await link.until_up(SECONDS)
        assert (await relay.pass_on(ASK, SECONDS)).status == 200


async def test_a_silent_peer_has_no_link() -> None:
    async with Peer(says(200)).listening() as peer, linked(peer, ttl=0.4) as (link, _):
        peer._beat = _silence  # type: ignore[method-assign]
        peer.hang_up()
        await until(lambda: not link.up)
        with pytest.raises(NoLeader, match="does not reach the leader, peer at"):
            await link.until_up(0.5)


async def _silence(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    await asyncio.sleep(SECONDS)


async def test_without_a_leader_nothing_is_sent() -> None:
    link = Link("our-life", 2.0)
    with pytest.raises(NoLeader, match="nobody leads"):
        await Relay(link, "us", None).pass_on(ASK, SECONDS)
    link.see(Leadership(1, "our-life", "us", "http://127.0.0.1:1", 0, 1))  # the store does not know yet
    assert link.leader is None


# --- at a whole node -------------------------------------------------------------------------------
@asynccontextmanager
async def standby(folder: Path, peer: Peer) -> AsyncIterator[tuple[Node, httpx.AsyncClient]]:
    """Return a node that stands by while the peer leads, in the store and over a link."""
    options = NodeOptions(
        f"sqlite:///{folder}/f.db", listen="127.0.0.1:0", worker=False, lead=False, leader_ttl=60.0
    )
    node = Node(options)
    await node.store.open()
    assert await node.store.elect(0, "their-life", "peer", peer.url, 0)
    await node.store.close()
    await node.start()
    try:
        await node.link.until_up(SECONDS)
        async with httpx.AsyncClient(base_url=node.url, timeout=SECONDS) as client:
            yield node, client
    finally:
        await node.stop()


async def test_a_submit_nobody_answered_is_inserted_here_only_under_its_key(tmp_path: Path) -> None:
    async with Peer(hangs_up).listening() as peer, standby(tmp_path, peer) as (_, client):
        keyless = await client.post("/v1/jobs", json=TRUE)
        assert (keyless.status_code, keyless.json()["code"]) == (503, "no_leader")
        assert "may have been done" in keyless.json()["detail"] and "retry-after" in keyless.headers
        assert (await client.get("/v1/jobs")).json()["jobs"] == []
        keyed = await client.post("/v1/jobs", json=TRUE, headers={"idempotency-key": "k"})
        again = await client.post("/v1/jobs", json=TRUE, headers={"idempotency-key": "k"})
        assert (keyed.status_code, again.status_code) == (201, 200)
        assert keyed.json()["id"] == again.json()["id"]
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1


async def test_a_submit_that_was_not_sent_is_inserted_here(tmp_path: Path) -> None:
    async with Peer(says(401)).listening() as peer, standby(tmp_path, peer) as (_, client):
        answer = await client.post("/v1/jobs", json=TRUE)
        assert answer.status_code == 201
        shown = await client.get(f"/v1/jobs/{answer.json()['id']}")
        assert shown.json()["state"] == "queued" and shown.json()["waiting"] is None  # nobody can say why
        assert (await client.get("/v1/queues")).status_code == 503


async def test_a_large_submit_is_inserted_here_and_the_leader_rung(tmp_path: Path) -> None:
    async with Peer(says(204, b"")).listening() as peer, standby(tmp_path, peer) as (_, client):
        answer = await client.post("/v1/jobs/bulk", json={"jobs": [TRUE] * 2000})
        assert len(answer.json()["ids"]) == 2000
        await until(lambda: any(b"POST /v1/cluster/ring" in one for one in peer.asked))
        assert not any(b"/v1/jobs" in one.partition(b"\r\n")[0] for one in peer.asked)


async def test_a_body_that_was_not_asked_for_never_reaches_the_leader(tmp_path: Path) -> None:
    async with Peer(says(200)).listening() as peer, standby(tmp_path, peer) as (_, client):
        for sent in ({"data": {"x": "1"}}, {"content": b"garbage"}, {"json": {"x": 1}}):
            answer = await client.post("/v1/cluster/step-down", **sent)  # type: ignore[arg-type]
            assert 400 <= answer.status_code < 500
        assert not any(b"step-down" in one for one in peer.asked)
        assert (await client.post("/v1/cluster/step-down", json={})).status_code == 200
        assert any(b"step-down" in one for one in peer.asked)


async def test_frames_pass_both_ways_in_order_until_another_node_leads(tmp_path: Path) -> None:
    heard: asyncio.Queue[bytes | str] = asyncio.Queue()
    marks: list[str | None] = []
    gone = asyncio.Event()

    async def lead(connection: ServerConnection) -> None:
        assert connection.request is not None
        marks.append(connection.request.headers.get("fairway-relayed"))
        with suppress(ConnectionClosed):
            async for frame in connection:
                heard.put_nowait(frame)
                await connection.send(b"not msgpack " + frame if isinstance(frame, bytes) else frame)
        gone.set()

    async with serve(lead, "127.0.0.1", 0) as server:
        peer = Peer(says(500))
        peer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        node = Node(NodeOptions(f"sqlite:///{tmp_path}/f.db", listen="127.0.0.1:0", worker=False, lead=False))
        await node.start()
        node.link.see(peer.leadership())
        node._elector.pause = lambda seen: asyncio.sleep(3600)  # type: ignore[union-attr]  # what we say holds
        try:
            address = node.url.replace("http", "ws") + "/v1/worker"
            async with connect(address, open_timeout=SECONDS) as worker, asyncio.timeout(SECONDS):
                hello = '["hello",1,"w","w-1",1,["command"]]'
                await worker.send(hello)
                assert await worker.recv() == hello and await heard.get() == hello
                for number in range(100):
                    await worker.send(b"%d" % number)
                assert [await heard.get() for _ in range(100)] == [b"%d" % number for number in range(100)]
                assert [await worker.recv() for _ in range(100)] == [
                    b"not msgpack %d" % n for n in range(100)
                ]
                node.link.see(None)
                with pytest.raises(ConnectionClosed) as closed:
                    await worker.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
                await gone.wait()
                assert marks == [node.name]
        finally:
            await node.stop()
