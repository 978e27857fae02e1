"""A real node on a real file and a real port, and a worker that speaks the protocol by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect

from fairway.node.app import Node, NodeOptions
from tests.api.from_outside import SECONDS, Api, SocketWorker

Connect = Callable[[], Awaitable[SocketWorker]]


async def start_node(folder: Path) -> Node:
    node = Node(NodeOptions(database=f"sqlite:///{folder}/f.db", listen="127.0.0.1:0", worker=False))
    await node.start()
    await node.until_leading(SECONDS)
    return node


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = await start_node(tmp_path)
    yield node
    await node.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting_node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    """A node for tests that leave nothing behind."""
    node = await start_node(tmp_path_factory.mktemp("node"))
    yield node
    await node.stop()


@pytest_asyncio.fixture
async def api(node: Node) -> AsyncIterator[Api]:
    async with httpx.AsyncClient(base_url=node.url, timeout=SECONDS) as client:
        yield Api(client)


@pytest_asyncio.fixture
async def connect_worker(node: Node) -> AsyncIterator[Connect]:
    opened: list[ClientConnection] = []

    async def open_one() -> SocketWorker:
        opened.append(await connect(node.url.replace("http", "ws") + "/v1/worker", open_timeout=SECONDS))
        return SocketWorker(opened[-1])

    yield open_one
    for connection in opened:
        await connection.close()
