"""Whether a killed process died for lack of memory is told by the kernel's counters."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairway.adapters.python.link import describe_ending, name_ending
from fairway.worker import oom
from fairway.worker.oom import oom_kills
from fairway.worker.warden import Ended, Happening, NotSpawned, Warden

SECONDS = 20.0


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel's counters in files of our own."""
    (tmp_path / "cgroup").write_text("3:cpu:/x\n0::/work.slice\n")
    (tmp_path / "work.slice").mkdir()
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 2\n")
    monkeypatch.setattr(oom, "VMSTAT", tmp_path / "vmstat")
    monkeypatch.setattr(oom, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(oom, "GROUPS", tmp_path)
    return tmp_path / "work.slice" / "memory.events"


@pytest.fixture
async def warden() -> AsyncIterator[Warden]:
    one = Warden()
    one.start()
    yield one
    await one.close()


def test_kills_are_counted_for_the_machine_and_for_our_group(counter: Path) -> None:
    assert oom_kills() == 2
    counter.write_text("low 0\noom 9\noom_kill 3\noom_group_kill 1\n")
    assert oom_kills() == 5
    counter.write_text("oom_kill nonsense\n")
    assert oom_kills() == 2


def count(counter: Path, kills: int) -> None:
    counter.write_text(f"oom_kill {kills}\n")


async def end_of(warden: Warden, number: int, counter: Path, kills: int) -> Ended:
    """Kill a process by a signal while the counter rises to *kills*."""
    ended: asyncio.Future[Happening] = asyncio.get_running_loop().create_future()
    started = asyncio.Event()

    def tell(happening: Happening) -> None:
        started.set()
        if isinstance(happening, Ended | NotSpawned) and not ended.done():
            ended.set_result(happening)

    process = warden.spawn(["sleep", "1000"], tell)
    async with asyncio.timeout(SECONDS):
        await started.wait()
        count(counter, kills)
        process.signal(number)
        happening = await ended
    assert isinstance(happening, Ended)
    return happening


async def test_a_process_killed_while_the_counter_rose_lacked_memory(warden: Warden, counter: Path) -> None:
    ended = await end_of(warden, signal.SIGKILL, counter, 1)
    assert ended.out_of_memory
    assert (name_ending(ended), describe_ending(ended)) == (
        "OutOfMemory", "killed by SIGKILL because memory ran out",
    )  # fmt: skip


async def test_without_a_count_it_is_only_possible(warden: Warden, counter: Path) -> None:
    count(counter, 1)
    ended = await end_of(warden, signal.SIGKILL, counter, 1)
    assert not ended.out_of_memory
    assert name_ending(ended) == "KilledBySignal" and "possibly" in describe_ending(ended)


async def test_other_signals_are_told_by_their_names(warden: Warden, counter: Path) -> None:
    ended = await end_of(warden, signal.SIGTERM, counter, 1)
    assert (name_ending(ended), describe_ending(ended)) == ("KilledBySignal", "killed by SIGTERM")
