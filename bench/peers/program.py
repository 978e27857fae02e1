"""Runs a peer's program: short calls that answer with one JSON line, and workers that run until told to end.

A worker says `ready` when it is connected and begins at `go`, so that no side's start-up is counted; asked to
end (SIGTERM) it prints how many no-ops it executed. Programs of both languages speak so: `programs/verbs.py`
and `programs/verbs.mjs`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import ROOT, cost_of, stop
from bench.peers.install import FOLDER, NODE_FOLDER, PYTHON, node
from bench.wait import until

PROGRAMS = Path(__file__).resolve().parent / "programs"
START_SECONDS = 60.0
CALL_SECONDS = 1200.0


@dataclass(frozen=True)
class Program:
    """One peer's program, and the settings it is to run with."""

    file: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def command(self, *words: object) -> list[str]:
        runner = str(node()) if self.file.endswith(".mjs") else str(PYTHON)
        return [runner, str(PROGRAMS / self.file), *map(str, words)]

    def environment(self, address: str, witness: Path) -> dict[str, str]:
        """Say where the database is and where stamps go."""
        return {
            **os.environ,
            **self.settings,
            "BENCH_ADDRESS": address,
            "BENCH_WITNESS": str(witness),
            "BENCH_NODE_MODULES": str(NODE_FOLDER / "node_modules"),
            "PYTHONPATH": str(PROGRAMS),
            "PATH": f"{FOLDER / 'venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        }


class Runs:
    """All that one measurement runs of a program: calls, then workers. Owned by one queue."""

    def __init__(self, program: Program, address: str, directory: Path) -> None:
        self._program, self._directory = program, directory
        self.witness = directory / "stamps"
        self.witness.touch()
        self._environment = program.environment(address, self.witness)
        self._workers: list[Worker] = []
        self.executed = 0

    def call(self, *words: object) -> Any:
        """Run one call to its end and return its answer."""
        answer = subprocess.run(
            self._program.command(*words),
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            timeout=CALL_SECONDS,
        )
        if answer.returncode:
            wrong = answer.stderr.decode(errors="replace")[-3000:]
            raise RuntimeError(f"{self._program.file} {' '.join(map(str, words))} failed:\n{wrong}")
        return json.loads(answer.stdout.splitlines()[-1])

    @contextlib.contextmanager
    def working(self, count: int) -> Iterator[None]:
        """Run *count* workers: all get ready, then all begin."""
        with contextlib.ExitStack() as running:
            for _ in range(count):
                worker = Worker(self._program.command("work"), self._environment, self._directory)
                running.callback(self._end, worker)
                self._workers.append(worker)
            for worker in self._workers:
                until(worker.is_ready, f"a worker of {self._program.file}", timeout=START_SECONDS, every=0.01)
            for worker in self._workers:
                worker.go()
            yield

    def cpu_seconds(self) -> float:
        """Return what the workers that run have used."""
        return sum(cost_of(worker.process.pid).cpu_seconds for worker in self._workers)

    def _end(self, worker: Worker) -> None:
        self._workers.remove(worker)
        self.executed += worker.end()


class Worker:
    """One worker process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        descriptor, name = tempfile.mkstemp(prefix="worker-", suffix=".out", dir=directory)
        self._output = Path(name)
        self._errors = self._output.with_suffix(".err")
        with os.fdopen(descriptor, "wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=errors
            )

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"a worker ended with {self.process.returncode}:\n{self._said()[-3000:]}")
        return "ready" in self._output.read_text().split()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """End it and return how many no-ops it says it executed."""
        stop(self.process)
        if self.process.stdin is not None:
            self.process.stdin.close()
        return sum(map(int, re.findall(r"^executed (\d+)$", self._said(), re.MULTILINE)))

    def _said(self) -> str:
        return self._output.read_text(errors="replace") + self._errors.read_text(errors="replace")
