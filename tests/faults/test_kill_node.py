"""kill -9 of the node, twenty times under load: no accepted job is lost, none at-most-once starts twice."""

from __future__ import annotations

import random
import statistics
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import witness
from tests.running import RunningNode

KILLS = 20
LIMITS = {"load/one": 1, "load/two": 2, "load/many": 50}


class Client(threading.Thread):
    """Submits all the time, under idempotency keys, and writes down what was accepted."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.accepted: dict[str, dict[str, Any]] = {}
        self.repeats: list[tuple[str, str]] = []
        self.stopping = threading.Event()
        self._random = random.Random(seed)
        self._http = httpx.Client(base_url=url, timeout=5)

    def run(self) -> None:
        while not self.stopping.is_set():
            job, key = self._draw(), uuid.uuid4().hex
            accepted = self._submit(job, key)
            if accepted is not None:
                self.accepted[accepted] = job
                if self._random.random() < 0.05:  # the same call again must be the same job
                    again = self._submit(job, key)
                    if again is not None:
                        self.repeats.append((accepted, again))
            self.stopping.wait(0.004)

    def _submit(self, job: dict[str, Any], key: str) -> str | None:
        while not self.stopping.is_set():
            try:
                answer = self._http.post("/v1/jobs", json=job, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                self.stopping.wait(0.05)
                continue
            if answer.status_code in (200, 201):
                return str(answer.json()["id"])
            assert answer.status_code in (429, 503), answer.text
            self.stopping.wait(0.05)
        return None

    def _draw(self) -> dict[str, Any]:
        pick = self._random
        queue = pick.choice(list(LIMITS))
        job: dict[str, Any] = {
            "queue": queue,
            "backoff": {"first": "50ms", "max": "200ms"},
            "max_crashes": 50,
        }
        kind = pick.random()
        if kind < 0.25:
            job |= {"task": "tests.faults.tasks.work", "args": [0.01], "delivery": "at_most_once"}
        elif kind < 0.35:
            job |= {"task": "tests.faults.tasks.fail_at_first", "args": [1]}
        elif kind < 0.5:
            job |= {"task": "tests.faults.tasks.nap", "args": [0.02]}
        else:
            job |= {"task": "tests.faults.tasks.work", "args": [pick.choice([0.0, 0.005, 0.03])]}
        if pick.random() < 0.2:
            job["delay"] = pick.choice([0.05, 0.5, 1.5])
        return job


@pytest.mark.timeout(280)
def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    seen = tmp_path / "witness"
    node = RunningNode(
        tmp_path, "--slots", "4", "--app", "tests.faults.tasks:app", env={"FAIRWAY_TEST_WITNESS": str(seen)}
    )
    kills: list[int] = []
    recoveries: list[float] = []
    with node:
        for queue, limit in LIMITS.items():
            assert node.http.put(f"/v1/queues/{queue}", json={"limit": limit}).status_code == 200
        clients = [Client(node.url, seed) for seed in (1, 2)]
        for client in clients:
            client.start()
        pick = random.Random(7)
        for _ in range(KILLS):
            time.sleep(pick.uniform(0.3, 0.9))
            node.kill()
            kills.append(time.monotonic_ns())
            node.start()
            recoveries.append(node.until_ready())
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(15)
        accepted = clients[0].accepted | clients[1].accepted
        ended = _until_all_ended(node, list(accepted))
        _check(accepted, ended, witness.read(seen), kills)
        for client in clients:
            for first, again in client.repeats:
                assert first == again, "one idempotency key made two jobs (invariant 12)"
        assert node.stop() == 0
    states = {
        state: sum(job["state"] == state for job in ended.values())
        for state in ("succeeded", "failed", "unknown")
    }
    print(
        f"\nkills {KILLS}, accepted {len(accepted)}, {states}, lost 0, at-most-once doubled 0; "
        f"ready again p50 {statistics.median(recoveries):.2f} s, max {max(recoveries):.2f} s; "
        f"95 % bound on loss per kill 3/{KILLS}"
    )


def _until_all_ended(node: RunningNode, jobs: list[str]) -> dict[str, dict[str, Any]]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if node.counts("state:waiting queue:load/*", "state:running queue:load/*") == [0, 0]:
            return {job: node.job(job) for job in jobs}
        time.sleep(0.2)
    raise AssertionError(f"not drained (invariant 1, 8): {node.http.get('/v1/queues').text}\n{node.said()}")


def _check(
    accepted: dict[str, dict[str, Any]],
    ended: dict[str, dict[str, Any]],
    lines: list[witness.Line],
    kills: list[int],
) -> None:
    assert len(accepted) > 200, "too little load to mean anything"
    started = witness.starts(lines)
    for job, spec in accepted.items():
        found = ended[job]
        assert found["state"] in ("succeeded", "failed", "unknown"), f"{job} has not ended (invariant 1)"
        if spec.get("delivery") == "at_most_once":
            assert len(started[job]) <= 1, f"at-most-once {job} started {started[job]} (invariant 5)"
            assert found["state"] != "failed", found
        else:
            assert found["state"] == "succeeded", found
            assert started[job], f"{job} succeeded without a start"
    for job, attempts in started.items():
        assert len(set(attempts)) == len(attempts), (
            f"{job} started an attempt twice: {attempts} (invariant 2)"
        )
    for queue, limit in LIMITS.items():
        most = witness.most_at_once(lines, queue, kills)
        assert most <= limit, f"{queue} ran {most} at once, limit {limit} (invariant 3)"
