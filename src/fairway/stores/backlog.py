"""Pages of the backlog: jobs that are alike are put together where they are read.

A leader that loads a million jobs cannot afford an object for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.core.model import Alike, Arrival, together, with_pins
from fairway.store import WaitingPage
from fairway.stores.rows import BLOCKED, WAITING, Row, extras_from, shape_from


def page_of(arrivals: Sequence[Arrival]) -> WaitingPage | None:
    """Put arrivals together, given by id; None if there are none."""
    alike, others = together(arrivals)
    return WaitingPage(alike, others, arrivals[-1].job) if arrivals else None


def page_from(rows: Sequence[Row]) -> WaitingPage | None:
    """Put jobs together that were read by id: (id, place, and what they may have in common)."""
    groups: dict[Row, tuple[list[int], list[int]]] = {}
    common: Row | None = None
    for row in rows:
        if row[2:] != common:  # neighbours are alike more often than not
            common = row[2:]
            jobs, places = groups.setdefault(common, ([], []))
        jobs.append(row[0])
        places.append(row[1])
    return page_from_groups((*common, jobs, places) for common, (jobs, places) in groups.items())


def page_from_groups(rows: Iterable[Row]) -> WaitingPage | None:
    """Read groups in any order: what their jobs have in common, the ids, the places."""
    alike, others, last = list[Alike](), list[Arrival](), -1
    for queue, flow, priority, adapter, task, tags, once, extras, code, ids, its_places in rows:
        jobs, places = by_id(ids, its_places)
        group = Alike(queue, flow, priority, shape_from(adapter, task, tags, once), jobs, places)
        last = max(last, jobs[-1])
        if extras is None and code == WAITING:
            alike.append(group)
        else:
            more, blocked = extras_from(extras), code == BLOCKED
            shape = with_pins(group.shape, more)
            others += (one._replace(shape=shape, extras=more, blocked=blocked) for one in group.arrivals())
    alike.sort(key=lambda group: group.jobs[0])
    others.sort(key=lambda one: one.job)
    return WaitingPage(alike, others, last) if last >= 0 else None


def by_id(jobs: list[int], places: list[int]) -> tuple[list[int], list[int]]:
    """Return both in the order of the ids."""
    if sorted(jobs) == jobs:
        return jobs, places
    pairs = sorted(zip(jobs, places, strict=True))
    return [job for job, _ in pairs], [place for _, place in pairs]
