"""Set mode: a job's payload is its unique key, so equal jobs are one.

A job asks for it (`unique: true`), or its queue does (`unique=true`, inherited) for jobs that have no key of
their own. Anybody may insert jobs, so whoever submits gives them their keys: the leader by its tree, all
others by the queues' rows, which they read by path and remember for a moment. Whoever hands a job to a store
comes through here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fairway.clock import moment
from fairway.errors import InvalidRequest
from fairway.names import check_text
from fairway.store import NewJob

#: No key that is given by hand begins like this.
PREFIX = "payload="
NODE_SECONDS, CLIENT_SECONDS = 1.0, 3.0
MOST_REMEMBERED = 10_000

_canonical = msgspec.json.Encoder(order="deterministic").encode


def payload_key(adapter: str, task: str, payload: bytes) -> str:
    """Return the key that jobs have in common if they do the same, in whatever order their names stand."""
    contents = _canonical([adapter, task, msgspec.json.decode(payload)])
    return PREFIX + hashlib.sha256(contents).hexdigest()


def check_key(key: str) -> str:
    """Return a key that was given by hand, or say what is wrong with it."""
    if key.startswith(PREFIX):
        raise InvalidRequest(f"a unique key cannot begin with '{PREFIX}': such are made from payloads",
                             field="unique")  # fmt: skip
    return check_text(key, "unique")


def with_keys(jobs: Sequence[NewJob], is_keyed: Callable[[str], bool]) -> Sequence[NewJob]:
    """Give jobs of queues in set mode their keys; refuse those that need one and have none."""
    keyed = {queue for queue in _without_keys(jobs) if is_keyed(queue)}
    if not keyed and not any(job.replace or job.extras is not None for job in jobs):
        return jobs  # nearly always: a bulk is not walked over twice
    return [job if job.unique is not None else _with_key(job, keyed) for job in jobs]


def _with_key(job: NewJob, keyed: Collection[str]) -> NewJob:
    if job.queue in keyed:
        return job._replace(unique=payload_key(job.adapter, job.task, job.payload))
    if job.replace or (job.extras is not None and job.extras.unique_for is not None):
        field = "replace" if job.replace else "unique_for"
        raise InvalidRequest(
            f"{field} needs a unique key: give unique, or set unique=true on queue '{job.queue}'", field=field
        )
    return job


def paths_to_ask(jobs: Iterable[NewJob]) -> set[str]:
    """Return the queues that say whether these jobs are in set mode: their own and those above."""
    return {above for queue in _without_keys(jobs) for above in _up(queue)}


def _without_keys(jobs: Iterable[NewJob]) -> set[str]:
    """Return the queues of the jobs that have no key of their own."""
    return {job.queue for job in jobs if job.unique is None}


def by_rows(rows: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return the answer that the queues' rows give."""
    own = {path: _own_mode(settings) for path, settings in rows.items()}
    return lambda queue: _inherited(queue, own)


class KeyedQueues:
    """Which queues are in set mode, for whoever does not lead. Owned by one event loop."""

    def __init__(
        self,
        find: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]],
        seconds: float = NODE_SECONDS,
    ) -> None:
        self._find, self._seconds = find, seconds
        self._known: dict[str, tuple[bool | None, float]] = {}  # what a queue says itself, and until when
        self._plain: dict[str, float] = {}  # queues that are not in set mode, and until when that is known

    async def give_keys(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """Return the jobs with the keys they get from their queues."""
        now = moment().mono
        if len(jobs) == 1 and self._is_plain(jobs[0], now):
            return jobs
        paths = paths_to_ask(jobs)
        known = {path: found for path in paths if (found := self._known.get(path)) and found[1] > now}
        missing = sorted(paths - known.keys())
        if missing:
            rows = await self._find(missing)
            read = {path: (_own_mode(rows.get(path)), now + self._seconds) for path in missing}
            self._remember(read)
            known |= read
        modes = {path: mode for path, (mode, _) in known.items()}
        for queue in _without_keys(jobs):
            if not _inherited(queue, modes):
                self._plain[queue] = min(known[path][1] for path in _up(queue))
        return with_keys(jobs, lambda queue: _inherited(queue, modes))

    def _is_plain(self, job: NewJob, now: float) -> bool:
        """Say whether one job surely gets no key and needs none; it waits for nothing else, so be quick."""
        known = job.unique is not None or self._plain.get(job.queue, 0.0) > now
        return known and not job.replace and job.extras is None

    def _remember(self, known: dict[str, tuple[bool | None, float]]) -> None:
        if len(self._known) > MOST_REMEMBERED:
            self._known.clear()
            self._plain.clear()
        self._known |= known


def _own_mode(settings: Any) -> bool | None:
    mode = None if settings is None else msgspec.json.decode(bytes(settings)).get("unique")
    return mode if isinstance(mode, bool) else None


def _inherited(queue: str, own: Mapping[str, bool | None]) -> bool:
    return next((mode for path in _up(queue) if (mode := own.get(path)) is not None), False)


def _up(path: str) -> list[str]:
    """Return a queue's path and those above it, nearest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
