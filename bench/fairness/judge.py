"""Jobs as a replay ran them, judged: windows beside the fluid, users left unserved, slots left idle, waits.

A window is ten mean job times long, and the next one starts where it ends. A user counts in those in which
something of it waited throughout; its part is what it had by what the fluid of `oracle.py` gave it.

A slot is never divided, so a part is no finer than the jobs that a share is worth: of a share of 2.7 jobs
nobody can be given 95 %. A user may be a job ahead where a window starts and one behind where it ends, both
as fair as can be. Who claims 95 % (with jobs of equal length) therefore asks for windows that are worth
`FINE` jobs to their user: its window then goes on over as many edges as that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from bench.fairness.oracle import Oracle, moments
from bench.fairness.starvation import stretches
from bench.fairness.work import Load, Run

#: The length of a window in mean job times.
WINDOW = 10.0
#: Jobs that a share must be worth at least so that two of them, and a tenth, are less than 5 % of it: with 39
#: users on two slots one was 2.08 jobs behind, for each that comes meanwhile is next once.
FINE = 44.0
NOTHING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What came of a replay, or of several. Lengths are in mean job times of their load."""

    windows: int = 0  # in which some user was backlogged throughout, for each such user
    below_90: int = 0
    below_half: int = 0
    least: float = inf  # the least part of its share that a user had in a window
    stretches: int = 0  # in which a user had work waiting and held nothing
    unserved: float = 0.0  # the longest of these
    over: int = 0  # of these, those longer than they may be
    most_over: float = 0.0  # by how much at most
    idle: float = 0.0  # slot-seconds while something waited
    waits: float = 0.0  # the mean wait of each load, added up
    loads: int = 0

    @property
    def part_below_90(self) -> float:
        """The part of windows in which a user had less than nine tenths of its share."""
        return self.below_90 / max(self.windows, 1)

    @property
    def part_below_half(self) -> float:
        """The part of windows in which a user had less than half of its share."""
        return self.below_half / max(self.windows, 1)

    @property
    def mean_wait(self) -> float:
        """How long a job waited on average."""
        return self.waits / max(self.loads, 1)


def judge(load: Load, runs: Sequence[Run], times: float = WINDOW, jobs: float = 0.0) -> Verdict:
    """Judge a replay by windows of so many mean job times that are worth so many jobs to their user."""
    mean = load.mean_seconds
    oracle = Oracle(load.slots, load.weights)
    parts = list(_parts(oracle, runs, times * mean, jobs * mean))
    unserved = list(stretches(load, runs))
    over = [one.over for one in unserved if one.over > NOTHING * mean]
    return Verdict(
        windows=len(parts),
        below_90=sum(part < 0.9 for part in parts),
        below_half=sum(part < 0.5 for part in parts),
        least=min(parts, default=inf),
        stretches=len(unserved),
        unserved=max((one.seconds for one in unserved), default=0.0) / mean,
        over=len(over),
        most_over=max(over, default=0.0) / mean,
        idle=oracle.idle,
        waits=sum(run.begin - run.job.submit for run in runs) / len(runs) / mean,
        loads=1,
    )


def total(verdicts: Iterable[Verdict]) -> Verdict:
    """Count several replays as one."""
    each = list(verdicts)
    return Verdict(
        windows=sum(one.windows for one in each),
        below_90=sum(one.below_90 for one in each),
        below_half=sum(one.below_half for one in each),
        least=min(one.least for one in each),
        stretches=sum(one.stretches for one in each),
        unserved=max(one.unserved for one in each),
        over=sum(one.over for one in each),
        most_over=max(one.most_over for one in each),
        idle=sum(one.idle for one in each),
        waits=sum(one.waits for one in each),
        loads=sum(one.loads for one in each),
    )


def _parts(oracle: Oracle, runs: Iterable[Run], window: float, worth: float) -> Iterator[float]:
    """Yield what part of its share each backlogged user had in each window."""
    edge = window
    for at, changes in moments(runs):
        while edge <= at:
            oracle.pass_to(edge)
            yield from _close(oracle, worth)
            edge += window
        oracle.pass_to(at)
        oracle.change(changes)


def _close(oracle: Oracle, worth: float) -> Iterator[float]:
    """End the window of each user, unless it was backlogged and its share is not worth enough yet."""
    oracle.since = oracle.at
    for user in oracle.users.values():
        if not user.was_content:
            if user.fair < worth:
                continue
            if user.fair > NOTHING:
                yield user.had / user.fair
        user.had = user.fair = 0.0
        user.was_content = not user.waiting
