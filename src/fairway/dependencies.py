"""What a job waits for, as its submitter names it: ids of jobs, or `#3`, the job at that index of its call.

An id exists before anybody can name it, and what a job waits for cannot be changed. So a circle can only be
among the jobs of one call, and is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fairway.errors import InvalidRequest
from fairway.ids import find_id

MOST_AFTER = 10_000
#: Of all jobs of one call together: the leader holds each in memory.
MOST_OF_CALL = 100_000

_index = re.compile(r"#(0|[1-9][0-9]{0,5})", re.ASCII)


def read_after(names: Sequence[str], together: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the jobs that are named, each once; *together* are the ids of the same call."""
    if len(names) > MOST_AFTER:
        raise _wrong(f"after names {len(names)} jobs; at most {MOST_AFTER} are allowed")
    return tuple(dict.fromkeys(_read(name, number, together) for number, name in enumerate(names)))


def check_call(afters: Sequence[Sequence[int]], together: Sequence[int]) -> None:
    """Refuse the jobs of one call if they wait for each other in a circle, or for too many altogether.

    *afters* says what each of *together* waits for.
    """
    if sum(map(len, afters)) > MOST_OF_CALL:
        raise _wrong(f"the jobs of one call may wait for {MOST_OF_CALL} others altogether, not for more")
    places = {job: index for index, job in enumerate(together)}
    waits = {
        index: inside
        for index, after in enumerate(afters)
        if after and (inside := [places[job] for job in after if job in places])
    }
    circle = _find_circle(waits)
    if circle:
        shown = " waits for ".join(f"#{index}" for index in circle)
        raise InvalidRequest(
            f"jobs wait for each other in a circle, so none of them could ever begin: {shown}",
            code="circle",
            field=f"jobs[{circle[0]}].after",
        )


def _read(name: str, number: int, together: Sequence[int]) -> int:
    if name.startswith("#"):
        return _read_index(name, number, together)
    job = find_id(name)
    if job is None:
        raise _wrong(f"after[{number}] {name[:40]!a} is not the id of a job", number)
    return job


def _read_index(name: str, number: int, together: Sequence[int]) -> int:
    if not together:
        raise _wrong(f"after[{number}] {name[:40]!a}: only jobs of one bulk call can name each other", number)
    found = _index.fullmatch(name)
    if not found or int(found[1]) >= len(together):
        known = f"they are #0 to #{len(together) - 1}"
        raise _wrong(f"after[{number}] {name[:40]!a} is not a job of this call: {known}", number)
    return together[int(found[1])]


def _find_circle(waits: dict[int, list[int]]) -> list[int]:
    """Return indices that lead back to the first, which is named again at the end; none without a circle."""
    done: set[int] = set()
    for start in waits:
        way: dict[int, None] = {}  # from the start to where we are, in order
        rest = [iter([start])]
        while rest:
            index = next(rest[-1], None)
            if index is None:
                rest.pop()
                if way:
                    done.add(way.popitem()[0])
            elif index in way:
                steps = list(way)
                return [*steps[steps.index(index) :], index]
            elif index not in done:
                way[index] = None
                rest.append(iter(waits.get(index, ())))
    return []


def _wrong(detail: str, number: int | None = None) -> InvalidRequest:
    return InvalidRequest(detail, field="after" if number is None else f"after[{number}]")
