"""What the tests of several nodes share: nodes on one database, a worker apart, a job held by a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.running import CODE, ROOT, RunningNode

PATIENCE_SECONDS = 30.0
#: TTL 2 s, lease 4 s, beat 0.8 s.
FASTER = {"FAIRWAY_TIME_SCALE": "0.4"}


def make_node(folder: Path, name: str, address: str, *arguments: str, **env: str) -> RunningNode:
    """Return a node that is not started yet; nodes of one address are a cluster."""
    place = folder / name
    place.mkdir()
    return RunningNode(place, "--name", name, *arguments, env={**FASTER, **env}, address=address)


@contextmanager
def running(nodes: Sequence[RunningNode]) -> Iterator[Sequence[RunningNode]]:
    """Start nodes one after the other, so that the first one leads; stop those that are left."""
    with ExitStack() as stack:
        for number, node in enumerate(nodes):
            node.start()
            stack.callback(node.__exit__)
            node.until_ready(leading=number == 0)
        for node in nodes[1:]:
            until(lambda node=node: cluster(node)["link"] == "up", f"{node.url} has a link")
        yield nodes


def cluster(node: RunningNode) -> Any:
    """Return the cluster as a node shows it."""
    return node.http.get("/v1/cluster").json()


def until(fact: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until something is so, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := fact():
                return found
        except (httpx.TransportError, KeyError):
            pass
        time.sleep(0.02)
    raise AssertionError(f"it never came so far that {what}")


class RunningWorker:
    """`fairway worker --join`, in a process of its own."""

    def __init__(self, folder: Path, *join: str, name: str = "w", **env: str) -> None:
        self.name = name
        self.log = folder / "worker.log"
        self._env = {**os.environ, "FAIRWAY_HOME": str(folder), "PYTHONPATH": CODE, **FASTER, **env}
        self._join = [part for url in join for part in ("--join", url)]

    def __enter__(self) -> RunningWorker:
        command = [
            sys.executable,
            "-m",
            "fairway",
            "worker",
            "--name",
            self.name,
            "--slots",
            "2",
            *self._join,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._env,
                cwd=ROOT,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def said(self) -> str:
        """Return what it printed."""
        return self.log.read_text(errors="replace")[-2000:]


class HeldJob:
    """A command that writes a line at its start and at its end, which comes when it is let go."""

    def __init__(self, folder: Path, node: RunningNode, **spec: Any) -> None:
        self._lines, self._go = folder / "lines", folder / "go"
        body = (
            'echo start >> "$1"; i=0; while [ ! -e "$2" ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done'
        )
        run = ["sh", "-c", f'{body}; echo end >> "$1"', "held", str(self._lines), str(self._go)]
        self.id = node.submit(work={"adapter": "command", "run": [run]}, **spec)
        until(lambda: self.lines() == ["start"], "the job runs")

    def lines(self) -> list[str]:
        """Return what it wrote."""
        return self._lines.read_text().split() if self._lines.exists() else []

    def let_go(self) -> None:
        """Let it end."""
        self._go.touch()
