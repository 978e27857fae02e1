"""A cluster of real processes on one database: nodes that serve and lead, workers alone that join them.

Each worker has a witness file and a folder of its own. Every process is a child of the test, so that it can
be killed, frozen and started again, and none outlives it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from tests.running import CODE, ROOT, RunningNode

TTL_SECONDS, LEASE_SECONDS = 5.0, 10.0
ASK_SECONDS = 2.0
WORDS = 1000  # bytes: more than what was running can still say, less than a tenth of a second of the load


class RunningWorker:
    """`fairway worker`, joined to some nodes."""

    def __init__(self, folder: Path, name: str, join: list[str], slots: int, env: dict[str, str]) -> None:
        self.name, self.folder = name, folder / name
        self.folder.mkdir(parents=True)
        self.witness = self.folder / "witness"
        self.log = self.folder / "worker.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-m", "fairway", "worker", "--name", name, "--slots", str(slots)]
        self._command += ["--app", "tests.faults.tasks:app", "--data-dir", str(self.folder)]
        self._command += [word for url in join for word in ("--join", url)]
        self._env = os.environ | env | {"FAIRWAY_TEST_WITNESS": str(self.witness), "PYTHONPATH": CODE}

    def start(self) -> None:
        """Start the process; do not wait."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._env,
                cwd=ROOT,
            )

    def kill(self) -> None:
        """kill -9 of the agent; its guardian and children must follow by themselves."""
        assert self.process is not None
        family = self.family()
        self.process.kill()
        self.process.wait(10)
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive, f"{alive} outlived worker {self.name}"

    def family(self) -> list[psutil.Process]:
        """Return all of its processes."""
        assert self.process is not None
        agent = psutil.Process(self.process.pid)
        return [agent, *agent.children(recursive=True)]

    def stop(self) -> None:
        """Ask it to stop, and make sure."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(15)
            return
        self.kill()


class Cluster:
    """Some nodes without workers and some workers, on the database at *address*."""

    def __init__(
        self, folder: Path, address: str, nodes: int = 2, workers: int = 2, slots: int = 4, scale: float = 1.0
    ) -> None:
        self.folder = folder
        self.ttl, self.lease = TTL_SECONDS * scale, LEASE_SECONDS * scale
        self._slots = slots
        self._env = {"FAIRWAY_TIME_SCALE": str(scale)}
        self.nodes = [self._make_node(f"n{number}", address) for number in range(nodes)]
        self.workers: list[RunningWorker] = []
        self.gone: list[RunningWorker] = []
        self._born = 0
        for _ in range(workers):
            self.add_worker()

    def __enter__(self) -> Cluster:
        try:
            for node in self.nodes:
                node.start()
            for worker in self.workers:
                worker.start()
            for node in self.nodes:
                node.until_ready(leading=False)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process."""
        for process in self._processes():
            process.send_signal(signal.SIGCONT)
        for worker in self.workers:
            worker.stop()
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                node.stop()
            node.http.close()

    # --- nodes -----------------------------------------------------------------------------------
    @property
    def urls(self) -> list[str]:
        """Return where the nodes are."""
        return [node.url for node in self.nodes]

    def leader(self) -> RunningNode | None:
        """Return the node that says that it leads."""
        for node in self.nodes:
            with contextlib.suppress(httpx.HTTPError, KeyError, ValueError):
                if node.http.get("/v1/cluster", timeout=ASK_SECONDS).json()["leading"]:
                    return node
        return None

    def until_led(self, seconds: float = 60.0) -> RunningNode:
        """Wait until a node leads."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (leader := self.leader()) is not None:
                return leader
            time.sleep(0.05)
        raise AssertionError(f"nobody leads after {seconds:g} s\n{self.said()}")

    def until_work_starts(self, seconds: float = 60.0) -> None:
        """Wait until code starts that had not started when this was asked."""
        before, deadline = self.witnessed(), time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.witnessed() > before + WORDS:
                return
            time.sleep(0.02)
        raise AssertionError(f"nothing starts for {seconds:g} s\n{self.said()}")

    def any_node(self) -> RunningNode:
        """Return a node that answers."""
        for node in self.nodes:
            with contextlib.suppress(httpx.HTTPError):
                if node.http.get("/readyz", timeout=ASK_SECONDS).status_code == 200:
                    return node
        raise AssertionError(f"no node is ready\n{self.said()}")

    def number(self, name: str) -> float:
        """Return one of the leader's numbers."""
        page = self.until_led().http.get("/metrics", timeout=ASK_SECONDS).text
        return sum(float(line.split()[1]) for line in page.splitlines() if line.startswith(f"{name} "))

    # --- workers ---------------------------------------------------------------------------------
    def add_worker(self) -> RunningWorker:
        """Add a worker that nobody has heard of before, as on another machine."""
        self._born += 1
        worker = RunningWorker(self.folder, f"w{self._born}", self.urls, self._slots, self._env)
        self.workers.append(worker)
        return worker

    def lose_worker(self, worker: RunningWorker) -> None:
        """Kill a worker and start another in its place."""
        worker.kill()
        self.workers.remove(worker)
        self.gone.append(worker)
        self.add_worker().start()

    def witnesses(self) -> dict[str, Path]:
        """Return the witness file of every worker there was."""
        return {worker.name: worker.witness for worker in [*self.workers, *self.gone]}

    def witnessed(self) -> int:
        """Return how many bytes the witnesses have written."""
        return sum(path.stat().st_size for path in self.witnesses().values() if path.exists())

    def said(self) -> str:
        """Return the last lines of every log."""
        logs = [node.log for node in self.nodes] + [worker.log for worker in self.workers]
        logs = [log for log in logs if log.exists()]
        return "\n".join(f"== {log}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    # --- within ----------------------------------------------------------------------------------
    def _make_node(self, name: str, address: str) -> RunningNode:
        folder = self.folder / name
        folder.mkdir(parents=True)
        return RunningNode(folder, "--name", name, "--no-worker", env=self._env, address=address)

    def _processes(self) -> Iterator[psutil.Process]:
        """Yield what lives, frozen or not."""
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                yield psutil.Process(node.process.pid)
        for worker in self.workers:
            if worker.process is not None and worker.process.poll() is None:
                yield from worker.family()
