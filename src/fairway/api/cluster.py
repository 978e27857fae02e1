"""The cluster: who leads, who is there, asking the leader to step down; and what nodes say to each other."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairway.api.answers import TEXT, Answer, Stream, answer_json
from fairway.api.operation import Call, Operation
from fairway.api.relaying import may_pass_on
from fairway.shapes import Cluster, Troubles
from fairway.views import cluster_view, troubles_view


class PulseQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which node listens, whether it stands for election, and whose pulse it expects."""

    node: Annotated[str, msgspec.Meta(max_length=64)] = ""
    stands: bool = True
    term: int = 0


async def show_cluster(call: Call) -> Answer:
    """Show leader, term and nodes; which of those have a link is the leader's to say."""
    shown = cluster_view(await call.desk.cluster())
    told = await may_pass_on(call.desk, call.question)
    if told is not None and told.status == 200:
        shown["nodes"] = msgspec.json.decode(told.body, type=Cluster)["nodes"]
    return answer_json(shown)


async def show_troubles(call: Call) -> Answer:
    """Show what failed inside the leader."""
    return answer_json(troubles_view(await call.desk.troubles()))


async def step_down(call: Call) -> Answer:
    """Resign; answered when it is done."""
    await call.desk.step_down()
    return answer_json(cluster_view(await call.desk.cluster()))


async def show_pulse(call: Call) -> Stream:
    """Send a line several times a TTL for as long as this node leads."""
    asked: PulseQuery = call.query
    return Stream(call.desk.pulse(asked.node, asked.stands, asked.term), TEXT)


async def ring(call: Call) -> Answer:
    """Look for new jobs now."""
    call.desk.ring()
    return Answer(204, b"")


OPERATIONS = [
    Operation("GET", "/v1/cluster", show_cluster, "Show who leads and which nodes there are", answer=Cluster),
    Operation(
        "GET", "/v1/cluster/troubles", show_troubles,
        "Show what failed inside the leader: advice that cannot be told, calls on which leaders ended",
        answer=Troubles, leader=True,
    ),
    Operation(
        "POST", "/v1/cluster/step-down", step_down, "Ask the leader to step down", answer=Cluster, leader=True
    ),
    Operation(
        "GET", "/v1/cluster/pulse", show_pulse, "Hear that this node leads: for the other nodes",
        query=PulseQuery, media="text/plain",
    ),
    Operation(
        "POST", "/v1/cluster/ring", ring, "Say that jobs were inserted: for the other nodes", status=204
    ),
]  # fmt: skip
