"""With a token set, every call must carry it; without one, or with another, nobody learns anything."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from fairway.api.app import operations
from fairway.api.guard import OPEN_PATHS
from fairway.api.tally import Tally
from fairway.node.app import Node, NodeOptions
from fairway.wire.messages import Welcome
from tests.api.from_outside import SECONDS, SocketWorker, check_problem

TOKEN = "correct-horse-battery"
RIGHT = {"authorization": f"Bearer {TOKEN}"}
#: Streams, whose first line is enough; and the pulse, which needs the right term.
STREAMS = {"/v1/events", "/v1/cluster/pulse"}
TABLE = [(one.method, re.sub(r"\{\w+(:\w+)?\}", "x", one.path)) for one in operations(Tally())]
GUARDED = [call for call in TABLE if call[1] not in OPEN_PATHS]

WRONG = [
    {},
    {"authorization": "Bearer"},
    {"authorization": f"Bearer {TOKEN[:-1]}"},
    {"authorization": f"Bearer {TOKEN}x"},
    {"authorization": f"Bearer {TOKEN.upper()}"},
    {"authorization": f"Basic {TOKEN}"},
    {"authorization": TOKEN},
    {"authorization": b"Bearer \xff\xfe"},
    {"x-token": TOKEN},
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    node = Node(
        NodeOptions(database=f"sqlite:///{folder}/f.db", listen="127.0.0.1:0", worker=False, token=TOKEN)
    )
    await node.start()
    await node.until_leading(SECONDS)
    yield node
    await node.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(guarded: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=guarded.url, timeout=SECONDS) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_no_route_opens_without_the_token(client: httpx.AsyncClient, method: str, path: str) -> None:
    for headers in WRONG:
        answer = await client.request(method, path, headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 401, (headers, answer.text)
        check_problem(answer)
        assert answer.json()["code"] in ("token_required", "token_invalid")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), [call for call in GUARDED if call[1] not in STREAMS])
async def test_every_route_opens_with_it(client: httpx.AsyncClient, method: str, path: str) -> None:
    if path.endswith("step-down"):
        return  # the others need a leader
    answer = await client.request(method, path, headers=RIGHT)
    assert answer.status_code not in (401, 403, 500), answer.text
    if method == "GET" and "x" not in path.split("/"):
        assert answer.status_code in (200, 308)


async def test_a_stream_opens_with_it(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/v1/events", headers=RIGHT) as answer:
        assert answer.status_code == 200


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
async def test_probes_need_none(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize("name", ["token", "access_token", "Token", "api_key"])
async def test_a_token_in_the_url_is_refused_and_never_logged(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    logging.getLogger("httpx").setLevel(logging.WARNING)  # the test's own client would write it down
    caplog.set_level(logging.INFO)
    for headers in ({}, RIGHT):
        answer = await client.get("/v1/jobs", params={name: TOKEN}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "token_in_url")
        assert TOKEN not in answer.text
    assert TOKEN not in caplog.text


async def test_workers_need_it_too(guarded: Node) -> None:
    address = guarded.url.replace("http", "ws") + "/v1/worker"
    for wrong in ({}, {"authorization": "Bearer other"}):
        with pytest.raises(InvalidStatus) as refused:
            await connect(address, additional_headers=wrong, open_timeout=SECONDS)
        assert refused.value.response.status_code == 401
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{address}?token={TOKEN}", open_timeout=SECONDS)
    assert refused.value.response.status_code == 400
    async with connect(address, additional_headers=RIGHT, open_timeout=SECONDS) as connection:
        worker = SocketWorker(connection)
        await worker.join()
        assert isinstance(await worker.read(), Welcome)


async def test_with_the_token_any_name_of_this_host_will_do(client: httpx.AsyncClient) -> None:
    named = {"host": "fairway.internal:8899", **RIGHT}
    assert (await client.get("/v1/cluster", headers=named)).status_code == 200
    assert (await client.get("/v1/cluster", headers={"host": "fairway.internal"})).status_code == 401


async def test_the_token_is_not_shown_with_the_options(guarded: Node) -> None:
    assert TOKEN not in repr(guarded.options)
