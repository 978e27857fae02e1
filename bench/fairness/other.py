"""The same jobs through the core of another checkout, in a process of its own that finds that core first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.fairness.table import Row, rows_of

ROOT = Path(__file__).resolve().parents[2]


class OtherFailed(Exception):
    """The replay with the other checkout's core came to nothing."""


class Other:
    """A replay with another core, going on beside ours."""

    def __init__(self, checkout: Path, arguments: Sequence[str]) -> None:
        self._source = checkout.resolve() / "src"
        found = [*_without_against(arguments), "--json", "--quiet"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.fairness", *found],
            env=os.environ | {"PYTHONPATH": f"{self._source}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self) -> list[Row]:
        """Wait for its rows."""
        printed, errors = self._process.communicate()
        if self._process.returncode:
            last = (errors.strip().splitlines() or ["no word of why"])[-1]
            raise OtherFailed(f"the core in {self._source} could not be run: {last}")
        found = json.loads(printed)
        if not Path(found["code"]).is_relative_to(self._source):
            raise OtherFailed(f"there is no core in {self._source}")
        return rows_of(found["rows"])

    def close(self) -> None:
        """End it if it still goes on: nobody wants its rows any more."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def _without_against(arguments: Sequence[str]) -> Iterator[str]:
    is_its_value = False
    for one in arguments:
        if not is_its_value and not one.startswith("--against"):
            yield one
        is_its_value = one == "--against"
