"""A worker whose token is missing or wrong: it says so once, and goes on trying."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fairway.node.app import Node, NodeOptions
from fairway.worker.agent import Agent
from fairway.worker.app import WorkerOptions, build_agent
from fairway.worker.socket_transport import Connector
from tests.integration.worker_world import eventually


def make_worker(url: str, token: str | None) -> Agent:
    return build_agent(WorkerOptions(name="w1", slots=1), Connector([url], token))


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (None, "the node wants a token: set FAIRWAY_TOKEN"),
        ("another", "the node does not accept this token: set FAIRWAY_TOKEN as the node has it"),
    ],
)
async def test_a_worker_that_is_not_admitted_warns_once_what_to_do_and_tries_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, token: str | None, said: str
) -> None:
    caplog.set_level("INFO", "fairway.worker")
    options = NodeOptions(f"sqlite:///{tmp_path}/f.db", listen="127.0.0.1:0", worker=False, token="t0ken")
    node = Node(options)
    await node.start()
    agent = make_worker(node.url, token)
    try:
        await run_until(agent, lambda: caplog.text.count(said) >= 3)
    finally:
        await agent.close(0)
        await node.stop()
    levels = [record.levelname for record in caplog.records if said in record.getMessage()]
    assert levels[:3] == ["WARNING", "INFO", "INFO"]
    assert levels.count("WARNING") == 1


async def run_until(agent: Agent, fact: Callable[[], bool]) -> None:
    await agent.start()
    running = asyncio.create_task(agent.run())
    try:
        await eventually(fact)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
