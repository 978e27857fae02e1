"""Which worker may take which job: each filter names why it refused.

Workers that announce the same things are one class and share their memory of what fits, so that a choice
costs no more with a thousand equal workers than with one. A worker that a waiting job names (it is pinned to
it, or kept from it) is a class of its own meanwhile: see core/pins.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fairway.core.globs import glob_match
from fairway.core.model import Shape, WorkerSpec

#: What is said of a worker that could run a job, but which the job is kept from.
NOT_ON = "not on "
#: Shapes of which it is remembered whether they fit a kind of worker.
MOST_REMEMBERED = 100_000


class View:
    """What a kind of worker can run, remembered shape by shape and queue by queue."""

    def __init__(self, spec: WorkerSpec, only: frozenset[tuple[str, str]] | None = None) -> None:
        self._spec = spec
        self._only = only  # the adapters' tasks that count; None: all
        self._fits: dict[Shape, bool] = {}
        self._attached: dict[str, bool] = {}

    def fits(self, shape: Shape) -> bool:
        """Say whether such a job can run here."""
        known = self._fits.get(shape)
        if known is None:
            if len(self._fits) >= MOST_REMEMBERED:
                self._fits.clear()
            allowed = self._only is None or (shape.adapter, shape.task) in self._only
            known = self._fits[shape] = allowed and why_not(self._spec, shape) is None
        return known

    def attached(self, path: str) -> bool:
        """Say whether such workers serve this queue."""
        known = self._attached.get(path)
        if known is None:
            known = self._attached[path] = serves(self._spec.queues, path)
        return known


class WorkerClass:
    """Workers that announce the same: with a whole slot free, or with a part of one."""

    def __init__(self, spec: WorkerSpec, alone: bool = True) -> None:
        if not alone:
            spec = replace(spec, name="")  # of many: no job means one of them
        self.shared = frozenset(shared_tasks(spec))
        self.whole = View(spec)
        self.part = View(spec, self.shared) if self.shared else None  # only what shares its slot

    @property
    def views(self) -> tuple[View, ...]:
        """Return both."""
        return (self.whole,) if self.part is None else (self.whole, self.part)

    def fits(self, shape: Shape) -> bool:
        """Say whether such a job can run here at all."""
        return self.whole.fits(shape)

    def is_async(self, shape: Shape) -> bool:
        """Say whether the job shares its slot with others."""
        return bool(self.shared) and (shape.adapter, shape.task) in self.shared

    def attached(self, path: str) -> bool:
        """Say whether such workers serve this queue."""
        return self.whole.attached(path)


def shared_tasks(spec: WorkerSpec) -> Iterable[tuple[str, str]]:
    """Yield the adapter and name of each task that shares its slot."""
    for task in spec.tasks:
        if task.is_async:
            for adapter in [task.adapter] if task.adapter else spec.adapters:
                yield adapter, task.name


def class_key(spec: WorkerSpec, alone: bool = False) -> tuple[object, ...]:
    """Return what makes two workers alike; of one that stands alone its name is part of it."""
    return (
        spec.adapters,
        spec.tasks,
        spec.tags,
        spec.queues,
        spec.async_per_slot,
        spec.name if alone else "",
    )


def serves(globs: Iterable[str], path: str) -> bool:
    """Say whether any of a worker's queue globs covers the queue."""
    return any(glob_match(glob, path) for glob in globs)


def why_not(spec: WorkerSpec, shape: Shape) -> str | None:
    """Return what such a worker lacks for such a job, or None if it fits."""
    if shape.adapter not in spec.adapters:
        return f"adapter {shape.adapter}"
    if shape.task and all(
        task.name != shape.task or task.adapter not in ("", shape.adapter) for task in spec.tasks
    ):
        return f"task {shape.task}"
    for pattern in shape.tags:
        if not has_tag(spec, pattern):
            return f"tag {pattern}"
    if shape.worker and shape.worker != spec.name:
        return f"worker {shape.worker}"
    if spec.name in shape.away:
        return f"{NOT_ON}{spec.name}"
    return None


def may_run_on(shape: Shape, worker: str) -> bool:
    """Say whether such jobs are neither kept from a worker nor pinned to another."""
    return shape.worker in ("", worker) and worker not in shape.away


def bounds_of(shape: Shape) -> dict[str, Any]:
    """Return where such jobs may and may not go, as events tell it."""
    bounds: dict[str, Any] = {"to": shape.worker} if shape.worker else {}
    return bounds | ({"away": list(shape.away)} if shape.away else {})


def lacks(spec: WorkerSpec, shape: Shape, queue: str) -> list[str]:
    """Return everything such a worker lacks for such a job of this queue, for people."""
    first = why_not(spec, shape)
    missing = [] if first is None else [first]
    missing += [f"tag {pattern}" for pattern in shape.tags if not has_tag(spec, pattern)]
    if not serves(spec.queues, queue):
        missing.append(f"queue {queue}")
    return list(dict.fromkeys(missing))


def has_tag(spec: WorkerSpec, pattern: str) -> bool:
    """Say whether a worker has a tag that matches."""
    return any(glob_match(pattern, tag) for tag in spec.tags)
