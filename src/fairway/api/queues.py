"""Queues: the tree with its live numbers, and the settings of each node."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fairway.api.answers import Answer, answer_json
from fairway.api.asker import NAMES_ITSELF, asker
from fairway.api.operation import Call, Operation
from fairway.clock import wall
from fairway.core.model import NO_BOUND, NoBound
from fairway.core.settings import LEAST_WEIGHT, MOST_WEIGHT
from fairway.errors import InvalidRequest
from fairway.names import check_queue, check_text, shown
from fairway.shapes import Jobs, Queue, Queues, QueueWithFlows
from fairway.shapes import Operation as Moved
from fairway.spec import Backoff, Duration, Limit, ShortText, read_backoff
from fairway.spec import Count as JobCount
from fairway.times import parse_duration
from fairway.views import job_view, move_view, queue_view, whole_queue_view

Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
#: 0 is never; what lies between 0 and 1 is refused by the core.
Perturb = Annotated[float, Meta(ge=0, le=86_400, extra_json_schema={"anyOf": [{"const": 0}, {"minimum": 1}]})]
Timeout = Annotated[
    str | int | float,
    Meta(
        description="`90s`, `5m`, `2h`, `1d`, seconds, or `none`: no timeout, whatever is set above",
        examples=["90s", "none"],
        extra_json_schema={"minimum": 0, "pattern": r"^([0-9]{1,7}(ms|s|m)?|none)$"},
    ),
]
#: Read where the flow is known, so that a refusal can name it.
Weight = Annotated[
    Any, Meta(extra_json_schema={"type": "number", "minimum": LEAST_WEIGHT, "maximum": MOST_WEIGHT})
]
FlowWeights = Annotated[
    dict[ShortText, Weight],
    Meta(extra_json_schema={"maxProperties": 10_000}),
]


class SettingsChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What to set; null takes a setting away."""

    limit: Limit | UnsetType | None = UNSET
    assured: Limit | UnsetType | None = UNSET
    lend: bool | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] | UnsetType | None = UNSET
    weight: Annotated[float, Meta(ge=0.01, le=1_000_000)] | UnsetType | None = UNSET
    rate: ShortText | UnsetType | None = UNSET
    burst: Count | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    discipline: ShortText | UnsetType | None = UNSET
    unique: bool | UnsetType | None = UNSET
    on_lease_lost: Literal["keep", "kill"] | UnsetType | None = UNSET
    quantum: Count | Literal["auto"] | UnsetType | None = UNSET
    charge: Literal["jobs", "seconds"] | UnsetType | None = UNSET
    flow_weights: FlowWeights | UnsetType | None = UNSET
    depth: Count | UnsetType | None = UNSET
    capacity: Count | UnsetType | None = UNSET
    divisor: Annotated[int, Meta(ge=1, le=65_536)] | UnsetType | None = UNSET
    perturb: Perturb | UnsetType | None = UNSET
    overflow: Literal["reject", "drop_newest", "drop_oldest"] | UnsetType | None = UNSET
    max_attempts: JobCount | NoBound | UnsetType | None = UNSET
    max_crashes: JobCount | NoBound | UnsetType | None = UNSET
    timeout: Timeout | UnsetType | None = UNSET
    backoff: Backoff | UnsetType | None = UNSET
    grace: Duration | UnsetType | None = UNSET
    retention: Duration | UnsetType | None = UNSET


class DeleteQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where to what waits there goes."""

    move_to: str | None = None


class NextQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many."""

    n: Annotated[int, Meta(ge=1, le=1000)] = 100


class QueuesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A page of the tree: so many queues behind a path."""

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


async def list_queues(call: Call) -> Answer:
    """Show the tree, a page at a time: a hundred thousand queues would keep the leader from leading."""
    asked: QueuesQuery = call.query
    found = await call.desk.queues(asked.after, asked.limit + 1)
    more = len(found) > asked.limit
    shown = [queue_view(queue) for queue in found[: asked.limit]]
    return answer_json({"queues": shown, "next": shown[-1]["path"] if more else None})


async def show_queue(call: Call) -> Answer:
    """Show one queue."""
    return answer_json(whole_queue_view(await call.desk.queue(queue_path(call))))


async def put_queue(call: Call) -> Answer:
    """Set exactly these settings."""
    return await _set(call, replace=True)


async def patch_queue(call: Call) -> Answer:
    """Change the settings that are named."""
    return await _set(call, replace=False)


async def delete_queue(call: Call) -> Answer:
    """Forget a queue: an empty one, or when all that waits there has been moved."""
    path, asked = queue_path(call), call.query
    if asked.move_to is None:
        await call.desk.delete_queue(path, asker(call))
        return Answer(204, b"")
    to = check_queue(asked.move_to, "move_to")
    return answer_json(move_view(await call.desk.move_queue(path, to, rename=False, who=asker(call))), 202)


async def next_jobs(call: Call) -> Answer:
    """Show the order in which jobs will begin."""
    asked: NextQuery = call.query
    ids = await call.desk.next_jobs(queue_path(call), asked.n)
    found = {job.id: job for job in await call.desk.store.find_jobs(ids)}
    now = wall()
    jobs = [job_view(found[job_id], now) for job_id in ids if job_id in found]
    return answer_json({"jobs": jobs, "next": None, "total": None})


async def _set(call: Call, *, replace: bool) -> Answer:
    path = queue_path(call)
    changes = changes_of(call.body)
    if not changes and not replace:
        raise InvalidRequest("name at least one setting to change")
    found = await call.desk.set_queue(path, changes, replace=replace, who=asker(call))
    return answer_json(queue_view(found))


def changes_of(asked: SettingsChanges) -> dict[str, Any]:
    changes = {
        name: value
        for name in SettingsChanges.__struct_fields__
        if (value := getattr(asked, name)) is not UNSET
    }
    for name in ("discipline", "rate"):
        if changes.get(name) is not None:
            check_text(changes[name], name)
    if changes.get("flow_weights"):
        changes["flow_weights"] = dict(map(_read_weight, changes["flow_weights"].items()))
    for name in ("timeout", "grace", "retention"):
        if changes.get(name) is not None and (name, changes[name]) != ("timeout", NO_BOUND):
            changes[name] = parse_duration(changes[name], name)
    if changes.get("backoff") is not None:
        first, most = read_backoff(changes["backoff"])
        changes["backoff"] = {"first": first, "max": most}
    return changes


def _read_weight(given: tuple[str, Any]) -> tuple[str, float]:
    """Return a flow and its weight; a refusal names the flow."""
    flow, weight = given
    try:
        check_text(flow, f"flow_weights: flow {shown(flow)}")
    except InvalidRequest as error:
        raise InvalidRequest(error.detail, field="flow_weights") from None
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        bounds = f"between {LEAST_WEIGHT} and {MOST_WEIGHT:,}"
        said = f"flow_weights: the weight of flow {shown(flow)} must be a number {bounds}"
        raise InvalidRequest(said, field="flow_weights")
    return flow, float(weight)


def queue_path(call: Call) -> str:
    """Return the queue that a call is about."""
    return check_queue(call.path["path"], "path")


OPERATIONS = [
    Operation(
        "GET", "/v1/queues", list_queues, "Show the queue tree", answer=Queues, query=QueuesQuery, leader=True
    ),
    # Stands before the calls on a queue, whose path would take it in.
    Operation(
        "GET", "/v1/queues/{path:path}/-/next", next_jobs, "Show the order in which jobs will begin",
        answer=Jobs, query=NextQuery, errors=(404, 500), leader=True,
    ),
    Operation(
        "GET", "/v1/queues/{path:path}", show_queue, "Show a queue and its flows",
        answer=QueueWithFlows, errors=(404,), leader=True,
    ),
    Operation(
        "PUT", "/v1/queues/{path:path}", put_queue, "Set a queue's settings; those not named are forgotten",
        answer=Queue, body=SettingsChanges, errors=(404, 409), leader=True, headers=NAMES_ITSELF,
    ),
    Operation(
        "PATCH", "/v1/queues/{path:path}", patch_queue, "Change some of a queue's settings",
        answer=Queue, body=SettingsChanges, errors=(404, 409), leader=True, headers=NAMES_ITSELF,
    ),
    Operation(
        "DELETE", "/v1/queues/{path:path}", delete_queue,
        "Forget an empty queue, or (`move_to`) one whose waiting jobs are moved elsewhere first",
        answer=Moved, status=204, others=(202,), query=DeleteQuery, errors=(404, 409), leader=True,
        headers=NAMES_ITSELF,
    ),
]  # fmt: skip
