"""Where a job shall go instead: pinned to a worker, or kept from the one where it is or was."""

from __future__ import annotations

from dataclasses import replace

from fairway.core.look import WorldLook
from fairway.core.matching import why_not
from fairway.core.model import Arrival, Extras, shape_of
from fairway.errors import Conflict, InvalidRequest
from fairway.ids import show
from fairway.names import MOST_TAGS
from fairway.node.engine import arrival_of_stored
from fairway.store import StoredJob


def relocated(job: StoredJob, to: str | None) -> Arrival:
    """Return a job as it shall wait: for worker *to*, or (None) for any other than its last."""
    extras = job.extras or Extras()
    new = _away(job, extras) if to is None else replace(extras, worker=to, away=_without(extras.away, to))
    return arrival_of_stored(replace(job, extras=new))


def _away(job: StoredJob, extras: Extras) -> Extras:
    here = job.worker
    if here is None:
        said = "it has not run anywhere; name the workers it is kept from with PATCH away"
        raise Conflict(f"job {show(job.id)} cannot be moved away: {said}", code="not_begun")
    away = (*_without(extras.away, here), here)
    if len(away) > MOST_TAGS:
        said = f"it is kept from {MOST_TAGS} workers already; change that with PATCH away"
        raise Conflict(f"job {show(job.id)} cannot be moved away: {said}", code="too_many")
    return replace(extras, worker="" if extras.worker == here else extras.worker, away=away)


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(one for one in names if one != name)


def pinned_anew(extras: Extras, changes: dict[str, object]) -> Extras:
    """Return what few jobs have with other workers named, as far as *changes* name some."""
    worker = changes.get("worker", extras.worker) or ""
    away = changes.get("away", extras.away)
    if not isinstance(worker, str) or not isinstance(away, tuple):
        raise TypeError("a worker is a name, away a tuple of them")
    if worker in away and ("worker" in changes or "away" in changes):
        field = "away" if "away" in changes else "worker"
        raise InvalidRequest(f"the job would be pinned to '{worker}' and kept from it", field=field)
    return replace(extras, worker=worker, away=away)


def why_not_there(world: WorldLook, job: StoredJob, to: str) -> tuple[str, str] | None:
    """Say why a job cannot go to a worker; None if it can."""
    found = [worker for worker in world.workers.values() if worker.spec.name == to]
    if not found:
        return "no_such_worker", f"there is no worker '{to}'"
    shape = shape_of(job.adapter, job.task, job.tags, job.once)
    lacks = [why_not(worker.spec, shape) for worker in found]
    if all(lacks):
        return "unfit", f"worker '{to}' cannot run the job: it lacks {lacks[0]}"
    if not any(worker.kind.attached(job.queue) for worker in found):
        return "unfit", f"worker '{to}' does not serve queue '{job.queue}'"
    return None
