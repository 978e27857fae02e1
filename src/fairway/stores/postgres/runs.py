"""Jobs whose ids follow each other: one walk along the index finds them; each by itself takes a descent.

What is submitted together has such ids and, where nothing else decides, begins and ends together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

#: Shorter runs are not worth a statement of their own.
LEAST = 50

#: The first and the last id; all between them are meant.
Run = tuple[int, int]


def split_runs(jobs: Sequence[int]) -> tuple[list[Run], list[int]]:
    """Return the long runs among *jobs*, each of which is named once, and the jobs that are in none."""
    ids = sorted(jobs)
    if len(ids) < LEAST:
        return [], ids
    if ids[-1] - ids[0] == len(ids) - 1:
        return [(ids[0], ids[-1])], []
    runs: list[Run] = []
    rest: list[int] = []
    gaps = [place for place, (before, after) in enumerate(pairwise(ids), start=1) if after != before + 1]
    for start, end in pairwise([0, *gaps, len(ids)]):
        if end - start >= LEAST:
            runs.append((ids[start], ids[end - 1]))
        else:
            rest += ids[start:end]
    return runs, rest
