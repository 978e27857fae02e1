"""What `import fairway` gives, and what it does not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fairway

EXPORTS = {
    "App", "Task", "Handle", "Group", "JobRequest", "JobFailed", "JobCancelled", "JobUnknown",
    "PermanentFailure", "RetryAfter", "current", "FairwayError", "__version__",
}  # fmt: skip
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "python.md"


def test_the_public_names_are_these() -> None:
    assert set(fairway.__all__) == EXPORTS == set(dir(fairway))
    assert all(getattr(fairway, name) is not None for name in EXPORTS)


def test_every_public_name_is_in_the_guide() -> None:
    guide = GUIDE.read_text()
    assert {name for name in EXPORTS if f"`fairway.{name}" not in guide} == set()


def loaded_by(code: str) -> set[str]:
    """Return which heavy modules a fresh interpreter has after *code*."""
    code += "\nimport sys; print(*({'httpx', 'asyncio', 'apsw', 'msgspec', 'starlette'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(run.stdout.split())


def test_importing_fairway_loads_nothing_heavy() -> None:
    assert loaded_by("import fairway") == set()


def test_registering_a_task_loads_no_client() -> None:
    code = "import fairway\napp = fairway.App()\n@app.task(timeout=3)\ndef f(a: int): ...\nf.load(b'{}')"
    assert loaded_by(code) == {"msgspec"}
