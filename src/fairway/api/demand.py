"""Demand: which slots are wanted, for whoever starts and stops workers."""

from __future__ import annotations

from fairway.api.answers import Answer, answer_json
from fairway.api.operation import Call, Operation
from fairway.shapes import Demand
from fairway.views import demand_view


async def show_demand(call: Call) -> Answer:
    """Show slots wanted per shape."""
    return answer_json(demand_view(await call.desk.demand()))


OPERATIONS = [
    Operation(
        "GET", "/v1/demand", show_demand, "Show slots wanted per shape, for autoscalers",
        answer=Demand, errors=(500,), leader=True,
    ),
]  # fmt: skip
