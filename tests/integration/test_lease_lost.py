"""`on_lease_lost`: what becomes of running code when its worker loses the lease; processes stopped for real.

The jobs' own code is the witness: each attempt writes its number and its pid into a file, and whether the
attempt before it still lived when it began.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from fairway.node.databases import choose_database
from fairway.node.inbox import Inbox
from fairway.node.options import NodeOptions, scaled_timers
from fairway.node.ports import Hosting, Port
from fairway.wire.messages import Beat, FromWorker, Heard, Hello, Stop, ToWorker, Welcome
from tests.integration.cluster_world import RunningWorker, until
from tests.integration.worker_world import is_gone
from tests.running import RunningNode

#: Beat 0.4 s, lease 2 s.
SHORT = {"FAIRWAY_TIME_SCALE": "0.2"}

SCRIPT = """
before=$(tail -n 1 "$1" 2>/dev/null | cut -d ' ' -f 2)
if [ -n "$before" ] && kill -0 "$before" 2>/dev/null; then met=both; else met=alone; fi
echo "$FAIRWAY_ATTEMPT $$ $met" >> "$1"
exec sleep 300
"""


class Line(NamedTuple):
    """What an attempt wrote when it began."""

    attempt: int
    pid: int
    met: str


class Marked:
    """A job that runs for ever, and the file of its attempts."""

    def __init__(self, folder: Path, node: RunningNode, queue: str) -> None:
        self._node, self._file = node, folder / queue
        run = [["sh", "-c", SCRIPT, "marked", str(self._file)]]
        self.id = node.submit(queue=queue, work={"adapter": "command", "run": run})
        self.pid = self.until_begun(1).pid

    def lines(self) -> list[Line]:
        """Return what its attempts wrote."""
        words = [line.split() for line in self._file.read_text().splitlines()] if self._file.exists() else []
        return [Line(int(attempt), int(pid), met) for attempt, pid, met in words]

    def until_begun(self, times: int) -> Line:
        """Wait until it has begun so often; return the last."""
        until(lambda: len(self.lines()) >= times, f"{self._file.name} has begun {times} times")
        return self.lines()[times - 1]

    def first_is_gone(self) -> bool:
        """Whether the code of its first attempt has ended."""
        return is_gone(self.pid)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    """A node without a worker, and a queue whose code ends with its lease."""
    with RunningNode(tmp_path, "--no-worker", env=SHORT) as node:
        answer = node.http.put("/v1/queues/killed", json={"on_lease_lost": "kill"})
        assert answer.status_code == 200, answer.text
        yield node


@pytest.fixture
def worker(tmp_path: Path, node: RunningNode) -> Iterator[RunningWorker]:
    """A worker, in a process of its own."""
    with RunningWorker(tmp_path, node.url) as worker:
        yield worker


@pytest.fixture
def jobs(tmp_path: Path, node: RunningNode, worker: RunningWorker) -> tuple[Marked, Marked]:
    """Two that run there: of the queue whose code is killed, and of one whose code is kept."""
    return Marked(tmp_path, node, "killed"), Marked(tmp_path, node, "kept")


@contextmanager
def frozen(*processes: psutil.Process) -> Iterator[None]:
    """Stop processes, and let them go on in the same order."""
    with ExitStack() as stack:
        for process in processes:
            process.suspend()
        for process in reversed(processes):
            stack.callback(process.resume)
        yield


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_without_a_node_ends_what_must_not_outlive_its_lease(
    node: RunningNode, jobs: tuple[Marked, Marked], number: int
) -> None:
    killed, kept = jobs
    assert node.process is not None
    node.process.send_signal(number)
    until(killed.first_is_gone, "the code has ended while no node answers")
    assert not kept.first_is_gone()
    if number == signal.SIGSTOP:
        node.process.send_signal(signal.SIGCONT)
    else:
        node.process.wait(10)
        node.start()
        node.until_ready()
    assert killed.until_begun(2).met == "alone"
    found = node.until_state(killed.id, "running")
    assert (found["tries"], found["crashes"]) == (0, 0)  # handed back, at no cost
    assert not kept.first_is_gone() and len(kept.lines()) == 1


def test_the_guardian_ends_it_when_the_agent_is_frozen(
    tmp_path: Path, node: RunningNode, worker: RunningWorker, jobs: tuple[Marked, Marked]
) -> None:
    killed, kept = jobs
    with frozen(psutil.Process(worker.process.pid)), RunningWorker(tmp_path, node.url, name="other"):
        assert killed.until_begun(2).met == "alone"
        assert kept.until_begun(2).met == "both"  # so the witness can tell
        assert not kept.first_is_gone()


def test_after_a_thaw_code_whose_lease_is_over_is_gone_at_once(
    tmp_path: Path, node: RunningNode, worker: RunningWorker, jobs: tuple[Marked, Marked]
) -> None:
    killed, kept = jobs
    agent = psutil.Process(worker.process.pid)
    below = agent.children(recursive=True)
    assert {killed.pid, kept.pid} <= {process.pid for process in below}
    with RunningWorker(tmp_path, node.url, name="other"):
        with frozen(*reversed([agent, *below])):  # the code goes on first, the agent last
            assert killed.until_begun(2).met == kept.until_begun(2).met == "both"
        until(killed.first_is_gone, "the code is gone", seconds=1.0)
        assert not kept.first_is_gone()


# --- the node's half --------------------------------------------------------------------------------------
class Seat:
    """A leader's port with one worker, and whether the leader trusts itself."""

    def __init__(self) -> None:
        self.trusted = True
        self.inbox = Inbox()
        hosting = Hosting(3, "n", 2.0, 10.0, 30.0, trusts=lambda: self.trusted)
        self.port = Port(hosting, self.inbox, {}, keep_log=lambda lines: None, keep_notes=lambda notes: None)

    async def say(self, message: FromWorker) -> list[ToWorker]:
        """Let the worker say something; return what it hears next."""
        await self.port.receive(message)
        self.port.send(END)
        async for frames in self.port.next_frames():
            return frames[: frames.index(END)]
        raise AssertionError("the port closed")


HELLO = Hello(1, "w", "w-1", 1, ["command"])
END = Stop(3, [])


async def test_a_beat_is_answered_with_its_number() -> None:
    seat = Seat()
    assert await seat.say(HELLO) == [Welcome(1, 3, "n", 2.0, 10.0, [], 30.0, heard=True)]
    assert await seat.say(Beat([], number=7)) == [Heard(3, 7)]
    assert await seat.say(Beat([])) == []  # of a worker that does not ask


async def test_a_leader_that_does_not_trust_itself_promises_nothing() -> None:
    seat = Seat()
    seat.trusted = False
    assert await seat.say(HELLO) == [Welcome(1, 3, "n", 2.0, 10.0, [], 30.0, heard=False)]
    assert await seat.say(Beat([], number=7)) == []


async def test_a_leader_whose_reign_is_over_promises_nothing() -> None:
    seat = Seat()
    await seat.say(HELLO)
    seat.inbox.close()
    assert await seat.say(Beat([], number=7)) == []


@pytest.mark.parametrize(("address", "seconds"), [("sqlite:///x.db", 1.0), ("postgresql://h/x", 3.0)])
def test_the_lease_outlives_a_fail_over_of_the_database(address: str, seconds: float) -> None:
    database = choose_database(NodeOptions(database=address))
    assert database.adapt(scaled_timers(0.1)).kill_lease == pytest.approx(seconds)
