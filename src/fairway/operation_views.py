"""How operations are shown: actions on many jobs, and moves of queues."""

from __future__ import annotations

from typing import cast

from fairway.action import ActionProgress, CanaryProgress
from fairway.desk import MoveView
from fairway.ids import show
from fairway.shapes import AnyOperation, CanaryState, JobsOperation
from fairway.times import show_time
from fairway.views import move_view


def operation_view(operation: ActionProgress | MoveView) -> AnyOperation:
    """Show how far an operation of either kind is."""
    view = move_view(operation) if isinstance(operation, MoveView) else action_view(operation)
    return cast(AnyOperation, view)


def action_view(progress: ActionProgress) -> JobsOperation:
    """Show how far an action on many jobs is."""
    action = progress.action
    return {
        "id": progress.operation,
        "kind": "jobs",
        "action": action.verb,
        "q": action.text,
        "by": action.by,
        "state": progress.state,
        "started_at": show_time(progress.started_at),
        "ended_at": None if progress.ended_at is None else show_time(progress.ended_at),
        "found": progress.found,
        "done": progress.done,
        "refused": progress.refused,
        "refusals": [
            {"id": show(one.job), "code": one.code, "detail": one.detail} for one in progress.refusals
        ],
        "canary": None if progress.canary is None else _canary_view(progress.canary),
        "reason": progress.reason,
    }


def _canary_view(canary: CanaryProgress) -> CanaryState:
    return {
        "jobs": canary.jobs,
        "succeeded": canary.succeeded,
        "failed": canary.failed,
        "passed": canary.passed,
    }
