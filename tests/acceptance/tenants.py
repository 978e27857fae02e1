"""Tenants on a real node: settings and jobs go in by HTTP, what they were given is read from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import Phase, settings

from tests.acceptance.watch import Happened, Watch, is_below
from tests.running import RunningNode

TASKS = "tests.faults.tasks"
TASK = f"{TASKS}.work"
BULK = 5000
#: What an end is told as: the attempt is over, whatever becomes of the job.
OVER = ("job.ended", "job.returned", "job.retrying")


def examples(count: int) -> settings:
    """Return how properties are drawn here: an example is real work, and to shrink one would take minutes."""
    return settings(max_examples=count, deadline=None, phases=[Phase.explicit, Phase.generate])


def settle(node: RunningNode, path: str, **wanted: object) -> None:
    """Change a queue's settings."""
    answer = node.http.patch(f"/v1/queues/{path}", json=wanted)
    assert answer.status_code == 200, answer.text


def work(queue: str, seconds: float, flow: str | None = None) -> dict[str, Any]:
    """Return a job that holds a child process for some time."""
    return {"task": TASK, "args": [seconds], "queue": queue, "flow": flow}


def command(queue: str, seconds: float, flow: str | None = None) -> dict[str, Any]:
    """Return a job that is a command: it needs no warm process, and never travels with others."""
    return {
        "work": {"adapter": "command", "run": [["sleep", str(seconds)]]}, "queue": queue, "flow": flow,
    }  # fmt: skip


def submit_all(node: RunningNode, jobs: Sequence[dict[str, Any]]) -> list[str]:
    """Submit jobs in their order; return their ids."""
    ids: list[str] = []
    for first in range(0, len(jobs), BULK):
        answer = node.http.post("/v1/jobs/bulk", json={"jobs": jobs[first : first + BULK]})
        assert answer.status_code == 200, answer.text
        ids += answer.json()["ids"]
    return ids


def submit(node: RunningNode, queue: str, count: int, seconds: float, flow: str | None = None) -> list[str]:
    """Submit so many jobs that are alike."""
    return submit_all(node, [work(queue, seconds, flow)] * count)


def warm_up(node: RunningNode) -> None:
    """Let every slot have its process: a tenant pays for the slot also while that starts."""
    jobs = submit(node, "warm", 16, 0.2)
    assert all(node.job(job, wait="20s")["state"] == "succeeded" for job in jobs)


class Stage:
    """A node, and all that it tells, for the tests of a module; each of their examples has its own branch."""

    def __init__(self, node: RunningNode, watch: Watch) -> None:
        self.node, self.watch = node, watch
        self._made = 0

    def fresh_branch(self, **wanted: object) -> str:
        """Return a branch of the tree that nobody has used."""
        self._made += 1
        branch = f"b{self._made}"
        assert self.node.http.put(f"/v1/queues/{branch}", json=wanted).status_code == 200
        return branch

    def load(self, branch: str, jobs: Sequence[dict[str, Any]]) -> list[str]:
        """Submit a backlog, of which nothing begins before `open`."""
        settle(self.node, branch, paused=True)
        return submit_all(self.node, jobs)

    def open(self, branch: str) -> int:
        """Let a branch begin; return where its begins stand in the events."""
        since = self.watch.catch_up()
        settle(self.node, branch, paused=False)
        return since

    def close(self, branch: str) -> list[Happened]:
        """Pause a branch, wait until nothing of it runs, and return all that happened in it."""
        settle(self.node, branch, paused=True)
        since = self.watch.catch_up()
        running = running_jobs(of_branch(self.watch.events[:since], branch))
        self.watch.until(lambda event: event.kind in OVER and event.job in running, len(running), since)
        return of_branch(self.watch.events, branch)

    def run(self, branch: str, jobs: Sequence[dict[str, Any]], begins: int) -> list[Happened]:
        """Let so many jobs of a backlog begin, and return all that happened in the branch."""
        self.load(branch, jobs)
        self.watch.until(begun_in(branch), begins, self.open(branch))
        return self.close(branch)

    def drain(self, branch: str, jobs: Sequence[str], since: int = 0) -> list[Happened]:
        """Wait until all these jobs have ended, and return all that happened in the branch."""
        wanted = set(jobs)
        ends = self.watch.until(
            lambda event: event.kind == "job.ended" and event.job in wanted, len(wanted), since
        )
        assert len(ends) == len(wanted), "a job ended twice"
        return of_branch(self.watch.events, branch)


@contextmanager
def open_stage(folder: Path, slots: int) -> Iterator[Stage]:
    """Start a node with so many slots, and watch it."""
    env = {"FAIRWAY_TEST_WITNESS": str(folder / "witness")}
    with (
        RunningNode(folder, "--app", f"{TASKS}:app", "--slots", str(slots), env=env) as node,
        Watch(node) as watch,
    ):
        yield Stage(node, watch)


def begun_in(branch: str) -> Callable[[Happened], bool]:
    """Return what says whether an event is a begin in a branch."""
    return lambda event: event.kind == "job.begun" and is_below(event.queue, branch)


def of_branch(events: Iterable[Happened], branch: str) -> list[Happened]:
    """Return what happened in a branch."""
    return [event for event in events if is_below(event.queue, branch)]


def running_jobs(events: Iterable[Happened]) -> dict[str, Happened]:
    """Return the begins that no end followed, by job."""
    running: dict[str, Happened] = {}
    for event in events:
        if event.kind == "job.begun":
            running[event.job] = event
        elif event.kind in OVER:
            running.pop(event.job, None)
    return running


class Held(NamedTuple):
    """A slot that a job of a queue held: from its begin until its end."""

    queue: str
    begun: float
    ended: float


def held_slots(events: Sequence[Happened], begins: int) -> list[Held]:
    """Return what was held of slots until so many jobs had begun."""
    begun: dict[str, Happened] = {}
    until = [event for event in events if event.kind == "job.begun"][begins - 1].at
    held: list[Held] = []
    for event in events:
        if event.kind == "job.begun" and event.at <= until:
            begun[event.job] = event
        elif event.kind in OVER and event.job in begun:
            held.append(Held(event.queue, begun.pop(event.job).at, min(event.at, until)))
    return held + [Held(event.queue, event.at, until) for event in begun.values()]


class Shares(NamedTuple):
    """Each tenant's part of the slot-seconds; *grain* is twice the longest job's part of them all.

    What a tenant was given can only be judged when it gave a slot back: two shares may differ by a job, and
    when the machine stands still for a moment, the jobs that run just then are the longest ones.
    """

    parts: list[float]
    grain: float

    def agree(self, wanted: Sequence[float], relative: float) -> bool:
        """Say whether each part is the one wanted, but for a relative error and the grain."""
        return all(
            abs(part - want) <= relative * want + self.grain
            for part, want in zip(self.parts, wanted, strict=True)
        )


def shares(events: Sequence[Happened], begins: int, *tenants: str) -> Shares:
    """Return what each tenant had of the slots until so many jobs had begun."""
    had = dict.fromkeys(tenants, 0.0)
    longest = 0.0
    for held in held_slots(events, begins):
        for tenant in tenants:
            if is_below(held.queue, tenant):
                had[tenant] += held.ended - held.begun
                longest = max(longest, held.ended - held.begun)
    total = sum(had.values())
    return Shares([seconds / total for seconds in had.values()], 2 * longest / total)
