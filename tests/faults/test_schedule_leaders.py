"""A schedule of every second under leaders that freeze, thaw and die: each second has one job, none has two.

A frozen leader wakes up with fires that have long been made by another: it believes that it leads, and tries.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import msgspec
import pytest

from fairway.times import MICRO
from tests.integration.cluster_world import cluster, make_node, running, until
from tests.postgres import shared_server
from tests.running import RunningNode

SCHEDULE = {"every": 1, "missed": "all", "missed_most": 1000, "job": {"task": "tick", "queue": "ticks"}}
FIRES_FROZEN = 3  # seconds that the others have led before a frozen one thaws


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "strikes", ["freeze kill freeze", pytest.param("freeze kill " * 8, marks=pytest.mark.long)]
)
def test_each_second_has_one_job_whatever_becomes_of_leaders(tmp_path: Path, strikes: str) -> None:
    address = shared_server().new_database()
    nodes = [make_node(tmp_path, name, address, "--no-worker") for name in ("a", "b", "c")]
    with running(nodes) as (first, *_):
        assert first.http.put("/v1/schedules/tick", json=SCHEDULE).status_code == 201
        for strike in strikes.split():
            until(lambda: fired(leading(nodes)) >= 2, "the leader has fired")
            STRIKES[strike](leading(nodes), nodes)
        last = leading(nodes)
        until(lambda: fired(last) >= 2, "the last leader has fired")
        assert last.http.patch("/v1/schedules/tick", json={"paused": True}).status_code == 200
        time.sleep(1.5)  # whoever would still fire, does
        assert cluster(last)["term"] > len(strikes.split())
        fires, remembered = asyncio.run(read_fires(address))
        expected = list(range(fires[0], fires[-1] + 1, MICRO))
        assert fires == expected, f"twice or never: {sorted(set(expected) ^ set(fires))}, {len(fires)} jobs"
        assert remembered == fires[-1], "the schedule remembers another fire than that of its last job"


def freeze(leader: RunningNode, nodes: Sequence[RunningNode]) -> None:
    """Stop the leader's clock until another has led for some fires, then let it go on."""
    assert leader.process is not None
    leader.process.send_signal(signal.SIGSTOP)
    try:
        others = [node for node in nodes if node is not leader]
        until(lambda: fired(leading(others)) >= FIRES_FROZEN, "another fires")
    finally:
        leader.process.send_signal(signal.SIGCONT)
    until(lambda: not cluster(leader)["leading"], "the thawed one has seen that its term is over")


def kill(leader: RunningNode, nodes: Sequence[RunningNode]) -> None:
    """kill -9; it comes back when another leads."""
    leader.kill()
    leading([node for node in nodes if node is not leader])
    leader.start()
    leader.until_ready(leading=False)


STRIKES = {"freeze": freeze, "kill": kill}


def leading(nodes: Sequence[RunningNode]) -> RunningNode:
    """Return the one of them that leads, when there is one."""
    found = until(lambda: [node for node in nodes if cluster(node)["leading"]], "one of them leads")
    return found[0]  # type: ignore[no-any-return]


def fired(node: RunningNode) -> float:
    """Return how many fires a leader has made in its term, as its numbers page says."""
    lines = dict(line.rsplit(" ", 1) for line in node.http.get("/metrics").text.splitlines())
    return float(lines["fairway_schedules_fired_total"])


async def read_fires(address: str) -> tuple[list[int], int]:
    """Return the fire time of every job in the store, in order, and the last one that the schedule knows."""
    connection = await asyncpg.connect(address)
    try:
        rows = await connection.fetch("SELECT run_at FROM fairway.job WHERE queue = 'ticks' ORDER BY run_at")
        progress = await connection.fetchval("SELECT progress FROM fairway.schedule")
    finally:
        await connection.close()
    return [row["run_at"] for row in rows], msgspec.json.decode(progress)["last"]["at"]
