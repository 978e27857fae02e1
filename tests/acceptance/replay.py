"""A branch of the tree played back from its events: was each begin one that the rule allows?

The rule of HTB in slots, said naively and from outside: limits and pauses hold on the whole path; at every
level what is owed comes first, by the least part of its assured slots; then the highest priority; no slot
stays free that somebody could use, but for those that are kept. Which of equals is next depends on times that
are not seen here; shares show that. A queue with a rate may be out of tokens, so nobody has to wait for it,
and its starts are counted.

`a/` stands for the jobs of `a` itself, which are one more member of it. A branch is alone on its node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any

from fairway.core.rates import default_burst, parse_rate
from tests.acceptance.watch import Happened

#: A begin's time is told in microseconds.
GRAIN = 0.001


class Replay:
    """What waits and runs in a branch, and what was wrong about its begins."""

    def __init__(self, branch: str, slots: int) -> None:
        self.branch, self.slots = branch, slots
        self.wrong: list[str] = []
        self.settings: dict[str, dict[str, Any]] = {branch: {}}
        self.waiting: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.begins = 0
        self._state: dict[str, str] = {}
        self._starts: dict[str, list[float]] = defaultdict(list)  # of queues with a rate, since it was set

    def play(self, events: Iterable[Happened]) -> Iterator[None]:
        """Play commit after commit; stops behind each one."""
        for commit, some in groupby(events, key=lambda event: event.commit):
            for event in some:
                self._take(event)
            if self._could_begin():
                self.wrong.append(f"commit {commit} leaves a slot free: {self}")
            yield

    def __str__(self) -> str:
        return f"{dict(self.running)} run, {dict(self.waiting)} wait, {self.settings}"

    # --- what happens ----------------------------------------------------------------------------
    def _take(self, event: Happened) -> None:
        path, job = event.queue, event.job
        for node in self._path(path):
            self.settings.setdefault(node, {})
        if event.kind == "queue.changed":
            self._set(path, event.detail)
        elif event.kind == "job.begun":
            self._judge(event)
            self._move(path, job, "running")
        elif event.kind == "job.ended":
            self._move(path, job, "ended")
        else:
            self._move(path, job, "waiting")

    def _set(self, path: str, settings: dict[str, Any]) -> None:
        before, self.settings[path] = self.settings[path], settings
        if any(before.get(name) != settings.get(name) for name in ("rate", "burst")):
            self._starts[path] = []

    def _move(self, path: str, job: str, state: str) -> None:
        counts = {"waiting": self.waiting, "running": self.running}
        if (before := self._state.get(job)) in counts:
            counts[before][path] -= 1
        if state in counts:
            counts[state][path] += 1
        self._state[job] = state

    # --- the judgement ---------------------------------------------------------------------------
    def _judge(self, event: Happened) -> None:
        self.begins += 1
        if self._state.get(event.job) != "waiting":
            self.wrong.append(f"{event.job} begins, but does not wait")
        path = self._path(event.queue)
        for node in path:
            self._judge_ceiling(node, event)
        way = [*path, f"{event.queue}/"]
        keepers = self._owed_keepers()
        if self._is_kept():
            within = [node for node in way if node in keepers]
            if not within:
                self.wrong.append(f"{event.queue} takes a slot that is kept: {self}")
                return
            way = way[way.index(within[-1]) :]
        for parent, chosen in pairwise(way):
            self._judge_choice(parent, chosen, set(way))

    def _judge_ceiling(self, node: str, event: Happened) -> None:
        settings = self.settings[node]
        if settings.get("paused"):
            self.wrong.append(f"{event.queue} begins, but {node} is paused")
        if self._room(node) <= 0:
            self.wrong.append(f"{event.queue} begins above the limit of {node}: {self}")
        if (rate := settings.get("rate")) is not None:
            starts, per_second = self._starts[node], parse_rate(rate)
            burst = settings.get("burst") or default_burst(per_second)
            starts.append(event.at)
            for number, first in enumerate(starts):
                allowed = burst + per_second * (event.at - first + GRAIN) + 1
                if len(starts) - number > allowed:
                    self.wrong.append(f"{len(starts) - number} starts of {node}, {allowed:g} allowed")

    def _judge_choice(self, parent: str, chosen: str, way: set[str]) -> None:
        rivals = [member for member in self._members(parent) if member != chosen and self._can(member)]
        owed = [member for member in rivals if self._owed(member, way)]
        if not self._owed(chosen, way):
            better = owed or [rival for rival in rivals if self._priority(rival) > self._priority(chosen)]
        else:
            better = [rival for rival in owed if self._part(rival) < self._part(chosen)]
        if better:
            self.wrong.append(f"{chosen} begins although it is the turn of {better}: {self}")

    # --- the rule --------------------------------------------------------------------------------
    def _could_begin(self) -> bool:
        if self._free() <= 0:
            return False
        if self._is_kept():
            return any(all(map(self._can, self._path(queue))) for queue in self._owed_keepers())
        return self._can(self.branch)

    def _can(self, member: str) -> bool:
        """Whether something can begin there for sure."""
        if member.endswith("/"):
            return self.waiting[member[:-1]] > 0
        settings = self.settings[member]
        if settings.get("paused") or settings.get("rate") is not None or self._room(member) <= 0:
            return False
        return any(map(self._can, self._members(member)))

    def _owed(self, member: str, way: set[str]) -> bool:
        """Whether it is below its assured, or one below it is that can begin something (*way*: does)."""
        if self._part(member) < 1:
            return True
        below = self._members(member) if not member.endswith("/") else []
        return any(self._owed(one, way) for one in below if one in way or self._can(one))

    def _part(self, member: str) -> float:
        assured = self.settings.get(member, {}).get("assured")
        return self.in_use(member) / assured if assured else float("inf")

    def _priority(self, member: str) -> int:
        return int(self.settings.get(member, {}).get("priority", 0))

    def _room(self, node: str) -> float:
        limit = self.settings[node].get("limit")
        return float("inf") if limit is None else limit - self.in_use(node)

    def _owed_keepers(self) -> list[str]:
        """Return the queues that do not lend, and have not all of their assured slots."""
        return [
            path
            for path, settings in self.settings.items()
            if not settings.get("lend", True) and self._part(path) < 1
        ]

    def _is_kept(self) -> bool:
        """Whether no more slots are free than are kept."""
        keepers = self._owed_keepers()
        outer = [path for path in keepers if not any(one in keepers for one in self._path(path)[:-1])]
        return bool(outer) and self._free() <= sum(
            self.settings[path]["assured"] - self.in_use(path) for path in outer
        )

    # --- the tree --------------------------------------------------------------------------------
    def in_use(self, member: str) -> int:
        """Count what runs there and below."""
        own = member.removesuffix("/")
        if own != member:
            return self.running[own]
        return sum(count for path, count in self.running.items() if f"{path}/".startswith(f"{own}/"))

    def _free(self) -> int:
        return self.slots - self.in_use(self.branch)

    def _path(self, queue: str) -> list[str]:
        """Return the queues from the branch down to this one."""
        words = queue.split("/")
        return ["/".join(words[: length + 1]) for length in range(len(words))]

    def _members(self, path: str) -> list[str]:
        below = [one for one in self.settings if one.rpartition("/")[0] == path]
        return [f"{path}/", *below]
