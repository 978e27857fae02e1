"""The warden: the agent's way to the guardian.

It turns requests into frames and the guardian's reports into callbacks. Owned by the agent's loop. If the
guardian dies, which nothing should make it do, every process it kept counts as ended, its group is killed,
and a new guardian is started at the next spawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairway.worker import guardian
from fairway.worker.oom import oom_kills

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spawned:
    """The process runs its program."""

    pid: int


@dataclass(frozen=True, slots=True)
class NotSpawned:
    """There is no process, and why."""

    number: int  # an errno
    message: str
    guardian_lost: bool = False
    lease_over: bool = False


@dataclass(frozen=True, slots=True)
class Halted:
    """The process was stopped by a signal and may be continued."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What it had started since a moment is killed, as was asked."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The process is gone, and its group with it."""

    code: int  # below zero: minus the signal that killed it
    cpu_seconds: float = 0.0
    most_kilobytes: int = 0
    guardian_lost: bool = False
    lease_over: bool = False  # it was bound to the worker's lease, and killed with it
    out_of_memory: bool = False  # killed, and the kernel has killed for lack of memory since it was started


Happening = Spawned | NotSpawned | Halted | Swept | Ended


class Process:
    """A process the guardian keeps for us. What happens to it is told to *tell*, in order."""

    def __init__(
        self, warden: Warden, number: int, tell: Callable[[Happening], None], bound: bool = False
    ) -> None:
        self.warden, self.number, self.tell = warden, number, tell
        self.pid: int | None = None
        self.gone = False
        self._due: list[tuple[int, bool]] = []
        self._bound = bound
        self._oom_kills = oom_kills()

    def signal(self, number: int, group: bool = True) -> None:
        """Send a signal to it, or all that came of it (*group*); one sent before it runs is kept for then."""
        if self.gone:
            return
        if self.pid is None:
            self._due.append((number, group))
        else:
            self.warden.send({"do": "signal", "pid": self.pid, "signal": int(number), "group": group})

    def sweep(self, since: float) -> None:
        """Kill what came of it since then, by `guardian.read_clock`, but not itself; answered by `Swept`."""
        if self.pid is not None and not self.gone:
            self.warden.send({"do": "sweep", "pid": self.pid, "since": since})

    def bind(self, on: bool) -> None:
        """Let it end with the worker's lease, or not any more; said before it runs, it holds from then on."""
        if on != self._bound:
            self._bound = on
            self._tell_bound()

    def _tell_bound(self) -> None:
        if self.pid is not None and not self.gone:
            self.warden.send({"do": "bind", "pid": self.pid, "on": self._bound})

    def took(self, happening: Happening) -> None:
        """Note what happened, pass it on."""
        if isinstance(happening, Spawned):
            self.pid = happening.pid
            if self._bound:
                self._tell_bound()
            for number, group in self._due:
                self.signal(number, group)
        elif not isinstance(happening, Halted | Swept):
            self.gone = True
            if isinstance(happening, Ended) and self._lacked_memory(happening):
                happening = replace(happening, out_of_memory=True)
        self.tell(happening)

    def _lacked_memory(self, ended: Ended) -> bool:
        killed = ended.code == -signal.SIGKILL and not (ended.guardian_lost or ended.lease_over)
        return killed and oom_kills() > self._oom_kills


class Warden:
    """Starts the guardian and speaks with it."""

    def __init__(self, *, inherit: Sequence[int] = ()) -> None:
        """*inherit*: descriptors the guardian keeps open as long as anything it started may run."""
        self.inherit = tuple(inherit)
        self._guardian: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._reader = guardian.FrameReader()
        self._backlog: deque[tuple[bytes, list[int]]] = deque()
        self._starting: dict[int, Process] = {}
        self._running: dict[int, Process] = {}
        self._number = 0
        self._lease_until = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The guardian's pid."""
        return self._guardian.pid if self._guardian else None

    @property
    def starting(self) -> int:
        """How many processes the guardian was asked for and has not told of."""
        return len(self._starting)

    def start(self) -> None:
        """Start the guardian, unless it runs."""
        if self._socket is not None or self._closed:
            return
        self._reap()
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as opened, theirs:
            opened.callback(ours.close)
            fds = (theirs.fileno(), *self.inherit)
            command = [sys.executable, "-I", "-S", guardian.__file__, *map(str, fds)]
            self._guardian = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sys.__stderr__.fileno() if sys.__stderr__ else None,
                pass_fds=fds,
                start_new_session=True,
            )
            opened.pop_all()
        ours.setblocking(False)
        self._socket, self._reader = ours, guardian.FrameReader()
        asyncio.get_running_loop().add_reader(ours.fileno(), self._on_readable, ours)
        self.renew(self._lease_until)

    def renew(self, until: float) -> None:
        """The worker's lease lasts until then, by `guardian.read_clock`."""
        self._lease_until = until
        self.send({"do": "lease", "until": until})

    def spawn(
        self,
        argv: Sequence[str],
        tell: Callable[[Happening], None],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        fds: Mapping[int, int] | None = None,
        bound: bool = False,
        rights: Mapping[str, Any] | None = None,
        trusted: bool = True,
    ) -> Process:
        """Start a process. *env* adds to ours; *fds* maps its descriptors to ours, which are copied.

        One that is not *trusted* does not get the secrets of our environment.

        *rights*: the user it becomes (`uid`, `gid`, `groups`, each may be None) and its `limits`, each a
        resource's number with its soft and its hard bound.

        One that is *bound* ends with the worker's lease, and does not start without.

        Raises OSError, and has started nothing, if this process has no descriptors left.
        """
        self.start()
        self._number += 1
        process = Process(self, self._number, tell, bound)
        fds = fds or {}
        request = {
            "do": "spawn",
            "number": self._number,
            "argv": list(argv),
            "env": dict(env or {}),
            "cwd": cwd,
            "fds": list(fds),
            "bound": bound,
            "rights": None if rights is None else dict(rights),
            "trusted": trusted,
        }
        if len(frame := guardian.pack(request)) > guardian.MOST_BYTES:
            self._fail(process, NotSpawned(0, "the arguments and environment are over 16 MB"))
        elif not self._send(frame, copy_all(fds.values())):
            self._fail(process, GUARDIAN_GONE)
        else:
            self._starting[process.number] = process
        return process

    def send(self, request: dict[str, Any]) -> None:
        """Send a request that carries no descriptors."""
        self._send(guardian.pack(request), [])

    async def close(self) -> None:
        """Let the guardian kill all that is left, and wait until it is gone."""
        self._closed = True
        self._lose()
        if self._guardian is None:
            return
        for _ in range(400):
            if self._guardian.poll() is not None:
                return
            await asyncio.sleep(0.005)
        self._guardian.kill()
        self._guardian.wait(1)

    # --- the socket -----------------------------------------------------------------------------------
    def _send(self, frame: bytes, fds: list[int]) -> bool:
        if self._socket is None:
            close_all(fds)
            return False
        self._backlog.append((frame, fds))
        if len(self._backlog) == 1:
            self._flush()
        return self._socket is not None

    def _flush(self) -> None:
        connection = self._socket
        while self._backlog and connection is not None:
            frame, fds = self._backlog[0]
            try:
                sent = socket.send_fds(connection, [frame], fds) if fds else connection.send(frame)
            except BlockingIOError:
                asyncio.get_running_loop().add_writer(connection.fileno(), self._flush)
                return
            except OSError:
                self._lose()
                return
            close_all(fds)
            if sent == len(frame):
                self._backlog.popleft()
            else:
                self._backlog[0] = (frame[sent:], [])
        if connection is not None:
            asyncio.get_running_loop().remove_writer(connection.fileno())

    def _on_readable(self, connection: socket.socket) -> None:
        try:
            received = connection.recv(65536)
            if not received:
                raise EOFError
            events = self._reader.feed(received)
        except BlockingIOError:
            return
        except (OSError, EOFError):
            self._lose()
            return
        for event in events:
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "spawned":
                process = self._running[event["pid"]] = self._starting.pop(event["number"])
                process.took(Spawned(event["pid"]))
            case "not_spawned":
                self._starting.pop(event["number"]).took(
                    NotSpawned(event["errno"], event["message"], lease_over=event["lease_over"])
                )
            case "halted":
                self._running[event["pid"]].took(Halted())
            case "swept":
                self._running[event["pid"]].took(Swept())
            case "ended":
                process = self._running.pop(event["pid"])
                process.took(
                    Ended(
                        event["code"],
                        event["cpu_seconds"],
                        event["most_kilobytes"],
                        lease_over=event["lease_over"],
                    )
                )

    # --- a guardian that is gone ------------------------------------------------------------------------
    def _lose(self) -> None:
        """Forget the guardian: all it kept has ended."""
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._socket = None
        for _, fds in self._backlog:
            close_all(fds)
        self._backlog.clear()
        starting, running = list(self._starting.values()), list(self._running.items())
        self._starting, self._running = {}, {}
        for process in starting:
            process.took(GUARDIAN_GONE)
        if not self._closed:  # else the guardian does it, and surely
            facts = {"guardian": self.pid, "processes": len(running)}
            log.warning(
                "the guardian is gone: what it kept is killed, the next job starts another", extra=facts
            )
            for pid, _ in running:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
            # Daemons too, before anybody hears that these attempts are over and starts others.
            if self.pid is not None:
                guardian.bury(self.pid)
        for _, process in running:
            process.took(Ended(-signal.SIGKILL, guardian_lost=True))

    def _fail(self, process: Process, why: NotSpawned) -> None:
        asyncio.get_running_loop().call_soon(process.took, why)

    def _reap(self) -> None:
        if self._guardian is not None and self._guardian.poll() is None:
            self._guardian.kill()
            self._guardian.wait(1)


GUARDIAN_GONE = NotSpawned(0, "the guardian is gone", guardian_lost=True)


def copy_all(fds: Iterable[int]) -> list[int]:
    """Copy descriptors, because the caller closes its own as soon as we return; all of them or none."""
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))
    except OSError:
        close_all(copies)
        raise
    return copies


def close_all(fds: list[int]) -> None:
    """Close descriptors and forget them."""
    while fds:
        os.close(fds.pop())
