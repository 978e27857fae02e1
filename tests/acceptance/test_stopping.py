"""Cancel and timeout end any code on a real node: no process is left, the slot is free, neighbours go on."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import witness
from tests.acceptance.stubborn import DAEMONS
from tests.integration.worker_world import is_gone
from tests.running import RunningNode

TASKS = "tests.acceptance.stubborn"
GRACE_SECONDS = 0.5
PATIENCE_SECONDS = 60.0


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def node(tmp_path: Path, seen: Path) -> Iterator[RunningNode]:
    """A node with three slots: two for the neighbours, one for the code that is stopped."""
    env = {"FAIRWAY_TEST_WITNESS": str(seen)}
    with RunningNode(tmp_path, "--app", f"{TASKS}:app", "--slots", "3", env=env) as node:
        yield node


def run(*argv: str) -> dict[str, Any]:
    return {"work": {"adapter": "command", "run": [list(argv)]}}


def task(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda token: {"task": f"{TASKS}.{name}", "args": [token]}


def daemons(token: str) -> dict[str, Any]:
    return run("sh", "-c", f"{DAEMONS.format(token=token)}\necho up; sleep 1000{token}")


def deaf(token: str) -> dict[str, Any]:
    return run("sh", "-c", f"trap '' TERM INT HUP; echo up; while :; do sleep 1000{token}; done")


STUBBORN = {
    "while True: pass": task("spin"),
    "time.sleep(1e9)": task("sleep_for_ever"),
    "a C call with the GIL": task("hold_the_gil"),
    "a C call without it": task("block_in_c"),
    "a task that swallows exceptions": task("swallow"),
    "a task that starts daemons": task("start_daemons"),
    "a shell that starts daemons": daemons,
    "a program deaf to SIGTERM": deaf,
}


def processes_with(token: str) -> list[psutil.Process]:
    """Return what lives and names the token."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or [])
        if token in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def until(fact: Callable[[], Any], what: str) -> None:
    """Wait until *fact* holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def until_it_runs(node: RunningNode, job: str, seen: Path) -> None:
    """Wait until the code of a job is at its worst."""

    def runs() -> bool:
        if node.http.get(f"/v1/jobs/{job}/log").text.strip():
            return True
        return any(line.job == job for line in witness.read(seen))

    until(runs, f"job {job} has not begun")


def token_of() -> str:
    """Return a number that no other process names."""
    return f"{uuid.uuid4().int % 10**9:09d}"


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_whatever_runs_is_ended_and_nothing_else(
    node: RunningNode, seen: Path, tmp_path: Path, how: str
) -> None:
    let_go = tmp_path / "let-go"
    neighbours = [node.submit(task=f"{TASKS}.{name}", args=[str(let_go)]) for name in ("work", "nap")]
    for job in neighbours:
        until_it_runs(node, job, seen)
    for name, make in STUBBORN.items():
        stop(node, seen, name, make, how)
    let_go.touch()
    for job in neighbours:
        ended = node.job(job, wait="60s")
        assert (ended["state"], ended["outcome"]["value"], ended["crashes"]) == ("succeeded", 1, 0)


def stop(node: RunningNode, seen: Path, name: str, make: Callable[[str], dict[str, Any]], how: str) -> None:
    """Let one kind of code begin, end it, and see that nothing is left of it."""
    token = token_of()
    spec = make(token) | {"max_attempts": 1, "grace": GRACE_SECONDS}
    if how == "timeout":
        spec["timeout"] = 3.0
    job = node.submit(**spec)
    until_it_runs(node, job, seen)
    began = time.monotonic()
    if how == "cancel":
        assert node.http.delete(f"/v1/jobs/{job}").status_code == 200
    ended = node.job(job, wait="60s")
    wanted = ("cancelled", "cancelled") if how == "cancel" else ("failed", "timeout")
    assert (ended["state"], ended["outcome"]["reason"]) == wanted, (name, ended)
    until(lambda: not processes_with(token), f"{name}: left {processes_with(token)}")
    asked = ended["timeout"] or 0.0
    print(f"\n{how} of {name}: over {time.monotonic() - began - asked - GRACE_SECONDS:.2f} s after its grace")
    free = node.job(node.submit(**run("true")), wait="60s")  # the one slot that its neighbours left
    assert (free["state"], free["attempt"]) == ("succeeded", 1)


def test_nothing_outlives_a_node_that_is_killed(node: RunningNode, seen: Path) -> None:
    """kill -9 of the process that beats: its tasks, commands and all their daemons are gone."""
    token = token_of()
    for spec in (task("start_daemons")(token), daemons(token), task("hold_the_gil")(token)):
        until_it_runs(node, node.submit(**spec), seen)
    assert node.process is not None
    family = psutil.Process(node.process.pid).children(recursive=True)
    assert len(processes_with(token)) >= 8 and family
    began = time.monotonic()
    os.kill(node.process.pid, signal.SIGKILL)
    node.process.wait(10)
    until(lambda: not processes_with(token), "daemons outlive the node")
    until(lambda: all(is_gone(process.pid) for process in family), "children outlive the node")
    print(f"\nall gone {time.monotonic() - began:.2f} s after kill -9")
