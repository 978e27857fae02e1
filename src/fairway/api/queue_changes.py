"""What is done to settings as a whole: their history, a step back, a file of them, a new name for a queue."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fairway.api.answers import Answer, answer_json
from fairway.api.asker import NAMES_ITSELF, asker
from fairway.api.operation import Call, Operation
from fairway.api.queues import SettingsChanges, changes_of, queue_path
from fairway.errors import InvalidRequest
from fairway.names import check_queue
from fairway.shapes import Differences, Queue, QueueChanges
from fairway.shapes import Operation as Moved
from fairway.strict import convert
from fairway.views import change_view, difference_view, move_view, queue_view

MOST_APPLIED = 10_000

Number = Annotated[int, Meta(ge=1, le=2**53)]
ByQueue = Annotated[
    dict[str, dict[str, Any]],
    Meta(
        max_length=MOST_APPLIED,
        extra_json_schema={"additionalProperties": {"$ref": "#/components/schemas/SettingsChanges"}},
    ),
]


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many changes, and before which one."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    before: Number | None = None


class Revert(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The change after which a queue was as it shall be again; none: undo the last one."""

    to: Number | None = None


class Rename(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The new path."""

    to: str


class QueuesFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Queues with all their settings; those not named here stay as they are."""

    queues: ByQueue
    dry_run: bool = False


async def show_history(call: Call) -> Answer:
    """Show the changes of one queue."""
    return await _history(call, queue_path(call))


async def show_whole_history(call: Call) -> Answer:
    """Show the changes of all queues."""
    return await _history(call, None)


async def _history(call: Call, path: str | None) -> Answer:
    asked: HistoryQuery = call.query
    found = await call.desk.store.queue_changes(path, asked.limit, asked.before)
    more = found[-1].number if len(found) == asked.limit else None
    return answer_json({"changes": [change_view(one) for one in found], "next": more})


async def revert_queue(call: Call) -> Answer:
    """Set a queue as it was."""
    found = await call.desk.revert_queue(queue_path(call), call.body.to, asker(call))
    return answer_json(queue_view(found))


async def apply_queues(call: Call) -> Answer:
    """Set several queues at once."""
    asked: QueuesFile = call.body
    queues = {check_queue(path, "queues"): _read(path, given) for path, given in asked.queues.items()}
    changes = await call.desk.set_queues(queues, dry=asked.dry_run, who=asker(call))
    return answer_json({"changes": [difference_view(one) for one in changes], "applied": not asked.dry_run})


def _read(path: str, given: dict[str, Any]) -> dict[str, Any]:
    """Read the settings of one queue; a refusal names the queue, too."""
    try:
        return changes_of(convert(given, SettingsChanges))
    except InvalidRequest as error:
        field = f"queues.{path}.{error.field}" if error.field else f"queues.{path}"
        raise InvalidRequest(f"queue '{path}': {error.detail}", field=field) from None


async def rename_queue(call: Call) -> Answer:
    """Begin to rename a branch."""
    to = check_queue(call.body.to, "to")
    found = await call.desk.move_queue(queue_path(call), to, rename=True, who=asker(call))
    return answer_json(move_view(found), 202)


#: These stand before the calls on a queue, whose path would take them in.
OPERATIONS = [
    Operation(
        "GET", "/v1/queues/-/history", show_whole_history, "Show who changed settings of queues",
        answer=QueueChanges, query=HistoryQuery,
    ),
    Operation(
        "POST", "/v1/queues/-/apply", apply_queues, "Give several queues exactly these settings, all or none",
        answer=Differences, body=QueuesFile, errors=(409,), leader=True, headers=NAMES_ITSELF,
    ),
    Operation(
        "GET", "/v1/queues/{path:path}/-/history", show_history, "Show who changed a queue's settings",
        answer=QueueChanges, query=HistoryQuery,
    ),
    Operation(
        "POST", "/v1/queues/{path:path}/-/revert", revert_queue,
        "Set a queue as it was after a change, or before the last one",
        answer=Queue, body=Revert, errors=(404, 409), leader=True, headers=NAMES_ITSELF,
    ),
    Operation(
        "POST", "/v1/queues/{path:path}/-/rename", rename_queue,
        "Rename a queue and all below it; what waits there follows",
        answer=Moved, status=202, body=Rename, errors=(404, 409), leader=True, headers=NAMES_ITSELF,
    ),
]  # fmt: skip
