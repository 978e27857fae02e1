"""How things look from outside: the public forms of jobs, queues, workers, the cluster and events.

Each is a plain dictionary ready for JSON, typed, so that the OpenAPI document is drawn from the same
definition that the code is checked against. Payloads and values are passed through as the JSON they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairway.core.demand import Demand as DemandValue
from fairway.core.eta import Eta
from fairway.core.lifecycle import ENDED, State
from fairway.core.model import Extras, Timers
from fairway.core.numbers import Figures as FiguresValue
from fairway.core.plan import QueueChange as ChangeRecord
from fairway.desk import ClusterView, FlowView, MoveView, QueueView, ScheduleView, Standing, WorkerView
from fairway.desk import Troubles as TroublesValue
from fairway.ids import show
from fairway.masking import mask_stored, mask_work
from fairway.noted_views import noted_view
from fairway.shapes import (
    BackoffShape,
    Changed,
    Cluster,
    Company,
    Demand,
    Difference,
    EtaShape,
    EventShape,
    Failure,
    Figures,
    Flow,
    Job,
    Leader,
    Node,
    NotifyShape,
    Operation,
    Outcome,
    Percentiles,
    Queue,
    QueueChange,
    QueueWithFlows,
    Schedule,
    TaskShape,
    Troubles,
    Waiting,
    Worker,
    WorkerInShort,
)
from fairway.spec import JobSpec
from fairway.store import (
    CauseRow,
    Leadership,
    NewJob,
    NodeRow,
    NumberedChange,
    NumberedEvent,
    Page,
    StoredJob,
    StoredNote,
)
from fairway.times import LATEST, MICRO, show_time

CRASH_WINDOW = round(Timers().crash_window * MICRO)


def job_view(
    job: StoredJob, now: int, standing: Standing | None = None, note: StoredNote | None = None
) -> Job:
    """Show a job; *standing* is what the leader knows of a waiting one, *note* what its last attempt said."""
    ended = job.state in ENDED
    rules = job.rules if standing is None or standing.rules is None else standing.rules
    contents = _read_contents(job.payload)
    return {
        "id": show(job.id),
        "queue": job.queue,
        "flow": job.flow,
        "priority": job.priority,
        "state": _state(job, now),
        "delivery": str(job.delivery),
        "task": job.task or None,
        "args": contents.args,
        "kwargs": contents.kwargs,
        "work": contents.work if job.task else mask_stored(contents.work),
        "tags": list(job.tags),
        "unique": job.unique,
        "unique_for": None if job.extras is None else job.extras.unique_for,
        **_company(job.extras),
        "run_at": show_time(job.run_at),
        "deadline": None if job.extras is None else _time(job.extras.deadline),
        "attempt": job.attempt,
        "tries": job.tries,
        "max_attempts": rules.max_attempts,
        "crashes": _crashes(job, now),
        "max_crashes": rules.max_crashes,
        "generation": job.generation,
        "timeout": rules.timeout,
        "backoff": {"first": rules.retry_first, "max": rules.retry_max},
        "grace": rules.grace,
        "worker": job.worker,
        "pinned_to": None if job.extras is None else job.extras.worker or None,
        "away": [] if job.extras is None else list(job.extras.away),
        "cancelling": job.cancelling,
        "created_at": show_time(job.created_at),
        "started_at": _time(job.started_at),
        "ended_at": _time(job.ended_at),
        "outcome": _outcome(job) if ended else None,
        "last_error": None if ended or job.outcome is None else msgspec.Raw(job.outcome),
        "waiting": _waiting(standing),
        "position": None if standing is None else standing.position,
        "eta": None if standing is None else _eta(standing.eta),
        **noted_view(job, note),
        "cause": job.cause,
        "notify": _notify(job.extras),
    }


def accepted_job(job: NewJob) -> StoredJob:
    """Return a job as it is at the moment it was accepted."""
    return StoredJob(
        id=job.id,
        queue=job.queue,
        flow=job.flow,
        priority=job.priority,
        state=State.BLOCKED if job.extras is not None and job.extras.after else State.QUEUED,
        delivery=job.delivery,
        adapter=job.adapter,
        task=job.task,
        tags=job.tags,
        run_at=job.run_at,
        place=job.run_at,
        created_at=job.created_at,
        attempt=0,
        tries=0,
        crashes=0,
        losses=(),
        generation=0,
        rules=job.rules,
        payload=job.payload,
        unique=job.unique,
        extras=job.extras,
    )


def queue_view(queue: QueueView) -> Queue:
    """Show a queue with its settings and live numbers."""
    settings = queue.settings
    return {
        "path": queue.path,
        "settings": {
            "limit": settings.limit,
            "assured": settings.assured,
            "lend": settings.lend,
            "priority": settings.priority,
            "weight": settings.weight,
            "rate": settings.rate,
            "burst": settings.burst,
            "paused": settings.paused,
            "discipline": settings.discipline,
            "unique": settings.unique,
            "on_lease_lost": settings.on_lease_lost,
            "quantum": settings.quantum,
            "charge": settings.charge,
            "depth": settings.depth,
            "capacity": settings.capacity,
            "divisor": settings.divisor,
            "perturb": settings.perturb,
            "overflow": settings.overflow,
            "flow_weights": dict(settings.flow_weights) if settings.flow_weights is not None else None,
            "max_attempts": settings.max_attempts,
            "max_crashes": settings.max_crashes,
            "timeout": settings.timeout,
            "backoff": _backoff(settings.backoff),
            "grace": settings.grace,
            "retention": settings.retention,
        },
        "waiting": queue.waiting,
        "scheduled": queue.scheduled,
        "running": queue.running,
        "oldest_wait": queue.oldest_wait,
        "limited_by": queue.limited_by,
        "moving_to": None if settings.moving is None else settings.moving["to"],
        "changed": _changed(queue.changed),
        **_figures(queue.figures, queue.slot_seconds),
    }


def whole_queue_view(queue: QueueView) -> QueueWithFlows:
    """Show a queue with its flows as well."""
    return {**queue_view(queue), "flows": [_flow_view(flow) for flow in queue.flows]}


def _flow_view(flow: FlowView) -> Flow:
    return {
        "flow": flow.flow,
        "waiting": flow.waiting,
        "running": flow.running,
        "oldest_wait": flow.oldest_wait,
        "limited_by": flow.limited_by,
        "weight": flow.weight,
        "share": flow.share,
        **_figures(flow.figures, flow.slot_seconds),
    }


def change_view(numbered: NumberedChange) -> QueueChange:
    """Show a change of a queue's settings."""
    number, change = numbered
    return {"number": number, "by": change.who, "at": show_time(change.at), **difference_view(change)}


def difference_view(change: ChangeRecord) -> Difference:
    """Show what is other after a change than before."""
    return {"path": change.path, "old": _settings(change.old), "new": _settings(change.new)}


def _settings(stored: bytes | None) -> dict[str, Any] | None:
    if stored is None:
        return None
    settings: dict[str, Any] = msgspec.json.decode(stored)
    return settings | ({"moving": settings["moving"]["to"]} if settings.get("moving") else {})


def _changed(last: NumberedChange | None) -> Changed | None:
    if last is None:
        return None
    return {"number": last.number, "by": last.change.who, "at": show_time(last.change.at)}


def move_view(move: MoveView) -> Operation:
    """Show how far a move is."""
    return {
        "id": move.operation,
        "kind": "rename" if move.rename else "move",
        "from": move.path,
        "to": move.to,
        "by": move.by,
        "state": "running" if move.ended_at is None else "done",
        "started_at": show_time(move.started_at),
        "ended_at": _time(move.ended_at),
        "jobs": move.jobs,
        "left": move.left,
        "running": move.running,
        "warnings": move.warnings,
    }


def demand_view(demand: DemandValue) -> Demand:
    """Show which slots are wanted."""
    return {
        "slots": demand.slots,
        "free": demand.free,
        "shapes": [
            {
                "adapter": shape.adapter,
                "task": shape.task or None,
                "tags": list(shape.tags),
                "away": list(shape.away),
                "jobs": shape.jobs,
                "slots": shape.slots,
                "seconds": shape.seconds,
                "running": shape.running,
                "slots_there": shape.slots_there,
                "slots_free": shape.slots_free,
            }
            for shape in demand.shapes
        ],
        "more": demand.more,
    }


def worker_in_short(worker: WorkerView) -> WorkerInShort:
    """Show a worker among others."""
    return {
        "name": worker.name,
        "incarnation": worker.incarnation,
        "state": worker.state,
        "slots": worker.slots,
        "busy": worker.busy,
        "running": worker.running,
        "tags": worker.tags,
        "adapters": worker.adapters,
        "tasks": None if worker.tasks is None else len(worker.tasks),
        "queues": worker.queues,
        "joined_at": _time(worker.joined_at),
        "last_beat_seconds": worker.last_beat_seconds,
        "version": worker.version,
    }


def worker_view(worker: WorkerView) -> Worker:
    """Show a worker with all it says of itself."""
    facts = dict(worker.facts)
    versions = facts.pop("versions", None)
    shown = versions if isinstance(versions, dict) else {}
    return {
        **worker_in_short(worker),
        "tasks": None if worker.tasks is None else [_task(worker, name) for name in worker.tasks],
        "facts": facts,
        "versions": {str(name): str(version) for name, version in shown.items()},
    }


def _task(worker: WorkerView, name: str) -> TaskShape:
    return {"name": name, "signature": worker.signatures.get(name), "async": name in worker.async_tasks}


def cluster_view(cluster: ClusterView) -> Cluster:
    """Show who leads and who is there."""
    leader = cluster.leader
    return {
        "leader": leader.name if leader else None,
        "leader_url": leader.url if leader else None,
        "term": leader.term if leader else None,
        "this": cluster.this,
        "leading": cluster.leading,
        "ready": cluster.ready,
        "link": _link(cluster.link),
        "nodes": [_node(node, cluster) for node in cluster.nodes],
        "history": [_leader(past) for past in cluster.history],
    }


def troubles_view(troubles: TroublesValue) -> Troubles:
    """Show what failed inside the leader."""
    return {
        "advisory": [
            {"part": str(one.part), "place": one.place, "error": one.error, "count": one.count}
            for one in troubles.mishaps
        ],
        "culprits": [
            {
                "what": one.what,
                "error": one.error,
                "job": None if one.job is None else show(one.job),
                "leaders": one.leaders,
                "refused": refused,
                "first_at": show_time(one.first_at),
                "last_at": show_time(one.last_at),
                "until": show_time(one.until),
            }
            for one, refused in troubles.culprits
        ],
    }


def schedule_view(schedule: ScheduleView) -> Schedule:
    """Show a schedule."""
    spec, last = schedule.spec, schedule.progress.last
    return {
        "name": schedule.name,
        "cron": spec.cron,
        "zone": spec.zone if spec.every is not None else spec.zone or "UTC",
        "every": spec.every,
        "anchor": spec.anchor,
        "job": _shown_job(spec.job),
        "missed": spec.missed,
        "missed_most": spec.missed_most,
        "overlap": spec.overlap,
        "jitter": spec.jitter,
        "paused": schedule.progress.paused,
        "next": [show_time(fire) for fire in schedule.next],
        "last": None
        if last is None
        else {
            "at": show_time(last.at),
            "job": None if last.job is None else show(last.job),
            "what": last.what,
        },
        "pending": len(schedule.progress.pending),
        "created_at": show_time(schedule.created_at),
        "changed_at": show_time(schedule.changed_at),
    }


def _shown_job(spec: JobSpec) -> JobSpec:
    """Return what a schedule submits, as it may be shown."""
    return spec if spec.work is None else msgspec.structs.replace(spec, work=mask_work(spec.work))


def event_view(numbered: NumberedEvent) -> EventShape:
    """Show an event as the stream sends it."""
    event = numbered.event
    return {
        "id": f"{numbered.number}.{numbered.offset}",
        "kind": event.kind,
        "at": show_time(event.at),
        "job": None if event.job is None else show(event.job),
        "queue": event.queue,
        "state": event.state,
        "attempt": event.attempt,
        "worker": event.worker,
        "task": event.task,
        "detail": event.detail,
    }


class _Contents(msgspec.Struct):
    """A payload taken apart without being read."""

    args: msgspec.Raw = msgspec.Raw(b"null")
    kwargs: msgspec.Raw = msgspec.Raw(b"null")
    work: msgspec.Raw = msgspec.Raw(b"null")


def _company(extras: Extras | None) -> Company:
    """Say which jobs it came after, and with which it belongs together."""
    if extras is None:
        return {"group": None, "after": [], "if_failed": "fail"}
    after = [show(one) for one in extras.after]
    return {"group": extras.group, "after": after, "if_failed": extras.if_failed}


def _notify(extras: Extras | None) -> NotifyShape | None:
    notify = None if extras is None else extras.notify
    return None if notify is None else {"url": notify.url, "on": list(notify.on)}


def failure_view(cause: CauseRow, page: Page, now: int) -> Failure:
    """Show a group of failures; *page* has some of its jobs, newest first."""
    muted = cause.is_muted(now)
    ends = muted and cause.muted_until is not None and cause.muted_until <= LATEST
    return {
        "id": cause.id,
        "task": cause.task,
        "type": cause.type,
        "message": cause.message,
        "frame": cause.frame,
        "first_at": show_time(cause.first_at),
        "last_at": show_time(cause.last_at),
        "failures": cause.failures,
        "jobs": page.total,
        "samples": [show(job.id) for job in page.jobs],
        "muted": muted,
        "muted_until": _time(cause.muted_until) if ends else None,
    }


def _state(job: StoredJob, now: int) -> str:
    """`scheduled` and `queued` are one stored state, told apart by time."""
    if job.state is State.QUEUED or job.state is State.SCHEDULED:
        return State.SCHEDULED.value if job.run_at > now else State.QUEUED.value
    return job.state.value


def _crashes(job: StoredJob, now: int) -> int:
    """Lost workers count for a day, so that long jobs survive machines that come and go."""
    if not job.losses:
        return job.crashes
    since = (job.ended_at or now) - CRASH_WINDOW
    return job.crashes + sum(1 for loss in job.losses if loss > since)


def _outcome(job: StoredJob) -> Outcome:
    if job.state is State.SUCCEEDED:
        return {"ok": True, "value": msgspec.Raw(job.outcome or b"null")}
    error = msgspec.json.decode(job.outcome) if job.outcome else {}
    if not isinstance(error, dict):
        error = {"message": error}
    reason = str(error.pop("reason", job.state.value))
    return {"ok": False, "reason": reason, "error": error or None}


def _waiting(standing: Standing | None) -> Waiting | None:
    if standing is None or standing.waiting is None:
        return None
    waiting = standing.waiting
    return {"reason": waiting.reason, "detail": waiting.detail, "on": waiting.on}


def _eta(eta: Eta | None) -> EtaShape | None:
    if eta is None:
        return None
    return {
        "starts_at": show_time(eta.starts_at),
        "p50": [show_time(at) for at in eta.p50],
        "p90": [show_time(at) for at in eta.p90],
        "basis": eta.basis,
    }


def _backoff(backoff: Mapping[str, float] | None) -> BackoffShape | None:
    return None if backoff is None else {"first": backoff["first"], "max": backoff["max"]}


def _figures(figures: FiguresValue | None, slot_seconds: float) -> Figures:
    if figures is None:
        return {
            "begun": None,
            "ended": None,
            "rates": None,
            "wait": None,
            "run": None,
            "errors": None,
            "slot_seconds": slot_seconds,
        }
    return {
        "begun": figures.begun,
        "ended": figures.ended,
        "rates": {"in": figures.rate_in, "begun": figures.rate_begun, "out": figures.rate_out},
        "wait": _percentiles(figures.wait),
        "run": _percentiles(figures.run),
        "errors": figures.errors,
        "slot_seconds": slot_seconds,
    }


def _percentiles(seconds: list[float]) -> Percentiles | None:
    return {"p50": seconds[0], "p90": seconds[1], "p99": seconds[2]} if seconds else None


def _node(node: NodeRow, cluster: ClusterView) -> Node:
    leads = cluster.leader is not None and cluster.leader.holder == node.incarnation
    linked, stands = _known(node, cluster)
    role = None if stands is None else "stands" if stands else "does not lead"
    gone = node.incarnation in cluster.silent and not linked and not leads
    return {
        "name": node.name,
        "incarnation": node.incarnation,
        "url": node.url,
        "version": node.version,
        "started_at": show_time(node.started_at),
        "seen_at": show_time(node.seen_at),
        "role": "leads" if leads else "gone" if gone else role,
        "link": None if leads or gone else _link(linked),
    }


def _known(node: NodeRow, cluster: ClusterView) -> tuple[bool | None, bool | None]:
    """Return whether a node reaches the leader and whether it stands, as far as this node knows."""
    if cluster.leading:
        return node.incarnation in cluster.linked, cluster.linked.get(node.incarnation)
    if node.name == cluster.this:
        return cluster.link, cluster.stands
    return None, None


def _link(up: bool | None) -> str | None:
    return None if up is None else "up" if up else "store only"


def _leader(past: Leadership) -> Leader:
    return {"term": past.term, "name": past.name, "elected_at": show_time(past.elected_at)}


def _time(micros: int | None) -> str | None:
    return None if micros is None else show_time(micros)


_read_contents = msgspec.json.Decoder(_Contents).decode
