"""Which worker may take which job: each filter names why it refused.

Workers that announce the same things are one class and share their memory of what fits, so that a choice
costs no more with a thousand equal workers than with one.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.core.globs import glob_match
from fairway.core.model import Shape, WorkerSpec


class View:
    """What a kind of worker can run, remembered shape by shape and queue by queue."""

    def __init__(self, spec: WorkerSpec, only: frozenset[str] | None = None) -> None:
        self._spec = spec
        self._only = only  # the tasks that count; None: all
        self._fits: dict[Shape, bool] = {}
        self._attached: dict[str, bool] = {}

    def fits(self, shape: Shape) -> bool:
        """Say whether such a job can run here."""
        known = self._fits.get(shape)
        if known is None:
            allowed = self._only is None or shape.task in self._only
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

    def __init__(self, spec: WorkerSpec) -> None:
        self.shared = frozenset(task.name for task in spec.tasks if task.is_async)
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
        return shape.task in self.shared

    def attached(self, path: str) -> bool:
        """Say whether such workers serve this queue."""
        return self.whole.attached(path)


def class_key(spec: WorkerSpec) -> tuple[object, ...]:
    """Return what makes two workers alike."""
    return (spec.adapters, spec.tasks, spec.tags, spec.queues, spec.async_per_slot)


def serves(globs: Iterable[str], path: str) -> bool:
    """Say whether any of a worker's queue globs covers the queue."""
    return any(glob_match(glob, path) for glob in globs)


def why_not(spec: WorkerSpec, shape: Shape) -> str | None:
    """Return what such a worker lacks for such a job, or None if it fits."""
    if shape.adapter not in spec.adapters:
        return f"adapter {shape.adapter}"
    if shape.task and all(task.name != shape.task for task in spec.tasks):
        return f"task {shape.task}"
    for pattern in shape.tags:
        if not any(glob_match(pattern, tag) for tag in spec.tags):
            return f"tag {pattern}"
    return None
