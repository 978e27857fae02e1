"""A real node in a process of its own, for tests that speak to it from outside and kill it for real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parent.parent
#: Processes run the code of this checkout, wherever the installed package points.
CODE = f"{ROOT / 'src'}{os.pathsep}{ROOT}"


def free_port() -> int:
    """Return a port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RunningNode:
    """`fairway up` on a port and a database (its own file, or *address*) that stay the same over restarts."""

    def __init__(
        self, folder: Path, *arguments: str, env: dict[str, str] | None = None, address: str = ""
    ) -> None:
        self.folder = folder
        self.address = address
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = folder / "fairway.db"
        self.log = folder / "node.log"
        self.http = httpx.Client(base_url=self.url, timeout=30)
        self.process: subprocess.Popen[bytes] | None = None
        self._arguments = arguments
        self._env = os.environ | {"FAIRWAY_HOME": str(folder), "PYTHONPATH": CODE} | (env or {})

    def __enter__(self) -> RunningNode:
        self.start()
        self.until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        self.http.close()

    def start(self) -> None:
        """Start the process; do not wait."""
        command = [
            sys.executable, "-m", "fairway", "up",
            "--database", self.address or f"sqlite:///{self.database}",
            "--listen", f"127.0.0.1:{self.port}",
            *self._arguments,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._env,
                cwd=ROOT,
            )

    def until_ready(self, seconds: float = 30, leading: bool = True) -> float:
        """Wait until it answers and a leader is known, itself by default; return how long it took."""
        assert self.process is not None
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            try:
                ready = self.http.get("/readyz", timeout=2).status_code == 200
                if ready and (self._leads() or not leading):
                    return time.monotonic() - began
            except httpx.TransportError:
                if self.process.poll() is not None:
                    raise AssertionError(f"the node ended:\n{self.said()}") from None
            time.sleep(0.02)
        raise AssertionError(f"not ready after {seconds} s:\n{self.said()}")

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to stop; return its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the node did not stop:\n{self.said()}") from None

    def said(self) -> str:
        """Return what it printed."""
        return self.log.read_text(errors="replace")[-4000:]

    # --- asking ----------------------------------------------------------------------------------
    def submit(self, **job: Any) -> str:
        """Submit a job and return its id."""
        answer = self.http.post("/v1/jobs", json=job)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["id"])

    def job(self, job: str, wait: str | None = None) -> dict[str, Any]:
        """Return a job, waiting for its end if asked."""
        answer = self.http.get(f"/v1/jobs/{job}", params={"wait": wait} if wait else None, timeout=70)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def until_state(self, job: str, *states: str, seconds: float = 30) -> dict[str, Any]:
        """Poll until the job is in one of *states*."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            found = self.job(job)
            if found["state"] in states:
                return found
            time.sleep(0.02)
        raise AssertionError(f"job {job} is {found['state']}, not {states}: {found}")

    def counts(self, *queries: str) -> list[int]:
        """Return how many jobs match each query."""
        return [
            self.http.get("/v1/jobs", params={"q": query, "limit": 1}).json()["total"] for query in queries
        ]

    def _leads(self) -> bool:
        return bool(self.http.get("/v1/cluster", timeout=2).json()["leading"])
