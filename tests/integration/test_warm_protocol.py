"""The warm protocol, spoken by hand over the pipes: every child answers alike, whatever it is written in."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.warm_children import WARM_KINDS, WarmKind

PATIENCE_SECONDS = 30.0
pytestmark = pytest.mark.timeout(400)  # a package may have to be installed


class Child:
    """A warm child at the other end of two pipes."""

    def __init__(self, kind: WarmKind, folder: Path) -> None:
        self._name = kind.name
        theirs_read, self._writer = os.pipe()
        self._reader, theirs_write = os.pipe()
        marks = {"READ_FD": theirs_read, "WRITE_FD": theirs_write, "ADAPTER": kind.adapter, "PROTOCOL": 1}
        self.process = subprocess.Popen(
            kind.argv(folder),
            env=os.environ | {f"FAIRWAY_{name}": str(value) for name, value in marks.items()},
            pass_fds=(theirs_read, theirs_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(theirs_read)
        os.close(theirs_write)
        self._lines: list[bytes] = [b""]
        self._jobs = 0
        self.ready = self.read()["ready"]

    def read(self) -> dict[str, Any]:
        """Return the next message, {} at the end."""
        while len(self._lines) < 2:
            readable, _, _ = select.select([self._reader], [], [], PATIENCE_SECONDS)
            assert readable, "the child says nothing"
            chunk = os.read(self._reader, 65536)
            if not chunk:
                return {}
            *lines, last = (self._lines.pop() + chunk).split(b"\n")
            self._lines += [*lines, last]
        message: dict[str, Any] = json.loads(self._lines.pop(0))
        return message

    def write(self, message: dict[str, Any]) -> None:
        """Send a message."""
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(self._writer, line) :]

    def begin(self, task: str, *args: Any, **more: Any) -> str:
        """Send a job; return its id."""
        self._jobs += 1
        job = f"job{self._jobs:010}"
        order = {
            "job": job,
            "attempt": 2,
            "task": self._name(task),
            "args": args,
            "kwargs": {},
            "queue": "acme/mail",
        }
        self.write({"run": {**order, "timeout": None, "generation": 3, "checkpoint": None, "new": 1, **more}})
        return job

    def run(self, task: str, *args: Any, **more: Any) -> dict[str, Any]:
        """Send a job; return its result."""
        return self.result_of(self.begin(task, *args, **more))

    def result_of(self, job: str) -> dict[str, Any]:
        """Return the next message, which must be this job's result."""
        result: dict[str, Any] = self.read()["result"]
        assert (result["job"], result["attempt"]) == (job, 2)
        return result

    def printed(self, stream: str, count: int) -> str:
        """Return the next bytes it printed."""
        pipe = getattr(self.process, stream)
        readable, _, _ = select.select([pipe], [], [], PATIENCE_SECONDS)
        assert readable, "nothing was printed"
        return str(pipe.read(count).decode())

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """Let go of it."""
        self.process.kill()
        self.process.communicate()
        os.close(self._reader)
        if self._writer >= 0:
            os.close(self._writer)

    def close_writer(self) -> None:
        """Go away, as a worker that died."""
        os.close(self._writer)
        self._writer = -1


@pytest.fixture(scope="module", params=WARM_KINDS)
def kind(request: pytest.FixtureRequest) -> WarmKind:
    return WARM_KINDS[request.param]


@pytest.fixture(scope="module")
def folder(kind: WarmKind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(kind.adapter)


@pytest.fixture(scope="module")
def child(kind: WarmKind, folder: Path) -> Iterator[Child]:
    """A child for all tests that leave it alive: that is part of what they test."""
    child = Child(kind, folder)
    yield child
    child.close()


@pytest.fixture
def mortal(kind: WarmKind, folder: Path) -> Iterator[Child]:
    """A child for one test that ends it."""
    child = Child(kind, folder)
    yield child
    child.close()


def test_it_says_what_it_can(child: Child, kind: WarmKind) -> None:
    names = {task["name"] for task in child.ready["tasks"]}
    assert (child.ready["protocol"], child.ready["concurrency"]) == (1, 1)
    assert {kind.name(task) for task in ("add", "sleep", "die")} <= names
    assert all(isinstance(task.get("signature", ""), str) for task in child.ready["tasks"])


def test_values_come_back_one_job_after_the_other(child: Child) -> None:
    assert [child.run("add", number, 1)["value"] for number in range(20)] == list(range(1, 21))
    assert child.run("add", "a", "ü\n \U0001f600")["value"] == "aü\n \U0001f600"


def test_a_line_may_be_as_long_as_a_payload(child: Child) -> None:
    assert child.run("add", "x" * 700_000, "y")["value"] == "x" * 700_000 + "y"


def test_an_error_is_told_and_the_child_lives_on(child: Child) -> None:
    result = child.run("fail", "no such page")
    assert result["ok"] is False
    error = result["error"]
    assert (error["message"], bool(error.get("permanent"))) == ("no such page", False)
    assert error["type"] in ("ValueError", "TypeError", "ArgumentError") and "fail" in error["traceback"]
    assert child.run("add", 1, 1)["value"] == 2


def test_a_failure_for_good_and_a_wish_to_wait_are_marked(child: Child) -> None:
    assert child.run("refuse", "never")["error"]["permanent"] is True
    later = child.run("later", 7.5)["error"]
    assert (bool(later.get("permanent")), later["retry_after"]) == (False, 7.5)


def test_what_is_printed_goes_past_the_protocol(child: Child) -> None:
    assert child.run("shout", "hallo")["ok"] is True
    assert child.printed("stdout", 12) == "hallo\nno end"
    assert child.printed("stderr", 6) == "HALLO\n"


def test_progress_checkpoints_and_words_name_their_job(child: Child) -> None:
    job = child.begin("count", 3, checkpoint=2)
    progress, checkpoint, log = (child.read() for _ in range(3))
    name = {"job": job, "attempt": 2}
    assert progress == {"progress": {**name, "fraction": 1.0, "text": "3 of 3"}}
    assert checkpoint == {"checkpoint": {**name, "value": 3}}
    assert log["log"] == {**name, "text": "counted"}
    assert child.result_of(job)["value"] == 2


def test_a_job_knows_its_queue_and_generation(child: Child) -> None:
    where = child.run("where")["value"]
    assert (where["queue"], where["generation"]) == ("acme/mail", 3)


def test_a_job_that_is_cancelled_hears_it_and_the_next_one_does_not(child: Child) -> None:
    job = child.begin("sleep", 60)
    child.write({"cancel": {"job": "job0000000000", "attempt": 1, "reason": "cancelled"}})  # nobody's
    child.write({"cancel": {"job": job, "attempt": 2, "reason": "cancelled"}})
    assert child.result_of(job)["ok"] is False
    assert child.run("sleep", 0.01)["value"] == "rested"


def test_what_a_newer_worker_says_is_passed_over(child: Child) -> None:
    child.write({"weather": {"sky": "blue"}})
    assert child.run("add", 2, 2)["value"] == 4


def test_a_task_it_does_not_know_fails_and_names_it(child: Child) -> None:
    result = child.run("nosuch")
    assert result["ok"] is False and "nosuch" in result["error"]["message"].lower()


def test_it_ends_when_it_is_told_to(mortal: Child) -> None:
    mortal.write({"exit": {}})
    assert mortal.end() == 0


def test_it_ends_when_the_worker_is_gone(mortal: Child) -> None:
    mortal.close_writer()
    assert mortal.end() == 0


def test_a_job_may_end_the_process_and_no_word_is_cut(mortal: Child) -> None:
    assert mortal.run("add", 1, 1)["value"] == 2
    mortal.begin("die", 3)
    assert mortal.read() == {}
    assert mortal.end() == 3


def test_sigterm_ends_an_idle_child(mortal: Child) -> None:
    mortal.process.send_signal(signal.SIGTERM)
    assert mortal.end() in (-signal.SIGTERM, 128 + signal.SIGTERM)
