"""What stands in a row, and the values it stands for.

Most jobs have the default rules, no tags and no losses: those are NULL, so that a row stays small and
nothing is decoded for it. Blobs are msgpack. Decoded rules and shapes are kept, since few differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from fairway.core.lifecycle import ENDED, State
from fairway.core.model import DEFAULT_RULES, Arrival, Delivery, Extras, Rules, Shape, shape_of, with_pins
from fairway.core.plan import Begun
from fairway.store import LiveAttempt, NewJob, StoredJob, Taken
from fairway.times import MICRO

WAITING, RUNNING, BLOCKED = 0, 1, 6
CODES = {"succeeded": 2, "failed": 3, "cancelled": 4, "unknown": 5}
STATES = {
    1: State.RUNNING,
    2: State.SUCCEEDED,
    3: State.FAILED,
    4: State.CANCELLED,
    5: State.UNKNOWN,
    6: State.BLOCKED,
}

Row = tuple[Any, ...]

_pack = msgspec.msgpack.Encoder().encode
_read_rules = msgspec.msgpack.Decoder(Rules).decode
_write_json = msgspec.json.Encoder().encode
_read_extras = msgspec.json.Decoder(Extras).decode
_read_losses = msgspec.msgpack.Decoder(tuple[int, ...]).decode


def job_row(job: NewJob) -> Row:
    """Return the parameters of `insert_job`."""
    once = job.delivery is Delivery.AT_MOST_ONCE
    return (
        job.id, job.queue, job.flow, job.priority, job.adapter, job.task, tags_text(job.tags), once,
        job.run_at, job.created_at, rules_blob(job.rules), job.unique, job.payload,
    )  # fmt: skip


def extras_row(job: NewJob) -> Row:
    """Return the parameters of `save_extras`."""
    blocked = job.extras is not None and job.extras.after
    return job.id, extras_text(job.extras), BLOCKED if blocked else WAITING


def begun_from(rows: Iterable[Row]) -> list[Begun]:
    """Read the rows of `read_begun`; written out in full because thousands pass here in one commit."""
    return [
        Begun(
            job, attempt, generation, tries, crashes,
            () if losses is None else _read_losses(losses),
            DEFAULT_RULES if rules is None else rules_from(rules),
            unique, payload,
        )
        for job, attempt, generation, tries, crashes, losses, rules, unique, payload in rows
    ]  # fmt: skip


def taken_from(rows: Iterable[Row]) -> list[Taken]:
    """Read the rows of `take_arrivals` and `waiting_below`."""
    return [
        Taken(
            number,
            Arrival(
                job, queue, flow, priority, _pinned(shape_from(adapter, task, tags, once), extras), place,
                wanted,
                None if extras is None else extras_from(extras), code == BLOCKED,
            ),
        )
        for number, job, queue, flow, priority, adapter, task, tags, once, place, wanted, extras, code in rows
    ]  # fmt: skip


def _pinned(shape: Shape, extras: str | None) -> Shape:
    return shape if extras is None else with_pins(shape, extras_from(extras))


def live_from(row: Row) -> LiveAttempt:
    """Read a row of `live_attempts`."""
    [begun] = begun_from([row[:9]])
    queue, flow, priority, adapter, task, tags, once, place = row[9:17]
    incarnation, worker, started_at, cancelling, extras = row[17:]
    shape = _pinned(shape_from(adapter, task, tags, once), extras)
    arrival = Arrival(begun.job, queue, flow, priority, shape, place, None, extras_from(extras))
    return LiveAttempt(arrival, begun, incarnation, worker, started_at, bool(cancelling))


def stored_from(row: Row) -> StoredJob:
    """Read a row of `find_jobs` or of a search."""
    (
        job, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt,
        tries, crashes, losses, generation, cancelling, incarnation, worker, started_at, ended_at, rules,
        unique, outcome, payload, extras, cause,
    ) = row  # fmt: skip
    return StoredJob(
        id=job, queue=queue, flow=flow, priority=priority, state=state_from(state, run_at),
        delivery=Delivery.AT_MOST_ONCE if once else Delivery.AT_LEAST_ONCE, adapter=adapter, task=task,
        tags=tags_from(tags), run_at=run_at, place=place, created_at=created_at, attempt=attempt,
        tries=tries, crashes=crashes, losses=() if losses is None else _read_losses(losses),
        generation=generation, rules=rules_from(rules), payload=payload, unique=unique,
        incarnation=incarnation, worker=worker, started_at=started_at, ended_at=ended_at,
        cancelling=bool(cancelling), outcome=outcome, extras=extras_from(extras), cause=cause,
    )  # fmt: skip


def state_from(code: int, run_at: int) -> State:
    """Name a stored state; the two that wait are told apart by the clock."""
    if code != WAITING:
        return STATES[code]
    return State.SCHEDULED if run_at > time.time() * MICRO else State.QUEUED


@lru_cache(4096)
def shape_from(adapter: str, task: str, tags: str | None, once: int) -> Shape:
    """Read a shape."""
    return shape_of(adapter, task, tags_from(tags), bool(once))


@lru_cache(4096)
def rules_blob(rules: Rules) -> bytes | None:
    """Pack rules; None stands for the default ones."""
    return None if rules == DEFAULT_RULES else _pack(rules)


@lru_cache(4096)
def rules_from(blob: bytes | None) -> Rules:
    """Unpack rules."""
    return DEFAULT_RULES if blob is None else _read_rules(blob)


@lru_cache(4096)
def tags_text(tags: tuple[str, ...]) -> str | None:
    """Write tags as a JSON array; None stands for no tags."""
    return msgspec.json.encode(tags).decode() if tags else None


@lru_cache(4096)
def tags_from(text: str | None) -> tuple[str, ...]:
    """Read tags."""
    return tuple(msgspec.json.decode(text)) if text else ()


def extras_text(extras: Extras | None) -> str | None:
    """Write what few jobs have as JSON; None stands for nothing of it."""
    return None if extras is None else _write_json(extras).decode()


def extras_from(text: str | None) -> Extras | None:
    """Read what few jobs have."""
    if text is None:
        return None
    return _short_extras(text) if len(text) < 500 else _read_extras(text)


@lru_cache(1024)
def _short_extras(text: str) -> Extras:
    return _read_extras(text)


def endings_from(jobs: Sequence[int], rows: Iterable[Row]) -> dict[int, State | None]:
    """Read the rows of `ended_states`: those of jobs that are there, ended or not."""
    found = {job: STATES.get(code) for job, code in rows}
    return {job: found.get(job) for job in jobs if job not in found or found[job] in ENDED}


def losses_blob(losses: tuple[int, ...]) -> bytes | None:
    """Pack the times at which workers were lost; None stands for never."""
    return _pack(losses) if losses else None
