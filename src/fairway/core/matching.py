"""Which worker may take which job: each filter names why it refused.

Workers that announce the same things are one class and share their memory of what fits, so that a choice
costs no more with a thousand equal workers than with one.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.core.globs import glob_match
from fairway.core.model import Shape, WorkerSpec


class WorkerClass:
    """What a kind of worker can run, remembered shape by shape and queue by queue."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.tasks = {task.name: task for task in spec.tasks}
        self._fits: dict[Shape, bool] = {}
        self._fits_partly: dict[Shape, bool] = {}
        self._attached: dict[str, bool] = {}
        self.dry = -1  # the tree's version at which nothing was found for a whole slot
        self.dry_partly = -1  # the same, for a worker with less than a slot free

    def fits(self, shape: Shape) -> bool:
        """Say whether such a job can run here at all."""
        known = self._fits.get(shape)
        if known is None:
            known = self._fits[shape] = why_not(self.spec, shape) is None
        return known

    def fits_partly(self, shape: Shape) -> bool:
        """Say whether such a job can run in a part of a slot."""
        known = self._fits_partly.get(shape)
        if known is None:
            known = self._fits_partly[shape] = self.fits(shape) and self.is_async(shape)
        return known

    def is_async(self, shape: Shape) -> bool:
        """Say whether the job shares its slot with others."""
        task = self.tasks.get(shape.task)
        return task is not None and task.is_async

    def attached(self, path: str) -> bool:
        """Say whether such workers serve this queue."""
        known = self._attached.get(path)
        if known is None:
            known = self._attached[path] = serves(self.spec.queues, path)
        return known


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
