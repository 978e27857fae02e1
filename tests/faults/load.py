"""The load of a fault run: clients that submit all the time, to any node, and write down what was accepted.

A call that failed is made again under its idempotency key, at another node, until it is answered: so every
job in the log was promised to somebody. The mix: many queues, limits from 1 to 50, a quarter at-most-once,
some that fail and are tried again, some that fail for good, some delayed, a few long enough to be caught.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from typing import Any, NamedTuple

import httpx

LIMITS = {f"load/q{limit}": limit for limit in (1, 2, 3, 4, 5, 8, 10, 20, 30, 50)}
LIMITS |= {"load/other/one": 1, "load/other/two": 2}
TASKS = "tests.faults.tasks"
REFUSALS = (429, 503)
RETRY_SECONDS = 0.05
AVOID_SECONDS = 5.0
BURST, NAPS = 12, 60

Spec = dict[str, Any]


class Accepted(NamedTuple):
    """A job that a client was promised, and when."""

    spec: Spec
    at: int

    @property
    def once(self) -> bool:
        """Whether its code may start only once."""
        return self.spec.get("delivery") == "at_most_once"

    @property
    def hopeless(self) -> bool:
        """Whether it fails each time."""
        return bool(self.spec["task"] == f"{TASKS}.fail_at_first" and self.spec["args"][0] > 10)


class Client(threading.Thread):
    """One client."""

    def __init__(self, urls: list[str], seed: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.accepted: dict[str, Accepted] = {}
        self.repeats: list[tuple[list[str], list[str]]] = []
        self.troubles: list[str] = []
        self.unreached = self.refused = 0
        self.stopping = threading.Event()
        self._pause = pause
        self._random = random.Random(seed)
        self._avoided: dict[httpx.Client, float] = {}
        self._nodes = [httpx.Client(base_url=url, timeout=3) for url in urls]

    def run(self) -> None:
        while not self.stopping.is_set():
            jobs, key = draw_call(self._random), uuid.uuid4().hex
            if (accepted := self._submit(jobs, key)) is not None:
                at = time.monotonic_ns()
                self.accepted |= {one: Accepted(job, at) for one, job in zip(accepted, jobs, strict=True)}
                if self._random.random() < 0.05:  # the same call again must be the same jobs
                    self._repeat(accepted, jobs, key)
            self.stopping.wait(self._pause)
        for node in self._nodes:
            node.close()

    def _repeat(self, accepted: list[str], jobs: list[Spec], key: str) -> None:
        again = self._submit(jobs, key)
        if again is not None:
            self.repeats.append((accepted, again))

    def _submit(self, jobs: list[Spec], key: str) -> list[str] | None:
        """Ask one node after the other until one answers; None if the run ends before."""
        headers = {"Idempotency-Key": key}
        while not self.stopping.is_set():
            node = self._choose()
            try:
                if len(jobs) == 1:
                    answer = node.post("/v1/jobs", json=jobs[0], headers=headers)
                else:
                    answer = node.post("/v1/jobs/bulk", json={"jobs": jobs}, headers=headers)
            except httpx.TransportError:
                self.unreached += 1
                self._avoided[node] = time.monotonic() + AVOID_SECONDS
                self.stopping.wait(RETRY_SECONDS)
                continue
            if answer.status_code in (200, 201):
                return [answer.json()["id"]] if len(jobs) == 1 else list(answer.json()["ids"])
            if answer.status_code not in REFUSALS:
                self.troubles.append(f"{answer.status_code} {answer.text[:300]}")
            self.refused += 1
            self.stopping.wait(RETRY_SECONDS)
        return None

    def _choose(self) -> httpx.Client:
        """Choose a node; one that did not answer is left alone for a while, if there is another."""
        now = time.monotonic()
        good = [node for node in self._nodes if self._avoided.get(node, 0.0) < now]
        return self._random.choice(good or self._nodes)


class Load:
    """Some clients, from `with` to its end."""

    def __init__(self, urls: list[str], clients: int = 2, pause: float = 0.012, seed: int = 1) -> None:
        self._clients = [Client(urls, seed + number, pause) for number in range(clients)]

    def __enter__(self) -> Load:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.stopping.set()
        for client in self._clients:
            client.join(15)
            assert not client.is_alive(), "a client hangs"

    @property
    def accepted(self) -> dict[str, Accepted]:
        """Return what was accepted so far."""
        found: dict[str, Accepted] = {}
        for client in self._clients:
            found |= client.accepted.copy()
        return found

    @property
    def repeats(self) -> list[tuple[list[str], list[str]]]:
        """Return the ids that one key got at its first and its second call."""
        return [pair for client in self._clients for pair in client.repeats]

    @property
    def troubles(self) -> list[str]:
        """Return answers that no client should get, whatever the fault."""
        return [trouble for client in self._clients for trouble in client.troubles]

    @property
    def again(self) -> str:
        """Say how many calls had to be made again, and why."""
        unreached = sum(client.unreached for client in self._clients)
        refused = sum(client.refused for client in self._clients)
        return f"{unreached} calls found nobody, {refused} were refused"


def draw_call(pick: random.Random) -> list[Spec]:
    """Draw the jobs of one call: mostly one, at times a burst for one queue, so that limits are reached."""
    queue, kind = pick.choice(list(LIMITS)), pick.random()
    if kind < 0.01:
        nap = {"queue": queue, "task": f"{TASKS}.nap", "args": [0.1], "max_crashes": 100}
        return [nap] * min(NAPS, 2 * LIMITS[queue])
    return [draw(pick, queue) for _ in range(BURST if kind < 0.04 else 1)]


def draw(pick: random.Random, queue: str) -> Spec:
    """Draw a job."""
    job: Spec = {
        "queue": queue,
        "backoff": {"first": "50ms", "max": "200ms"},
        "max_crashes": 100,
    }
    kind = pick.random()
    if kind < 0.25:
        job |= {"task": f"{TASKS}.work", "args": [0.01], "delivery": "at_most_once"}
    elif kind < 0.33:
        job |= {"task": f"{TASKS}.fail_at_first", "args": [1], "max_attempts": 1000}
    elif kind < 0.35:
        job |= {"task": f"{TASKS}.fail_at_first", "args": [1000], "max_attempts": 2}
    elif kind < 0.55:
        job |= {"task": f"{TASKS}.nap", "args": [pick.choice([0.02, 0.1])]}
    elif kind < 0.58:
        job |= {"task": f"{TASKS}.nap", "args": [0.7]}
    elif kind < 0.60:
        job |= {"task": f"{TASKS}.work", "args": [0.5]}
    else:
        job |= {"task": f"{TASKS}.work", "args": [pick.choice([0.0, 0.005, 0.02])]}
    if pick.random() < 0.2:
        job["delay"] = pick.choice([0.05, 0.5, 1.5])
    return job
