"""A discipline of another package: installed, found by its entry point, and used by a real node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import ROOT, RunningNode

EXAMPLE = ROOT / "examples" / "lottery"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that looks as if the example had been installed into it."""
    folder = tmp_path / "site"
    about = folder / "fairway_lottery-0.1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "fairway_lottery.py").write_text((EXAMPLE / "fairway_lottery.py").read_text())
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fairway-lottery\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[fairway.disciplines]\nlottery = fairway_lottery:Lottery\n")
    return folder


def test_the_example_passes_its_own_tests(installed: Path) -> None:
    env = os.environ | {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(EXAMPLE)]
    answer = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, cwd=installed)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert re.search(r"^[0-9]{2} passed in", answer.stdout, re.MULTILINE), answer.stdout


def test_a_node_serves_a_queue_by_it(installed: Path, tmp_path: Path) -> None:
    env = {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}"}
    with RunningNode(tmp_path, "--slots", "1", env=env) as node:
        assert node.http.patch("/v1/queues/raffle", json={"discipline": "lottery"}).status_code == 200
        job = node.submit(queue="raffle", work={"adapter": "command", "run": [["true"]]})
        assert node.job(job, wait="20s")["state"] == "succeeded"
    with RunningNode(tmp_path, "--slots", "1") as node:  # it is gone: the default serves its queue
        job = node.submit(queue="raffle", work={"adapter": "command", "run": [["true"]]})
        assert node.job(job, wait="20s")["state"] == "succeeded"
        assert node.http.get("/v1/queues/raffle").json()["settings"]["discipline"] == "lottery"
        refused = node.http.patch("/v1/queues/other", json={"discipline": "lottery"})
        assert refused.status_code in (400, 422)
