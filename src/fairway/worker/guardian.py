"""The guardian: parent of every process a worker runs, and their end when the worker's agent ends.

It stands between the agent and the code of users, runs neither, and does six things:

1. It spawns processes on request, each leading a session and process group of its own.
2. It signals them on request, with all that came of them. Only the parent can do so safely: a pid it has not
   reaped is not reused.
3. It reports how they ended. What is left of an ended process's group is killed first, and so are orphans
   that had left the group: as subreaper it inherits them, and knows them by a mark.
4. On request it kills what came of a process since a moment, but not the process itself.
5. When the agent's end of the socket closes, by whatever death, it kills all that is left and exits.
6. When the worker's lease is over it kills the processes that are bound to it, whether the agent is frozen,
   cut off or just slow. The agent says until when, on a clock that they share, so that a word which lay in
   the socket while both were frozen prolongs nothing.

The mark says which spawn a process comes from, when those between are long gone. It is put where children
inherit it and programs leave it alone: in the soft limit of real-time CPU (RLIMIT_RTTIME), a number of many
years that limits nothing, and in the environment, for systems without that limit. So a daemon that left its
session, was forked twice and cleaned its environment is still known. Where the worker may make cgroups each
spawn has one of its own, whose name is the mark too: nobody leaves it by forking or by changing its limits,
and all in it are killed at one stroke.

Frames on the socket are JSON behind four bytes of length; descriptors for the next process come along as
ancillary data. One thread and the standard library only, so that it starts in some 40 ms and `fork` is safe:
the agent starts it by its path with `python -I -S`, which keeps even `sitecustomize` out.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

MARK = "FAIRWAY_SPAWN"
#: What no process needs of our environment; and what apps of the operator may have, but no command of a job.
OURS = frozenset({"FAIRWAY_WEBHOOK_SECRET"})
SECRETS = OURS | {"FAIRWAY_TOKEN", "FAIRWAY_DATABASE"}
MOST_BYTES = 16 * 1024 * 1024
MOST_FDS = 64
MOST_BELOW = 100_000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
#: How often a lease is looked at: a timer alone would oversleep if the machine sleeps.
LOOK_SECONDS = 0.25
#: How often a sweep looks again, for what was forked meanwhile, before the process itself has to go.
SWEEPS, SWEEP_SECONDS = 250, 0.002
BURIALS = 5  # looks at all that runs
#: The mark as a number: this, the guardian's pid, the number of the spawn.
MARK_BIT, PID_SHIFT = 1 << 60, 32


def main() -> None:
    """Guard until the agent at the other end of the first descriptor is gone; keep the others open."""
    keep_to_ourselves(sys.argv[1:])
    Guardian(socket.socket(fileno=int(sys.argv[1]))).run()


def keep_to_ourselves(fds: list[str]) -> None:
    """Let no child inherit what the agent passed to us: it would keep the socket and the locks alive."""
    for fd in fds:
        os.set_inheritable(int(fd), False)


class Guardian:
    """Owns all children of its process; nothing else waits for them."""

    def __init__(self, agent: socket.socket) -> None:
        self.agent = agent
        self.reader = FrameReader()
        self.fds: deque[int] = deque()
        self.unsent = bytearray()
        self.live: dict[int, str] = {}  # pid → mark
        self.lease_until = 0.0  # by `read_clock`
        self.bound: set[int] = set()  # pids that end with the lease
        self.overdue: set[int] = set()  # pids that did
        self.cgroups = Cgroups()
        self.wakeup, wakeup_writer = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(wakeup_writer, False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(agent, selectors.EVENT_READ, self._on_agent)
        self.selector.register(self.wakeup, selectors.EVENT_READ, self._on_signal)
        self._take_signals(wakeup_writer)
        prctl(PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        """Serve until the agent is gone, then leave nothing behind."""
        with contextlib.suppress(ConnectionError, EOFError):
            while True:
                ready = self.selector.select(self._patience())
                self._end_overdue()
                for key, events in ready:
                    key.data(events)
        self._end_all()

    def _take_signals(self, wakeup_writer: int) -> None:
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A terminal's Ctrl-C or a service's stop is the agent's to judge.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    # --- requests -----------------------------------------------------------------------------------
    def _on_agent(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ:
            self._read()

    def _read(self) -> None:
        received, fds, _, _ = socket.recv_fds(self.agent, 65536, MOST_FDS)
        for fd in fds:
            os.set_inheritable(fd, False)
        self.fds.extend(fds)
        if not received:
            raise EOFError
        for request in self.reader.feed(received):
            match request["do"]:
                case "spawn":
                    self._spawn(request)
                case "bind":
                    self._bind(request["pid"], request["on"])
                case "lease":
                    self.lease_until = request["until"]
                case "sweep":
                    self._sweep(request["pid"], request["since"])
                case _:
                    self._signal(request)

    def _spawn(self, request: dict[str, Any]) -> None:
        places: list[int] = request["fds"]
        fds = [self.fds.popleft() for _ in places]
        try:
            if request["bound"] and self._is_lease_over():
                raise LeaseOver("the worker's lease is over")
            self._start(request, dict(zip(places, fds, strict=True)))
        except OSError as error:
            self._tell(
                event="not_spawned",
                number=request["number"],
                errno=error.errno or 0,
                message=str(error),
                lease_over=isinstance(error, LeaseOver),
            )
        finally:
            for fd in fds:
                os.close(fd)

    def _start(self, request: dict[str, Any], fds: dict[int, int]) -> None:
        mark = f"{os.getpid()}.{request['number']}"
        try:
            pid = fork_and_exec(request, fds, mark, self.cgroups.make(mark))
        except OSError:
            self.cgroups.leave(mark)
            raise
        self.live[pid] = mark
        self._bind(pid, request["bound"])
        self._tell(event="spawned", number=request["number"], pid=pid)

    def _signal(self, request: dict[str, Any]) -> None:
        pid = request["pid"]
        if pid in self.live and request["group"]:
            self._signal_all(pid, request["signal"])
        elif pid in self.live:
            with contextlib.suppress(OSError):
                os.kill(pid, request["signal"])

    def _signal_all(self, pid: int, number: int) -> None:
        """Signal a process, its group, and what else came of it."""
        others = [other for other in self._tree(pid) if not is_in_group(other, pid)]
        with contextlib.suppress(OSError):
            os.killpg(pid, number)
        for other in others:
            strike(other, self.live[pid], number)
        if number == signal.SIGKILL:
            self.cgroups.kill(self.live[pid])

    def _tree(self, pid: int) -> list[int]:
        """Return all that came of a process: those below it, and those that were left to us."""
        return [*below(pid), *(one for top in self._orphans(self.live[pid]) for one in (top, *below(top)))]

    def _orphans(self, mark: str) -> list[int]:
        return [pid for pid in children() if pid not in self.live and find_mark(pid) == mark]

    def _sweep(self, pid: int, since: float) -> None:
        """Kill what came of a process since then, and what comes of that while we do; then say so."""
        if pid not in self.live:
            return
        for _ in range(SWEEPS):
            found = [other for other in self._tree(pid) if started_since(other, since)]
            if not found:
                break
            for other in found:
                strike(other, self.live[pid], signal.SIGKILL)
            time.sleep(SWEEP_SECONDS)
        else:  # something forks faster than we look, or cannot die: its parent is not fit for more
            self._signal_all(pid, signal.SIGKILL)
        self._tell(event="swept", pid=pid)

    def _tell(self, **event: Any) -> None:
        """Send a report, or keep it while the agent does not read: a frozen one must not stop us."""
        self.unsent += pack(event)
        if len(self.unsent) > MOST_BYTES:
            raise ConnectionError("the agent does not read")
        self._flush()

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            del self.unsent[: self.agent.send(self.unsent, socket.MSG_DONTWAIT)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.unsent else 0)
        if self.selector.get_key(self.agent).events != events:
            self.selector.modify(self.agent, events, self._on_agent)

    # --- the lease ----------------------------------------------------------------------------------
    def _bind(self, pid: int, on: bool) -> None:
        if on and pid in self.live:
            self.bound.add(pid)
        else:
            self.bound.discard(pid)

    def _is_lease_over(self) -> bool:
        return read_clock() >= self.lease_until

    def _patience(self) -> float | None:
        """Return how long to wait for news."""
        if not self.bound:
            return None
        return max(0.0, min(LOOK_SECONDS, self.lease_until - read_clock()))

    def _end_overdue(self) -> None:
        if self.bound and self._is_lease_over():
            for pid in self.bound:
                self._signal_all(pid, signal.SIGKILL)
            self.overdue |= self.bound
            self.bound.clear()

    # --- ends ---------------------------------------------------------------------------------------
    def _on_signal(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self.wakeup, 4096):
                pass
        while self._take_one():
            pass
        self._kill_orphans()

    def _take_one(self) -> bool:
        """Reap one child that ended, or note that one is stopped; say whether there was one."""
        try:
            pid, ended = peek()
            if ended and pid in self.live:  # before the reaping: until then its number is its own
                self._signal_all(pid, signal.SIGKILL)
            pid, status, usage = os.wait4(pid, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return False
        if pid in self.live:
            self._report(pid, status, usage)
        return pid != 0

    def _report(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        if os.WIFSTOPPED(status):
            self._tell(event="halted", pid=pid)
            return
        self.cgroups.leave(self.live.pop(pid))
        if not hasattr(os, "waitid"):
            kill_group(pid)
        code = os.waitstatus_to_exitcode(status)
        lease_over = pid in self.overdue and code == -signal.SIGKILL
        self.bound.discard(pid)
        self.overdue.discard(pid)
        self._tell(
            event="ended",
            pid=pid,
            code=code,
            lease_over=lease_over,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            most_kilobytes=usage.ru_maxrss,
        )

    def _kill_orphans(self) -> None:
        """Kill what was left to us by processes that have ended; their own leaders may keep theirs."""
        marks = set(self.live.values())
        for pid in children():
            if pid not in self.live and (mark := find_mark(pid)) and mark not in marks:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        while True:
            for pid in self.live:
                kill_group(pid)
            for pid in children():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            try:
                while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                    self.live.pop(pid, None)
            except ChildProcessError:
                break
            time.sleep(0.002)
        remove_cgroup(os.getpid())


class LeaseOver(OSError):
    """What is bound to the lease may not start any more."""


def read_clock() -> float:
    """Return seconds on a clock that all processes of this machine share, and that goes on in its sleep."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


# --- processes ----------------------------------------------------------------------------------------
def fork_and_exec(request: dict[str, Any], fds: dict[int, int], mark: str, cgroup: Path | None) -> int:
    """Start a process and return its pid; raises what kept it from becoming its program."""
    reader, writer = os.pipe()
    guardian = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if pid == 0:
        _become(request, fds, mark, cgroup, guardian, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as report:
        complaint = report.read(4096)  # nothing, once the exec has closed the other end
    if complaint:
        os.waitpid(pid, 0)
        number, _, text = complaint.decode(errors="replace").partition(" ")
        raise OSError(int(number), text)
    return pid


def _become(
    request: dict[str, Any], fds: dict[int, int], mark: str, cgroup: Path | None, guardian: int, report: int
) -> None:
    """Turn this fork into the program; never returns."""
    try:
        # Descriptors are first moved up, so that none is overwritten before it has reached its place.
        above = max([2, *fds]) + 1
        report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, above)
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:  # it died before the line above took effect
            os._exit(1)
        _reset_signals()
        _wear(mark)
        if cgroup is not None:
            with contextlib.suppress(OSError):  # then the other marks have to do
                (cgroup / "cgroup.procs").write_text("0")
        _place(fds, above)
        if request["rights"] is not None:
            _restrict(request["rights"], guardian)
        argv: list[str] = request["argv"]
        hidden = OURS if request["trusted"] else SECRETS
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        environment = {**inherited, **request["env"], MARK: mark}
        if request["cwd"] is not None:
            os.chdir(request["cwd"])
        os.execvpe(argv[0], argv, environment)
    except BaseException as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        text = os.strerror(number) if isinstance(error, OSError) else str(error)
        culprit = (
            f": {os.fsdecode(error.filename)!r}" if isinstance(error, OSError) and error.filename else ""
        )
        os.write(report, f"{number} {text}{culprit}".encode(errors="replace")[:4000])
    finally:
        os._exit(127)


def _restrict(rights: dict[str, Any], guardian: int) -> None:
    """Give up rights for good: limits while they may still be raised, the user last of all."""
    if rights["groups"] is not None:
        os.setgroups(rights["groups"])
    if rights["gid"] is not None:
        os.setgid(rights["gid"])
    for number, soft, hard in rights["limits"]:
        resource.setrlimit(number, (soft, hard))
    if rights["uid"] is not None:
        os.setuid(rights["uid"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the kernel forgets it when a process changes its user
        if os.getppid() != guardian:
            os._exit(1)


def _wear(mark: str) -> None:
    """Put the mark where all that comes of this process will have it."""
    guardian, _, number = mark.partition(".")
    with contextlib.suppress(AttributeError, OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_RTTIME)
        worn = MARK_BIT | int(guardian) << PID_SHIFT | int(number)
        resource.setrlimit(resource.RLIMIT_RTTIME, (worn, most))


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    # Python ignores SIGPIPE and SIGXFSZ, the guardian some more; an ignored signal would survive the exec.
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "SIGPIPE", "SIGXFSZ")
    for number in [getattr(signal, name) for name in names if hasattr(signal, name)]:
        signal.signal(number, signal.SIG_DFL)


def _place(fds: dict[int, int], above: int) -> None:
    wanted = dict(fds)
    if 0 not in wanted:
        wanted[0] = os.open(os.devnull, os.O_RDONLY)
    wanted.setdefault(1, 2)
    raised = {place: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for place, fd in wanted.items()}
    for place, fd in raised.items():
        os.dup2(fd, place)


def peek() -> tuple[int, bool]:
    """Return a child that ended or stopped, without reaping it, and whether it ended; (-1, False) for any."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return -1, False
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    return (found.si_pid, found.si_code != os.CLD_STOPPED) if found else (-1, False)


def kill_group(pid: int) -> None:
    """Kill a process group, if any of it is left."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def children() -> list[int]:
    """Return the pids of all our children, inherited ones too (Linux; elsewhere none are inherited)."""
    pid = os.getpid()
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def below(pid: int) -> list[int]:
    """Return all that descends from a process by living parents (Linux)."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < MOST_BELOW:
        parent = waiting.pop()
        found.append(parent)
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():  # each thread has children of its own
                waiting += map(int, (thread / "children").read_text().split())
    return found[1:]


def is_in_group(pid: int, group: int) -> bool:
    """Whether a process is of this group, or gone."""
    try:
        return os.getpgid(pid) == group
    except OSError:
        return True


def started_since(pid: int, since: float) -> bool:
    """Whether a process that lives began then or later; the kernel counts in hundredths of a second."""
    try:
        # The name in the middle may hold anything, but no later parenthesis.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") and int(fields[19]) >= int(since * os.sysconf("SC_CLK_TCK"))


def bury(guardian: int) -> None:
    """Kill all that is left of what a guardian that died had started: nobody else will."""
    for _ in range(BURIALS):
        found = [(pid, mark) for pid in all_processes() if (mark := find_mark(pid, guardian))]
        for pid, mark in found:
            strike(pid, mark, signal.SIGKILL, guardian)
        if not found:
            break
    remove_cgroup(guardian)


def all_processes() -> list[int]:
    """Return the pids of everything that runs, where that can be seen."""
    with contextlib.suppress(OSError):
        return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()]
    return []


def strike(pid: int, mark: str, number: int, guardian: int | None = None) -> None:
    """Signal a process that need not be our child, and no other that got its number meanwhile."""
    with contextlib.suppress(AttributeError, OSError):  # no such call: then nothing was found either
        fd = os.pidfd_open(pid)
        try:
            if find_mark(pid, guardian) == mark:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)


def find_mark(pid: int, guardian: int | None = None) -> str | None:
    """Return the mark a process got from the spawn it descends from, if it is of ours, or of *guardian*."""
    guardian = guardian or os.getpid()
    return (
        find_mark_of_cgroup(pid, guardian)
        or find_worn_mark(pid, guardian)
        or find_written_mark(pid, guardian)
    )


def find_mark_of_cgroup(pid: int, guardian: int) -> str | None:
    """Look for the mark in the name of its cgroup."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    found = re.search(rf"^0::.*/{_cgroup_name(guardian)}/(\d+)", groups, re.MULTILINE)
    return f"{guardian}.{found[1]}" if found else None


def find_worn_mark(pid: int, guardian: int) -> str | None:
    """Look for the mark among its limits."""
    try:
        _, _, line = Path(f"/proc/{pid}/limits").read_text().partition("Max realtime timeout")
        number = int(line.split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return None
    if number & MARK_BIT and number >> PID_SHIFT == MARK_BIT >> PID_SHIFT | guardian:
        return f"{guardian}.{number & (1 << PID_SHIFT) - 1}"
    return None


def find_written_mark(pid: int, guardian: int) -> str | None:
    """Look for the mark in its environment."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    for entry in environment.split(b"\0"):
        if entry.startswith(f"{MARK}={guardian}.".encode()):
            return entry.partition(b"=")[2].decode()
    return None


# --- cgroups ------------------------------------------------------------------------------------------
class Cgroups:
    """A cgroup for each spawn, where this process may make them. They limit nothing: they hold together."""

    def __init__(self) -> None:
        self._home = cgroup_of(os.getpid())
        self._left: set[Path] = set()  # cgroups of processes that ended; some are not empty at once
        try:
            if self._home is not None:
                self._home.mkdir(exist_ok=True)
        except OSError:
            self._home = None

    def make(self, mark: str) -> Path | None:
        """Make the cgroup of a spawn."""
        if self._home is None:
            return None
        cgroup = self._home / mark.partition(".")[2]
        try:
            cgroup.mkdir(exist_ok=True)
        except OSError:
            return None
        return cgroup

    def kill(self, mark: str) -> None:
        """Kill all that came of a spawn, whatever it forks meanwhile."""
        if self._home is not None:
            with contextlib.suppress(OSError):
                (self._home / mark.partition(".")[2] / "cgroup.kill").write_text("1")

    def leave(self, mark: str) -> None:
        """Remove the cgroup of a spawn that is over; what has not died yet keeps it for a moment."""
        if self._home is not None:
            self._left.add(self._home / mark.partition(".")[2])
            self._left = {cgroup for cgroup in self._left if not _remove(cgroup)}


def cgroup_of(guardian: int) -> Path | None:
    """Return where a guardian of ours has its cgroups: below our own, in the hierarchy of version 2."""
    with contextlib.suppress(OSError):
        mounts, groups = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        own = find_own_cgroup(mounts, groups)
        return own / _cgroup_name(guardian) if own is not None else None
    return None


def find_own_cgroup(mounts: str, groups: str) -> Path | None:
    """Return the folder of our cgroup, as the kernel tells of its mounts and of our groups."""
    own = re.search(r"^0::(/.*)$", groups, re.MULTILINE)
    for line in mounts.splitlines() if own is not None else ():
        place, _, kind = line.partition(" - ")
        root, mount = place.split()[3:5]
        if own is not None and kind.startswith("cgroup2 ") and Path(own[1]).is_relative_to(root):
            return Path(mount) / Path(own[1]).relative_to(root)
    return None


def remove_cgroup(guardian: int) -> None:
    """Kill what is left in a guardian's cgroups and remove them."""
    home = cgroup_of(guardian)
    if home is None or not home.is_dir():
        return
    with contextlib.suppress(OSError):
        (home / "cgroup.kill").write_text("1")
    for _ in range(SWEEPS):
        with contextlib.suppress(OSError):
            for one in home.iterdir():
                if one.is_dir():
                    _remove(one)
        if _remove(home):
            return
        time.sleep(SWEEP_SECONDS)


def _remove(cgroup: Path) -> bool:
    """Remove an empty cgroup; say whether it is gone."""
    try:
        cgroup.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _cgroup_name(guardian: int) -> str:
    return f"fairway-{guardian}"


# --- frames and calls ---------------------------------------------------------------------------------
def prctl(option: int, value: int) -> None:
    """Set an option of this process, where there is such a call."""
    if _libc is not None:
        _libc.prctl(option, value, 0, 0, 0)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def pack(message: dict[str, Any]) -> bytes:
    """Write a message as one frame."""
    text = json.dumps(message).encode()
    return struct.pack(">I", len(text)) + text


class FrameReader:
    """Collects bytes and gives back the messages that are whole."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def feed(self, received: bytes) -> list[dict[str, Any]]:
        """Take what came and return every message that it completes."""
        self.buffer += received
        messages: list[dict[str, Any]] = []
        while len(self.buffer) >= 4:
            length = struct.unpack_from(">I", self.buffer)[0]
            if length > MOST_BYTES:
                raise EOFError
            if len(self.buffer) < 4 + length:
                break
            messages.append(json.loads(self.buffer[4 : 4 + length]))
            del self.buffer[: 4 + length]
        return messages


if __name__ == "__main__":
    main()
