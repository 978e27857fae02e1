"""The guardian: it spawns, signals and reports, and outlives its agent only to clean up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fairway.worker.guardian import cgroup_of, find_own_cgroup, read_clock
from fairway.worker.warden import Ended, Halted, Happening, NotSpawned, Spawned, Swept, Warden
from tests.integration.worker_world import PATIENCE_SECONDS, eventually, is_gone


class Witness:
    """Hears what happens to one process."""

    def __init__(self) -> None:
        self.heard: list[Happening] = []
        self.news = asyncio.Event()

    def __call__(self, happening: Happening) -> None:
        self.heard.append(happening)
        self.news.set()

    async def until(self, kind: type[Happening]) -> Happening:
        """Wait for a happening of one kind."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := [happening for happening in self.heard if isinstance(happening, kind)]):
                self.news.clear()
                await self.news.wait()
        return found[0]


@pytest.fixture
async def warden() -> AsyncIterator[Warden]:
    """A warden with its guardian."""
    warden = Warden()
    warden.start()
    yield warden
    await warden.close()


async def test_a_process_is_told_from_spawn_to_exit(warden: Warden) -> None:
    witness = Witness()
    warden.spawn(["sh", "-c", "exit 5"], witness)
    ended = await witness.until(Ended)
    assert isinstance(witness.heard[0], Spawned)
    assert isinstance(ended, Ended) and ended.code == 5


@pytest.mark.parametrize("argv", [["no-such-program"], ["/"], ["a\0b"], []])
async def test_what_cannot_start_is_told(warden: Warden, argv: list[str]) -> None:
    witness = Witness()
    warden.spawn(argv, witness)
    failed = await witness.until(NotSpawned)
    assert isinstance(failed, NotSpawned) and failed.message


async def test_a_directory_that_is_not_there_is_named(warden: Warden, tmp_path: Path) -> None:
    witness = Witness()
    warden.spawn(["true"], witness, cwd=str(tmp_path / "missing"))
    failed = await witness.until(NotSpawned)
    assert isinstance(failed, NotSpawned) and "missing" in failed.message


async def test_descriptors_reach_the_place_they_are_meant_for(warden: Warden) -> None:
    reader, writer = os.pipe()
    other_reader, other_writer = os.pipe()
    witness = Witness()
    # To the numbers at which they most likely arrive, crossed over.
    fds = dict.fromkeys((8, 10, 12), writer) | dict.fromkeys((7, 9, 11), other_writer)
    script = "echo one >&8; echo two >&7; echo one >&12; echo two >&11"
    warden.spawn(["bash", "-c", script], witness, fds=fds)
    os.close(writer)
    os.close(other_writer)
    await witness.until(Ended)
    assert (os.read(reader, 100), os.read(other_reader, 100)) == (b"one\none\n", b"two\ntwo\n")
    os.close(reader)
    os.close(other_reader)


async def test_a_child_inherits_nothing_but_what_it_is_given(warden: Warden) -> None:
    reader, writer = os.pipe()
    witness = Witness()
    warden.spawn(
        [sys.executable, "-c", "import os; print(os.listdir('/proc/self/fd'))"], witness, fds={1: writer}
    )
    os.close(writer)
    await witness.until(Ended)
    listed = os.read(reader, 1000).decode()
    os.close(reader)
    assert len(listed.split(",")) == 4  # 0, 1, 2 and the listing's own


async def test_a_stopped_process_is_told_and_goes_on(warden: Warden) -> None:
    witness = Witness()
    process = warden.spawn(["sleep", "1000"], witness)
    process.signal(signal.SIGSTOP, group=False)  # before it has even started
    await witness.until(Halted)
    process.signal(signal.SIGCONT)
    process.signal(signal.SIGTERM)
    ended = await witness.until(Ended)
    assert isinstance(ended, Ended) and ended.code == -signal.SIGTERM


#: A daemon by the book: a session of its own, forked twice, nothing left in its environment.
DAEMON = "env -i setsid bash -c '({}) & exit 0'"


async def test_a_lost_guardian_ends_its_processes_and_is_replaced(
    warden: Warden, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    witness = Witness()
    path = tmp_path / "pid"
    daemon = tmp_path / "daemon"
    escape = DAEMON.format(f"echo $BASHPID > {daemon}; exec sleep 1000")
    warden.spawn(["bash", "-c", f"{escape}; sleep 1000 & echo $! > {path}; wait"], witness)
    await eventually(lambda: all(one.exists() and one.read_text() for one in (path, daemon)))
    assert warden.pid is not None
    os.kill(warden.pid, signal.SIGKILL)
    ended = await witness.until(Ended)
    assert isinstance(ended, Ended) and ended.guardian_lost
    assert [record.levelname for record in caplog.records if "guardian is gone" in record.message] == [
        "WARNING"
    ]
    await eventually(lambda: is_gone(int(path.read_text())) and is_gone(int(daemon.read_text())))
    second = Witness()
    warden.spawn(["true"], second)
    await second.until(Ended)


# --- all that comes of a process --------------------------------------------------------------------------


def pid_in(path: Path) -> int:
    """Return the number in a file, 0 if there is none yet."""
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text else 0


async def test_a_daemon_that_cleaned_its_environment_ends_with_its_process(
    warden: Warden, tmp_path: Path
) -> None:
    path, other = tmp_path / "pid", Witness()
    warden.spawn(["sleep", "1000"], other)  # somebody else's: it might be this one's daemon
    witness = Witness()
    daemon = DAEMON.format(f'trap "" TERM HUP; echo $BASHPID > {path}; while :; do sleep 1; done')
    process = warden.spawn(["sh", "-c", f"{daemon}; sleep 1000"], witness)
    await eventually(lambda: pid_in(path))
    assert not is_gone(pid_in(path))
    process.signal(signal.SIGKILL)
    await witness.until(Ended)
    await eventually(lambda: is_gone(pid_in(path)))
    assert not [one for one in other.heard if isinstance(one, Ended)]


async def test_a_signal_reaches_those_that_left_the_group(warden: Warden, tmp_path: Path) -> None:
    path, told, deaf = tmp_path / "pid", tmp_path / "told", tmp_path / "deaf"
    daemon = f"trap 'touch {told}; exit' TERM; echo \\$\\$ > {path}; while :; do sleep 0.1; done"
    script = f"setsid sh -c \"{daemon}\" & trap '' TERM; touch {deaf}; while :; do sleep 1; done"
    process = warden.spawn(["bash", "-c", script], Witness())
    await eventually(lambda: pid_in(path) and deaf.exists())
    process.signal(signal.SIGTERM)
    await eventually(told.exists)


async def test_a_sweep_kills_what_came_since_and_nothing_else(warden: Warden, tmp_path: Path) -> None:
    names = ["before", "after", "daemon"]
    before, after, daemon = (tmp_path / name for name in names)
    forks = f"echo $BASHPID > {after}; sleep 1000 & wait"
    script = f"sleep 1000 & echo $! > {before}; read _; ({forks}) & "
    script += DAEMON.format(f"echo $BASHPID > {daemon}; sleep 1000; true") + "; wait"
    reader, writer = os.pipe()
    witness = Witness()
    process = warden.spawn(["bash", "-c", script], witness, fds={0: reader})
    await eventually(lambda: pid_in(before))
    await asyncio.sleep(0.05)  # the kernel writes down beginnings in hundredths of a second
    since = read_clock()
    os.write(writer, b"\n")
    await eventually(lambda: pid_in(after) and pid_in(daemon))
    below = [one.pid for one in psutil.Process(pid_in(after)).children(recursive=True)]
    process.sweep(since)
    await witness.until(Swept)
    assert all(is_gone(pid) for pid in (pid_in(after), pid_in(daemon), *below))
    assert not is_gone(pid_in(before)) and not [one for one in witness.heard if isinstance(one, Ended)]
    process.signal(signal.SIGKILL)
    await witness.until(Ended)
    for fd in (reader, writer):
        os.close(fd)


# --- the lease ------------------------------------------------------------------------------------------
async def test_what_is_bound_ends_with_the_lease_and_nothing_else(warden: Warden, tmp_path: Path) -> None:
    warden.renew(read_clock() + 600)
    path = tmp_path / "pid"
    bound, free, released, later = (Witness() for _ in range(4))
    script = f"trap '' TERM; sleep 1000 & setsid sleep 1000 & echo $! > {path}; wait"
    warden.spawn(["bash", "-c", script], bound, bound=True)
    warden.spawn(["sleep", "1000"], free)
    once = warden.spawn(["sleep", "1000"], released, bound=True)
    warden.spawn(["sleep", "1000"], later).bind(True)  # before it has even started
    await eventually(lambda: path.exists() and path.read_text())
    for witness in (free, released, later):
        await witness.until(Spawned)
    once.bind(False)
    warden.renew(read_clock() + 0.3)
    for witness in (bound, later):
        ended = await witness.until(Ended)
        assert isinstance(ended, Ended) and ended.lease_over
    await eventually(lambda: is_gone(int(path.read_text())))  # although it had left the group
    assert not [one for witness in (free, released) for one in witness.heard if isinstance(one, Ended)]


async def test_what_is_bound_does_not_start_without_a_lease(warden: Warden, tmp_path: Path) -> None:
    witness = Witness()
    warden.spawn(["touch", str(tmp_path / "started")], witness, bound=True)
    failed = await witness.until(NotSpawned)
    assert isinstance(failed, NotSpawned) and failed.lease_over
    assert not (tmp_path / "started").exists()


async def test_a_new_guardian_knows_the_lease(warden: Warden) -> None:
    warden.renew(read_clock() + 600)
    first, second = Witness(), Witness()
    warden.spawn(["sleep", "1000"], first)
    await first.until(Spawned)
    assert warden.pid is not None
    os.kill(warden.pid, signal.SIGKILL)
    await first.until(Ended)
    warden.spawn(["true"], second, bound=True)
    ended = await second.until(Ended)
    assert isinstance(ended, Ended) and ended.code == 0


LEASED = """
import asyncio, sys, time
from fairway.worker.guardian import read_clock
from fairway.worker.warden import Warden

async def main():
    warden, running = Warden(), []
    warden.renew(read_clock() + 600)
    def note(happening):
        running.append(happening)
        if len(running) == 401:
            warden.renew(read_clock() + float(sys.argv[2]))
            print(happening.pid, flush=True)
            time.sleep(1000)
    for _ in range(400):
        warden.spawn(["cat", sys.argv[1]], note)
    warden.spawn(["sleep", "1000"], note, bound=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def test_an_agent_that_does_not_read_does_not_stop_the_guardian(tmp_path: Path) -> None:
    """It has more to tell than the socket holds, and still ends what is bound."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEASED, str(fifo), "1.0", stdout=asyncio.subprocess.PIPE
    )
    assert agent.stdout is not None
    try:
        pid = int(await asyncio.wait_for(agent.stdout.readline(), PATIENCE_SECONDS))
        await eventually(lambda: end_readers(fifo) or is_gone(pid))
    finally:
        agent.kill()
        await agent.communicate()


def end_readers(fifo: Path) -> None:
    """Let all that have opened it read its end."""
    with suppress(OSError):
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))


AGENT = """
import asyncio, sys
from fairway.worker.warden import Warden

async def main():
    warden = Warden()
    for script in sys.argv[1:]:
        warden.spawn(["bash", "-c", script], lambda happening: None)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def test_nothing_outlives_an_agent_that_is_killed(tmp_path: Path) -> None:
    """Children, grandchildren, those that left their group, and those that stand stopped."""
    scripts = [
        f"trap '' TERM HUP; echo $$ > {tmp_path}/child; sleep 1000 & echo $! > {tmp_path}/grandchild; wait",
        f"(setsid sleep 1000 & echo $! > {tmp_path}/escaped); sleep 1000",
        f"echo $$ > {tmp_path}/stopped; kill -STOP $$",
        DAEMON.format(
            f"trap '' TERM HUP; echo $BASHPID > {tmp_path}/daemon; sleep 1000; true".replace("'", '"')
        )
        + "; sleep 1000",
    ]
    names = ["child", "grandchild", "escaped", "stopped", "daemon"]
    agent = subprocess.Popen([sys.executable, "-c", AGENT, *scripts])  # noqa: ASYNC220
    try:
        await eventually(lambda: all((tmp_path / name).exists() for name in names))
        await eventually(lambda: all((tmp_path / name).read_text().strip() for name in names))
        pids = [int((tmp_path / name).read_text()) for name in names]
        pids += [process.pid for process in psutil.Process(agent.pid).children(recursive=True)]
        assert len(set(pids)) > len(names)
    finally:
        agent.kill()
        agent.wait(5)
    await eventually(lambda: all(is_gone(pid) for pid in pids), seconds=1.0)


# --- cgroups --------------------------------------------------------------------------------------------
ESCAPE = """
import os, resource, sys
if os.fork():
    sys.exit(0)
os.setsid()
if os.fork():
    os._exit(0)
resource.setrlimit(resource.RLIMIT_RTTIME, (resource.RLIM_INFINITY,) * 2)
os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
"""


V1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
V2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
PART = "42 31 0:38 /a/b /inner rw - cgroup2 none rw"


@pytest.mark.parametrize(
    ("mounts", "groups", "folder"),
    [
        (f"{V1}\n{V2}", "1:cpu:/x\n0::/", "/sys/fs/cgroup/unified"),
        (f"{V1}\n{V2}", "1:cpu:/x\n0::/a/b.service", "/sys/fs/cgroup/unified/a/b.service"),
        (PART, "0::/a/b/c", "/inner/c"),
        (f"{PART}\n{V2}", "0::/elsewhere", "/sys/fs/cgroup/unified/elsewhere"),
        (PART, "0::/elsewhere", None),
        (V1, "1:cpu:/x\n0::/", None),
        (V2, "1:cpu:/x", None),
        ("", "", None),
    ],
)
def test_our_own_cgroup_is_found_in_what_the_kernel_tells(
    mounts: str, groups: str, folder: str | None
) -> None:
    assert find_own_cgroup(mounts, groups) == (Path(folder) if folder else None)


def own_cgroups(warden: Warden) -> Path:
    """Return where the guardian has its cgroups, if a process like it may make any: that is tried."""
    assert warden.pid is not None
    home = cgroup_of(warden.pid)
    if home is None:
        pytest.skip("there is no hierarchy of cgroups of version 2 that shows this process")
    probe = home.with_name(f"fairway-test-{os.getpid()}")
    try:
        probe.mkdir()
        probe.rmdir()
        (home.parent / "cgroup.procs").open("w").close()
    except OSError as error:
        pytest.skip(f"this process may make no cgroups: {error}")
    return home


def naps(seconds: str) -> list[psutil.Process]:
    """Return the live processes that sleep for so many seconds."""
    found = psutil.process_iter(["cmdline", "status"])
    return [one for one in found if one.info["cmdline"] == ["sleep", seconds] and not is_gone(one.pid)]


async def test_a_daemon_that_shook_every_mark_off_ends_with_its_cgroup(warden: Warden) -> None:
    home = own_cgroups(warden)
    seconds = f"1000.{os.getpid()}"
    witness = Witness()
    script = f"{sys.executable} -c '{ESCAPE}' {seconds}; exec sleep 1001"
    process = warden.spawn(["sh", "-c", script], witness)
    await eventually(lambda: naps(seconds))
    assert [one.name for one in home.iterdir() if one.is_dir()] == ["1"]
    process.signal(signal.SIGKILL)
    await witness.until(Ended)
    await eventually(lambda: not naps(seconds))
    again = Witness()
    warden.spawn(["true"], again)
    await again.until(Ended)
    await eventually(lambda: not any(one.is_dir() for one in home.iterdir()))


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
async def test_no_cgroup_outlives_its_guardian(warden: Warden, number: signal.Signals | None) -> None:
    home = own_cgroups(warden)  # before anything escapes that only they can end
    witness = Witness()
    seconds = f"2000.{os.getpid()}"
    warden.spawn(["sh", "-c", f"{sys.executable} -c '{ESCAPE}' {seconds}; exec sleep 2001"], witness)
    await eventually(lambda: naps(seconds))
    assert home.is_dir()
    if number is not None:
        assert warden.pid is not None
        os.kill(warden.pid, number)
        await witness.until(Ended)
    await warden.close()
    await eventually(lambda: not naps(seconds) and not home.exists())


async def test_what_could_not_start_leaves_no_cgroup(warden: Warden) -> None:
    home = own_cgroups(warden)
    witness = Witness()
    warden.spawn(["no-such-program"], witness)
    await witness.until(NotSpawned)
    assert not any(one.is_dir() for one in home.iterdir())
