"""What is missing when no worker can run a job: what none has, and what keeps the nearest ones from it.

Nearest are those that lack the least; of these, those first that serve the job's queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairway.core.matching import lacks
from fairway.core.model import Arrival, WorkerSpec

MOST_GROUPS = 3
MOST_NAMES = 3


class Group(NamedTuple):
    """Workers that lack the same."""

    lacks: tuple[str, ...]
    names: list[str]


def what_is_missing(specs: Iterable[WorkerSpec], job: Arrival) -> tuple[str, str]:
    """Return a sentence and the first thing it is about; none of these workers can run the job."""
    groups = _group(specs, job)
    common = [lack for lack in groups[0].lacks if all(lack in group.lacks for group in groups)]
    on = (common or groups[0].lacks)[0].split(" ", 1)[1]
    head = ", ".join(
        f"{'no worker' if not index else 'none'} {_has(lack)}" for index, lack in enumerate(common)
    )
    if len(groups) == 1:
        return head, on
    nearest = "; ".join(_say(group) for group in groups[:MOST_GROUPS])
    return f"{head or 'no worker has all it needs'}; nearest: {nearest}", on


def _group(specs: Iterable[WorkerSpec], job: Arrival) -> list[Group]:
    """Put workers together by what they lack, nearest first."""
    found: dict[tuple[str, ...], Group] = {}
    for spec in sorted(specs, key=lambda spec: spec.name):
        missing = tuple(lacks(spec, job.shape, job.queue))
        found.setdefault(missing, Group(missing, [])).names.append(spec.name)
    return sorted(found.values(), key=lambda group: (len(group.lacks), _is_elsewhere(group), group.names))


def _is_elsewhere(group: Group) -> bool:
    return any(lack.startswith("queue ") for lack in group.lacks)


def _say(group: Group) -> str:
    names, more = ", ".join(group.names[:MOST_NAMES]), len(group.names) - MOST_NAMES
    if more > 0:
        names += f" and {more:,} more"
    one = len(group.names) == 1
    things = [f"no {lack}" for lack in group.lacks if not lack.startswith("queue ")]
    said = [f"{'has' if one else 'have'} {' and '.join(things)}"] if things else []
    said += [f"{'does' if one else 'do'} not serve {_shown(lack)}" for lack in group.lacks[len(things) :]]
    return f"{names} {' and '.join(said)}"


def _has(lack: str) -> str:
    return f"serves {_shown(lack)}" if lack.startswith("queue ") else f"has {lack}"


def _shown(lack: str) -> str:
    kind, _, name = lack.partition(" ")
    return f"{kind} '{name}'"
