"""The README's first lines work as written: from shell, curl and Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import ROOT, RunningNode

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    """Return the shell lines a reader would type while a node is up, continuation lines joined."""
    text = "\n".join(blocks("console")).replace("\\\n", " ")
    typed = [
        line.removeprefix("$ ").split("   #")[0].strip()
        for line in text.splitlines()
        if line.startswith("$ ")
    ]
    return [line for line in typed if not re.match(r"pip |make |fairway up|curl -sN", line)]


@pytest.fixture
def run(tmp_path: Path) -> object:
    tasks = next(block for block in blocks("python") if "@app.task" in block)
    (tmp_path / "tasks.py").write_text(tasks)
    bin_folder = str(Path(sys.executable).parent)
    env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    with RunningNode(tmp_path, "--app", "tasks:app", env=env) as node:

        def run(line: str) -> str:
            done = subprocess.run(
                ["bash", "-c", line.replace("localhost:8899", f"127.0.0.1:{node.port}")],
                cwd=tmp_path,
                env=os.environ | env | {"FAIRWAY_URL": node.url},
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            return done.stdout

        yield run


def test_every_line_works(run: object) -> None:
    said: dict[str, str] = {}
    last = ""
    assert callable(run)
    for line in commands():
        said[line] = str(run(line.replace("ID ", f"{last} ").replace(" ID", f" {last}")))
        if line.startswith("fairway submit --queue"):
            last = said[line].split()[-1]
    assert said["fairway submit --wait -- echo hello"].strip() == "hello"
    show = next(text for line, text in said.items() if line.startswith("fairway jobs show"))
    assert "limit of 'demo' is full (1 of 1 running)" in show
    assert said["python tasks.py"].split()[-1] == str(len("ada@example.org"))
    assert any("hello from curl" in text for text in said.values())
