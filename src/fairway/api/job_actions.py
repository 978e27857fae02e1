"""One thing done to everything that matches a query, in the background; and how far such operations are."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fairway.action import MOST_CANARIES, Action, Canary
from fairway.api.answers import Answer, answer_json
from fairway.api.asker import NAMES_ITSELF, asker
from fairway.api.jobs import Changes, read_changes
from fairway.api.operation import Call, Operation
from fairway.clock import wall
from fairway.errors import InvalidRequest, NotFound
from fairway.ids import find_id, show
from fairway.names import check_worker
from fairway.operation_views import action_view, operation_view
from fairway.query import parse
from fairway.shapes import AnyOperation, JobsOperation, Matches, Operations
from fairway.spec import Duration, WorkerName
from fairway.times import parse_duration

SAMPLE = 10
LONGEST_CANARY_SECONDS = 7 * 86_400

Verb = Literal["cancel", "kill", "retry", "delete", "move", "edit", "prefer", "requeue", "relocate"]
Share = Annotated[float, Meta(gt=0, le=1)]
CanarySize = Annotated[
    int | str,
    Meta(
        description="retry so many first, or a share (`5%`) of at most 10,000, and the rest if they succeed",
        extra_json_schema={"pattern": "^[0-9]{1,3}(\\.[0-9]+)?%$", "minimum": 1, "maximum": MOST_CANARIES},
    ),
]

_percent = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%", re.ASCII)


class JobsAction(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What is done to all jobs that match `q`; an empty one needs `all`.

    `changes` belong to edit and move, `to` or `away` to relocate, the canary to retry.
    """

    action: Verb
    q: str = ""
    all: bool = False
    dry_run: bool = False
    changes: Changes | UnsetType = UNSET
    to: WorkerName | UnsetType = UNSET
    away: Literal[True] | UnsetType = UNSET
    canary: CanarySize | UnsetType = UNSET
    canary_pass: Share | UnsetType = UNSET
    canary_timeout: Duration | UnsetType = UNSET


#: What is tried again if nobody says otherwise: not what went well, nor what somebody no longer wanted.
FAILED = "state:failed,unknown"
#: Which arguments belong to which actions.
ARGUMENTS = {
    "changes": ("edit", "move"),
    "to": ("relocate",),
    "away": ("relocate",),
    "canary": ("retry",),
    "canary_pass": ("retry",),
    "canary_timeout": ("retry",),
}


async def act_on_jobs(call: Call) -> Answer:
    """Begin an operation, or say what it would be done to."""
    asked: JobsAction = call.body
    action = read_action(asked, asker(call))
    if asked.dry_run:
        return answer_json(await _matches(call, action))
    return answer_json(action_view(await call.desk.start_action(action)), 202)


async def _matches(call: Call, action: Action) -> Matches:
    count = await call.desk.store.count(action.query, wall())
    page = await call.desk.search(action.query, sort="created_at", limit=SAMPLE, cursor=None)
    return {"count": count, "sample": [show(job.id) for job in page.jobs]}


async def list_operations(call: Call) -> Answer:
    """Show what is under way."""
    return answer_json({"operations": [operation_view(one) for one in await call.desk.operations()]})


async def show_operation(call: Call) -> Answer:
    """Show how far an operation is."""
    return answer_json(operation_view(await call.desk.find_operation(_id(call))))


async def abort_operation(call: Call) -> Answer:
    """Let an operation stop."""
    return answer_json(action_view(await call.desk.abort_operation(_id(call))))


def _id(call: Call) -> str:
    operation = call.path["id"]
    if find_id(operation) is None:
        raise NotFound(f"{operation[:60]!a} is no id of an operation")
    return operation


def read_action(asked: JobsAction, by: str) -> Action:
    """Check what is asked for; nothing that belongs to another action is taken."""
    for name, verbs in ARGUMENTS.items():
        if getattr(asked, name) is not UNSET and asked.action not in verbs:
            raise InvalidRequest(
                f"{name} belongs to {' and '.join(verbs)}, not to {asked.action}", field=name
            )
    query = parse(asked.q)
    if not query.terms and not asked.all:
        raise InvalidRequest('an empty q matches every job; if you mean that, say "all": true', field="q")
    if query.terms and asked.all:
        raise InvalidRequest("all belongs to an empty q", field="all")
    if asked.action == "retry" and all(term.field != "state" for term in query.terms):
        return read_action(msgspec.structs.replace(asked, q=f"{asked.q} {FAILED}".strip(), all=False), by)
    return Action(asked.action, asked.q, query, by, _changes(asked), _goal(asked), _canary(asked))


def _changes(asked: JobsAction) -> dict[str, Any]:
    if asked.action not in ARGUMENTS["changes"]:
        return {}
    if asked.changes is UNSET:
        raise InvalidRequest(f"{asked.action} needs changes", field="changes")
    return read_changes(asked.changes)


def _goal(asked: JobsAction) -> str | None:
    if asked.action == "relocate" and (asked.to is UNSET) == (asked.away is UNSET):
        raise InvalidRequest("give exactly one of to and away", field="to")
    return None if asked.to is UNSET else check_worker(asked.to, "to")


def _canary(asked: JobsAction) -> Canary | None:
    if asked.canary is UNSET:
        for name in ("canary_pass", "canary_timeout"):
            if getattr(asked, name) is not UNSET:
                raise InvalidRequest(f"{name} needs a canary", field=name)
        return None
    jobs, share = _size(asked.canary)
    needed = 1.0 if asked.canary_pass is UNSET else asked.canary_pass
    seconds = 600.0 if asked.canary_timeout is UNSET else _seconds(asked.canary_timeout)
    return Canary(jobs, share, needed, seconds)


def _size(canary: int | str) -> tuple[int, float]:
    if isinstance(canary, int) and 1 <= canary <= MOST_CANARIES:
        return canary, 0.0
    found = _percent.fullmatch(canary) if isinstance(canary, str) else None
    if found is None or not 0 < float(found[1]) <= 100:
        raise InvalidRequest(f"canary is 1 to {MOST_CANARIES} jobs, or a share such as 5%", field="canary")
    return 0, float(found[1]) / 100


def _seconds(value: str | int | float) -> float:
    seconds = parse_duration(value, "canary_timeout")
    if not 0 < seconds <= LONGEST_CANARY_SECONDS:
        raise InvalidRequest("canary_timeout must be more than 0 and at most 7 days", field="canary_timeout")
    return seconds


#: These stand before the calls on a job, whose path would take the first one in.
OPERATIONS = [
    Operation(
        "POST", "/v1/jobs/actions", act_on_jobs,
        "Do something to all jobs that match a query, in the background; 200 with their number if `dry_run`",
        answer=JobsOperation, status=202, others=(200,), other_answer=Matches, body=JobsAction, errors=(429,),
        leader=True, headers=NAMES_ITSELF,
    ),
    Operation(
        "GET", "/v1/operations", list_operations, "Show actions on many jobs, and moves of queues under way",
        answer=Operations, leader=True,
    ),
    Operation(
        "GET", "/v1/operations/{id}", show_operation,
        "Show how far an action on many jobs, or a move of a queue, is",
        answer=AnyOperation, errors=(404,), leader=True,
    ),
    Operation(
        "DELETE", "/v1/operations/{id}", abort_operation,
        "Abort an action on many jobs after the batch under way; what is done stays done",
        answer=JobsOperation, errors=(404, 409), leader=True,
    ),
]  # fmt: skip
