"""Outside /v1: is it alive, is it ready, its numbers, and what this is."""

from __future__ import annotations

from fairway import __version__
from fairway.api.answers import TEXT, Answer, answer_json
from fairway.api.operation import Call, Operation
from fairway.api.tally import Tally, number_lines
from fairway.desk import Desk
from fairway.errors import WorldError

METRICS = b"text/plain; version=0.0.4; charset=utf-8"


async def show_alive(call: Call) -> Answer:
    """Answer at all."""
    return Answer(200, b"ok\n", TEXT)


async def show_ready(call: Call) -> Answer:
    """Say whether work can be sent here: this node serves and knows a leader."""
    reason = await why_not_ready(call.desk)
    if reason is None:
        return Answer(200, b"ready\n", TEXT)
    return Answer(503, f"not ready: {reason}\n".encode(), TEXT)


async def why_not_ready(desk: Desk) -> str | None:
    """Say what a node still lacks, None if nothing."""
    try:
        cluster = await desk.cluster()
    except WorldError as error:
        return str(error)
    return None if cluster.ready and cluster.leader is not None else "no leader is known"


def operations(tally: Tally, prefix: str = "") -> list[Operation]:
    """Return the calls of this module; the numbers page shows the tally as well."""

    async def show_what_this_is(call: Call) -> Answer:
        """Tell a visitor where to go."""
        return answer_json(
            {
                "name": "fairway",
                "version": __version__,
                "node": call.desk.name,
                "what": "a durable, fair, multi-tenant job scheduler",
                "api": f"{prefix}/v1/openapi.json",
                "numbers": f"{prefix}/metrics",
            }
        )

    async def show_numbers(call: Call) -> Answer:
        lines = number_lines({**call.desk.numbers(), **tally.numbers()})
        return Answer(200, "\n".join([*lines, ""]).encode(), METRICS)

    return [
        Operation("GET", "/", show_what_this_is, "Say what this is", answer=dict[str, str]),
        Operation("GET", "/healthz", show_alive, "Say that this node is alive", media="text/plain"),
        Operation(
            "GET", "/readyz", show_ready, "Say whether this node can serve", errors=(503,), media="text/plain"
        ),
        Operation("GET", "/metrics", show_numbers, "Numbers for Prometheus", media="text/plain"),
    ]
