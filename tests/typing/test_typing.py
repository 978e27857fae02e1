"""A task is typed like its function: mypy --strict takes the right uses and refuses the wrong ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FIXTURES = sorted(path.name for path in HERE.glob("*_*.py") if path.name.startswith(("ok_", "bad_")))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What mypy says about every fixture, in one run: file → line → code."""
    cache = tmp_path_factory.mktemp("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={cache}"]
    run = subprocess.run(
        [*command, "--follow-imports=silent", "--hide-error-context", "--config-file=", *FIXTURES],
        cwd=HERE,
        env={"MYPYPATH": str(HERE.parents[1] / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    errors: dict[str, dict[int, str]] = {name: {} for name in FIXTURES}
    for name, line, code in re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", run.stdout, re.MULTILINE):
        errors[name][int(line)] = code
    return errors


@pytest.mark.parametrize("name", FIXTURES)
def test_mypy_finds_exactly_what_is_marked(name: str, found: dict[str, dict[int, str]]) -> None:
    assert found[name] == marked(name)


def test_there_are_fixtures_of_both_kinds() -> None:
    assert all(bool(marked(name)) == name.startswith("bad_") for name in FIXTURES)
    assert {name.split("_")[0] for name in FIXTURES} == {"ok", "bad"}


def marked(name: str) -> dict[int, str]:
    """Return the lines of a fixture that say which error is expected there."""
    lines = (HERE / name).read_text().splitlines()
    found = {number: re.search(r"# E: ([\w-]+)$", line) for number, line in enumerate(lines, 1)}
    return {number: match[1] for number, match in found.items() if match}
