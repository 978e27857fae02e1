"""What is known of queues beside their live numbers: how they were set before, and moves, also past ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairway.core.look import WorldLook
from fairway.core.moving import is_below, left_in
from fairway.core.queue import moved_path
from fairway.core.settings import read_settings, show_settings
from fairway.desk import MoveView
from fairway.errors import Conflict, NotFound
from fairway.schedule_spec import spec_of
from fairway.store import Store

#: Moves that ended are found among so many changes.
MOST_CHANGES = 1000


async def settings_before(store: Store, path: str, number: int | None) -> dict[str, Any]:
    """Return a queue's settings as they were after a change; None: as they were before the last one."""
    found = await store.queue_changes(path, 1, None if number is None else number + 1)
    if not found or (number is not None and found[0].number != number):
        which = "no change" if number is None else f"no change {number}"
        raise NotFound(f"{which} of queue '{path}' is known; see its history", code="no_such_change")
    change = found[0].change
    settings = change.old if number is None else change.new
    if settings is None and number is None and (origin := await _renamed_from(store, path, change.at)):
        raise Conflict(
            f"queue '{path}' was renamed from '{origin}' and has not been changed since; set what you want, "
            f"the history of '{origin}' shows how it was",
            code="renamed",
        )
    if settings is None and number is not None:
        raise Conflict(f"after change {number} there was no queue '{path}'", code="deleted")
    known = read_settings(msgspec.json.decode(settings or b"{}"))
    if known.moving is not None:
        raise Conflict(f"queue '{path}' was being moved then; name the number of a change", code="moving")
    return show_settings(known)


async def _renamed_from(store: Store, path: str, at: int) -> str | None:
    """Return the name that a queue had before, if it was made by a rename at that moment."""
    for _, change in await store.queue_changes(None, MOST_CHANGES):
        moving = (msgspec.json.decode(change.new).get("moving") if change.new is not None else None) or {}
        if change.at == at and moving.get("rename") and is_below(path, moving["to"]):
            return moved_path(path, moving["to"], change.path)
    return None


# --- moves -----------------------------------------------------------------------------------------------
def find_under_way(world: WorldLook, operation: str) -> MoveView | None:
    """Return a move that goes on."""
    return next((view for view in moves_under_way(world) if view.operation == operation), None)


def moves_under_way(world: WorldLook) -> list[MoveView]:
    """Return the moves that go on."""
    found = [(path, world.tree.queues[path]) for path in world.tree.moving]
    return [
        _view(path, queue.settings.moving, None, left_in(world, queue), queue.in_use)
        for path, queue in found
        if queue.settings.moving
    ]


async def find_over(store: Store, operation: str) -> MoveView | None:
    """Return a move that has ended: the change that deleted its branch says which it was."""
    for _, change in await store.queue_changes(None, MOST_CHANGES):
        if change.new is None and change.old is not None:
            moving = msgspec.json.decode(change.old).get("moving") or {}
            if moving.get("operation") == operation:
                return _view(change.path, moving, change.at, 0, 0)
    return None


def _view(path: str, moving: Mapping[str, Any], ended_at: int | None, left: int, running: int) -> MoveView:
    return MoveView(
        operation=moving["operation"],
        rename=moving["rename"],
        path=path,
        to=moving["to"],
        by=moving["by"],
        started_at=moving["at"],
        ended_at=ended_at,
        jobs=moving["jobs"],
        left=left,
        running=running,
    )


# --- who names a branch that goes -------------------------------------------------------------------------
def strange_workers(world: WorldLook, path: str, to: str) -> list[str]:
    """Return a word on each worker that serves a queue of the branch, but not where it goes."""
    source = world.tree.find(path)
    branch = [queue.path for queue in source.subtree()] if source is not None else []
    names = {
        worker.spec.name
        for worker in world.workers.values()
        for old in branch
        if worker.kind.attached(old) and not worker.kind.attached(moved_path(old, path, to))
    }
    return [f"worker '{name}' serves '{path}' or queues below it, but not '{to}'" for name in sorted(names)]


async def strange_schedules(store: Store, path: str) -> list[str]:
    """Return a word on each schedule that submits to the branch: it would make it anew."""
    found = [(row.name, spec_of(row).job.queue) for row in await store.schedule_rows()]
    return [
        f"schedule '{name}' submits to '{queue}'"
        for name, queue in found
        if queue == path or queue.startswith(path + "/")
    ]
