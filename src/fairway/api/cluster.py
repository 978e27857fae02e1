"""The cluster: who leads, who is there, and asking the leader to step down."""

from __future__ import annotations

from fairway.api.answers import Answer, answer_json
from fairway.api.operation import Call, Operation
from fairway.shapes import Cluster
from fairway.views import cluster_view


async def show_cluster(call: Call) -> Answer:
    """Show leader, term and nodes."""
    return answer_json(cluster_view(await call.desk.cluster()))


async def step_down(call: Call) -> Answer:
    """Resign; answered when it is done."""
    await call.desk.step_down()
    return answer_json(cluster_view(await call.desk.cluster()))


OPERATIONS = [
    Operation("GET", "/v1/cluster", show_cluster, "Show who leads and which nodes there are", answer=Cluster),
    Operation("POST", "/v1/cluster/step-down", step_down, "Ask the leader to step down", answer=Cluster),
]
