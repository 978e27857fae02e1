"""Server-sent events: cut anywhere, read the same; broken off, resumed behind the last one."""

from __future__ import annotations

import asyncio
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairway
from fairway.client.http import Transport
from fairway.client.sse import Decoder, SentEvent
from fairway.errors import InvalidRequest
from tests.client.scripted_peer import Peer, Reply

STREAM = (
    b": hello\n\n"
    b"id: 1.0\nevent: ended\ndata: {\"a\":1}\n\n"
    b"id: 1.1\r\ndata: line one\r\ndata:line two\r\n\r\n"
    b"event: nothing\n\n"
    b"retry: 5\nid: 1.2\ndata: caf\xc3\xa9 \xe2\x80\xa8 one line\n\n"
    b"data: the id stays\r\rid: 9\ndata: not complete\n"
)  # fmt: skip
EVENTS = [
    SentEvent("1.0", "ended", '{"a":1}'),
    SentEvent("1.1", "message", "line one\nline two"),
    SentEvent("1.2", "message", "café \u2028 one line"),
    SentEvent("1.2", "message", "the id stays"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_where_the_stream_is_cut(cuts: list[int]) -> None:
    decoder, bounds = Decoder(), [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(bounds)]
    assert [event for piece in pieces for event in decoder.feed(piece)] == EVENTS


def stream_reply(*numbers: int) -> Reply:
    text = "".join(f'id: 7.{n}\nevent: begun\ndata: {{"job":"j{n}"}}\n\n' for n in numbers)
    return Reply(200, text.encode(), "text/event-stream")


def test_a_broken_stream_is_resumed_behind_the_last_event(peer: Peer) -> None:
    peer.says(stream_reply(1, 2), Reply(drop=True), stream_reply(3), stream_reply())
    events = list(islice(fairway.App(url=peer.url).events("state:ended", after="7.0"), 3))
    assert events == [{"id": f"7.{n}", "kind": "begun", "job": f"j{n}"} for n in (1, 2, 3)]
    assert [asked.headers.get("last-event-id") for asked in peer.asked] == ["7.0", "7.2", "7.2"]
    assert {asked.path for asked in peer.asked} == {"/v1/events?q=state%3Aended"}


async def test_the_same_without_blocking(peer: Peer) -> None:
    peer.says(stream_reply(1, 2), Reply(drop=True), stream_reply(3), stream_reply())
    events: list[str] = []
    async with asyncio.timeout(20):
        async for event in fairway.App(url=peer.url).aevents():
            events.append(event["id"])
            if len(events) == 3:
                break
    assert events == ["7.1", "7.2", "7.3"]
    assert [asked.headers.get("last-event-id") for asked in peer.asked] == [None, "7.2", "7.2"]


def test_one_connection_ends_with_the_node(peer: Peer) -> None:
    peer.says(stream_reply(1, 2))
    assert [event.id for event in Transport(peer.url).stream("/jobs/j/log", {"follow": True})] == [
        "7.1",
        "7.2",
    ]


def test_a_refused_stream_raises(peer: Peer) -> None:
    peer.says(Reply(422, b'{"code":"invalid","detail":"no such field","field":"q"}'))
    with pytest.raises(InvalidRequest, match="no such field"):
        next(fairway.App(url=peer.url).events("colour:red"))
