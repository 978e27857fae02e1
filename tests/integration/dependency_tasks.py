"""Tasks that note when they ran, in a file that all of them append to."""

from __future__ import annotations

import os
import time
from pathlib import Path

import fairway

app = fairway.App()


def note(text: str) -> None:
    with Path(os.environ["FAIRWAY_TEST_NOTES"]).open("a") as notes:
        notes.write(text + "\n")


@app.task
def step(name: str, seconds: float = 0.0) -> str:
    note(f"+{name}")
    time.sleep(seconds)
    note(f"-{name}")
    return name


@app.task
def fail(name: str) -> None:
    note(f"+{name}")
    raise fairway.PermanentFailure(name)


@app.task
def report() -> int:
    note("+report")
    return len(app.get(fairway.current().job_id).details["after"])
