"""What a node that stops tells of the work its worker was doing."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from fairway.node.app import Node, NodeOptions
from tests.integration.worker_world import PATIENCE_SECONDS, eventually


@pytest.mark.parametrize(
    ("delivery", "told"),
    [
        ("at_least_once", {"waiting": 1, "running": 0, "handed_back": 1, "failed": 0}),
        ("at_most_once", {"waiting": 0, "running": 0, "handed_back": 0, "failed": 1}),
    ],
)
async def test_a_node_that_stops_tells_what_goes_on_and_what_failed(
    tmp_path: Path, delivery: str, told: dict[str, int]
) -> None:
    options = NodeOptions(f"sqlite:///{tmp_path}/f.db", listen="127.0.0.1:0", slots=1, grace_seconds=0.0)
    node = Node(options)
    await node.start()
    try:
        begun = tmp_path / "begun"
        await submit(node, f"touch {begun}; sleep 60", delivery)
        await eventually(begun.exists)  # what has not begun is handed back, whatever its delivery
    finally:
        left = await node.stop()
    assert left == told


async def submit(node: Node, script: str, delivery: str) -> None:
    """Submit a job that runs a script."""
    spec = {"work": {"adapter": "command", "run": [["sh", "-c", script]]}, "delivery": delivery}
    async with httpx.AsyncClient(base_url=node.url, timeout=PATIENCE_SECONDS) as client:
        assert (await client.post("/v1/jobs", json=spec)).status_code == 201
