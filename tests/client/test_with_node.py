"""The client against a real node and worker, started as a user would."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fairway

TASKS = """
import time
from datetime import datetime, timedelta

import fairway

app = fairway.App()

@app.task
def add(a: int, b: int = 1) -> int:
    return a + b

@app.task
def next_day(moment: datetime) -> datetime:
    return moment + timedelta(days=1)

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"

@app.task
def fail_for_good(why: str) -> None:
    raise fairway.PermanentFailure(why)

@app.task(max_attempts=2, backoff={"first": 0.01, "max": 0.01})
def always_fails() -> None:
    raise ValueError("again")

@app.task
def sleep(seconds: float) -> None:
    time.sleep(seconds)
"""


class Running:
    """A node with a worker, its address and its tasks."""

    def __init__(self, url: str, database: Path, tasks: ModuleType) -> None:
        self.url, self.database, self.tasks = url, database, tasks


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("node")
    (folder / "node_tasks.py").write_text(textwrap.dedent(TASKS))
    database = folder / "jobs.db"
    command = [sys.executable, "-m", "fairway.cli", "up", "--database", f"sqlite:///{database}"]
    command += ["--listen", "127.0.0.1:0", "--app", "node_tasks:app", "--slots", "2"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "FAIRWAY_HOME": str(folder),
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        url = address_of(process)
        yield Running(url, database, tasks_at(folder, url))
    finally:
        stop(process)


def address_of(process: subprocess.Popen[str]) -> str:
    """Return the address a node says it listens on; its output is read on so that it never blocks."""
    said: list[str] = []
    found = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if re.search(r"http://127\.0\.0\.1:\d+", line):
                found.set()
        found.set()

    threading.Thread(target=read, daemon=True).start()
    assert found.wait(30), "the node said nothing"
    match = re.search(r"http://127\.0\.0\.1:\d+", "".join(said))
    assert match, "".join(said)
    return match[0]


def tasks_at(folder: Path, url: str) -> ModuleType:
    """Import the tasks as the worker does, with an app that goes to the node."""
    tasks = ModuleType("node_tasks")
    previous, os.environ["FAIRWAY_URL"] = os.environ.get("FAIRWAY_URL"), url
    try:
        sys.modules["node_tasks"] = tasks
        exec(compile((folder / "node_tasks.py").read_text(), "node_tasks.py", "exec"), tasks.__dict__)
        assert tasks.app.channel is not None  # opened while the address stands
    finally:
        del os.environ["FAIRWAY_URL"]
        if previous is not None:
            os.environ["FAIRWAY_URL"] = previous
    return tasks


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def eventually(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until *holds*, looking often."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def test_a_value_comes_back(node: Running) -> None:
    assert node.tasks.add.submit(2, b=3).result(timeout=20) == 5


def test_types_survive_the_journey(node: Running) -> None:
    moment = datetime(2026, 2, 28, 12, tzinfo=UTC)
    assert node.tasks.next_day.submit(moment).result(timeout=20) == datetime(2026, 3, 1, 12, tzinfo=UTC)


async def test_an_async_task_without_blocking(node: Running) -> None:
    async with asyncio.timeout(20):
        handles = await asyncio.gather(*(node.tasks.greet.asubmit(name) for name in "abc"))
        assert [await handle.aresult() for handle in handles] == ["hello a", "hello b", "hello c"]


def test_a_permanent_failure_is_told_with_its_traceback(node: Running) -> None:
    with pytest.raises(fairway.JobFailed, match="bad address") as raised:
        node.tasks.fail_for_good.submit("bad address").result(timeout=20)
    assert raised.value.reason == "permanent"
    assert "fail_for_good" in raised.value.traceback


def test_tries_run_out(node: Running) -> None:
    handle = node.tasks.always_fails.submit()
    with pytest.raises(fairway.JobFailed, match="again") as raised:
        handle.result(timeout=20)
    assert raised.value.reason == "max_attempts"
    assert handle.details["tries"] == 2


def test_a_cancelled_job_never_begins(node: Running) -> None:
    handle = node.tasks.add.options(delay="1h").submit(1)
    assert handle.state == "scheduled"
    assert handle.cancel().state == "cancelled"
    with pytest.raises(fairway.JobCancelled):
        handle.result(timeout=20)
    assert handle.details["attempt"] == 0


def test_a_running_job_is_stopped(node: Running) -> None:
    handle = node.tasks.sleep.submit(60)
    eventually(lambda: handle.state == "running")
    handle.cancel()
    with pytest.raises(fairway.JobCancelled):
        handle.result(timeout=20)


def test_a_result_can_be_late(node: Running) -> None:
    handle = node.tasks.sleep.submit(60)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.05)
    handle.cancel()


def test_many_jobs(node: Running) -> None:
    handles = node.tasks.app.submit_many((node.tasks.add.job(n) for n in range(300)), batch=100)
    assert [handle.result(timeout=30) for handle in handles] == list(range(1, 301))


def test_equal_unique_keys_are_one_job(node: Running) -> None:
    task = node.tasks.add.options(unique="once", delay="1h")
    first, second = task.submit(1), task.submit(2)
    assert first.id == second.id
    first.cancel()


def test_equal_payloads_are_one_job(node: Running) -> None:
    task = node.tasks.add.options(unique=True, delay="1h")
    first, second, other = task.submit(1), task.submit(1), task.submit(2)
    assert first.id == second.id != other.id
    first.cancel()
    other.cancel()


def test_a_key_that_lasts_gives_the_ended_job_again(node: Running) -> None:
    task = node.tasks.add.options(unique="lasting", unique_for="1h")
    first = task.submit(1)
    assert first.result(timeout=30) == 2
    again = task.submit(41)
    assert again.id == first.id and again.result(timeout=5) == 2


def test_only_the_newest_of_many_is_run(node: Running) -> None:
    newest = node.tasks.add.options(unique="page-7", replace=True, delay=0.3)
    handles = [newest.submit(number) for number in range(5)]
    assert handles[-1].result(timeout=30) == 5
    for handle in handles[:-1]:
        with pytest.raises(fairway.JobCancelled):
            handle.result(timeout=30)
        assert handle.refresh().details["outcome"]["reason"] == "replaced"


def test_events_tell_of_a_job(node: Running) -> None:
    app = node.tasks.app
    heard: list[dict[str, Any]] = []
    done = threading.Event()

    def listen() -> None:
        for event in app.events("queue:heard"):
            heard.append(event)
            if event.get("state") == "succeeded":
                break
        done.set()

    threading.Thread(target=listen, daemon=True).start()
    until = time.monotonic() + 20
    while not done.is_set() and time.monotonic() < until:  # the listener may come after the first job
        node.tasks.add.options(queue="heard").submit(1).result(timeout=20)
        done.wait(0.1)
    assert heard[-1]["state"] == "succeeded"
    assert {event["queue"] for event in heard} == {"heard"}


def test_the_file_itself_takes_jobs_too(node: Running) -> None:
    direct = fairway.App(database=f"sqlite:///{node.database}")
    add = direct.task(name="node_tasks.add")(node.tasks.add.function)
    assert add.submit(20, 22).result(timeout=20) == 42
    waiting = add.options(delay="1h").submit(1, 2)
    assert waiting.cancel().state == "cancelled"
    direct.close()


TRANSACTION = """
import sqlite3, sys, fairway
app = fairway.App(url=sys.argv[2])
add = app.task(name="node_tasks.add")(lambda a, b=1: a + b)
connection = sqlite3.connect(sys.argv[1], timeout=20)
with connection:
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id)")
    handle = add.submit(40, connection=connection)
print(handle.result(timeout=20))
"""


def test_a_job_of_a_users_own_transaction_runs_after_the_commit(node: Running) -> None:
    command = [sys.executable, "-c", TRANSACTION, str(node.database), node.url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("41\n", "")
