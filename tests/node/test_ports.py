"""The node's end of a worker connection: what it sends, in which order, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairway.node.inbox import Inbox
from fairway.node.ports import Hosting, Port
from fairway.wire import messages as wire

BEGIN = wire.Begin(1, [wire.Assignment(7, 1, "python", "work", b"{}", None, "mail")])
ACKS = wire.Acks(1, [(6, 1)], [], [])


def open_port(ports: dict[str, Port] | None = None) -> Port:
    hosting = Hosting(1, "node", 2.0, 10.0, 10.0, trusts=lambda: True)
    return Port(hosting, Inbox(), {} if ports is None else ports, lambda lines: None, lambda notes: None)


async def queued(port: Port) -> list[Any]:
    """Return what waits in the queue, all of it."""
    port.close()
    return [message async for frames in port.next_frames() for message in frames]


async def test_what_begins_is_given_by_a_call_where_that_is_wanted() -> None:
    port, given = open_port(), list[Any]()
    port.give_straight(given.extend)
    port.send(BEGIN)
    assert given == [BEGIN]
    assert await queued(port) == []


async def test_a_begin_does_not_overtake_what_waits() -> None:
    port, given = open_port(), list[Any]()
    port.give_straight(given.extend)
    port.send(ACKS)
    port.send(BEGIN)
    assert given == []
    assert await queued(port) == [ACKS, BEGIN]


async def test_others_wait_for_the_worker_to_ask() -> None:
    port = open_port()
    port.send(BEGIN)
    frames = await asyncio.wait_for(anext(port.next_frames()), 10)
    assert frames == [BEGIN]


@pytest.mark.parametrize("end", [Port.close, Port.closed])
async def test_a_port_that_closes_gives_nothing_by_a_call(end: Callable[[Port], None]) -> None:
    port, given = open_port(), list[Any]()
    port.give_straight(given.extend)
    end(port)
    port.send(BEGIN)
    assert given == []


async def test_a_worker_that_cannot_take_a_begin_loses_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its next hello names what it holds, and it is sent the rest again."""

    def fail(messages: list[Any]) -> None:
        raise RuntimeError("no room")

    port = open_port()
    port.give_straight(fail)
    port.send(BEGIN)
    assert [frames async for frames in port.next_frames()] == []
    assert "could not take what begins" in caplog.text


@pytest.mark.parametrize(
    ("name", "incarnation", "predecessor", "warned"),
    [
        ("w1", "b", None, True),
        ("w2", "b", None, False),
        ("w1", "a", None, False),  # itself, over a new connection
        ("w1", "b", "a", False),  # started anew, and known to be the only one
    ],
)
async def test_a_second_worker_of_one_name_is_warned_of(
    caplog: pytest.LogCaptureFixture, name: str, incarnation: str, predecessor: str | None, warned: bool
) -> None:
    ports: dict[str, Port] = {}
    await open_port(ports).receive(hello("w1", "a"))
    await open_port(ports).receive(hello(name, incarnation, predecessor))
    assert ("a second worker joins under the name of a connected one" in caplog.text) is warned


async def test_a_worker_whose_namesake_has_left_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    ports: dict[str, Port] = {}
    first = open_port(ports)
    await first.receive(hello("w1", "a"))
    first.closed()
    await open_port(ports).receive(hello("w1", "b"))
    assert caplog.text == ""


def hello(name: str, incarnation: str, predecessor: str | None = None) -> wire.Hello:
    return wire.Hello(
        wire.PROTOCOL, name, incarnation, slots=1, adapters=["command"], predecessor=predecessor
    )
