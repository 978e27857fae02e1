"""Where a running job is just now: the stack of its code, or its processes, as text."""

from __future__ import annotations

from fairway.api.answers import TEXT, Answer
from fairway.api.jobs import find_job_id
from fairway.api.operation import Call, Operation


async def show_stack(call: Call) -> Answer:
    """Ask the worker that runs it."""
    text = await call.desk.look(find_job_id(call))
    return Answer(200, text.encode(errors="replace"), TEXT)


OPERATIONS = [
    Operation(
        "GET", "/v1/jobs/{id}/stack", show_stack, "Show where a running job is: its stack or processes",
        errors=(404, 409, 501, 504), media="text/plain", leader=True,
    ),
]  # fmt: skip
