"""The node's ends of worker connections.

A port turns a worker's messages into events for the core and queues what the leader has to say. It lives as
long as the connection; the lease lives on in the core. A newer connection of the same incarnation replaces
an older one, which is closed.

A worker counts its lease from beats of which it knows that they were heard. So a beat is answered at once,
but only by a leader that trusts itself: whoever leads next gives every attempt a new lease, later than that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import random
from typing import Any

from fairway.core import events as happened
from fairway.core.model import TaskInfo, WorkerSpec
from fairway.errors import Busy, InvalidRequest
from fairway.node.inbox import Inbox
from fairway.store import LogLine, NoteRow
from fairway.wire import messages as wire

log = logging.getLogger("fairway.ports")

#: Messages waiting for one worker; a worker that does not read loses its connection, not our memory.
MOST_WAITING = 10_000
MOST_SIGNATURE = 1000
#: A worker answers within five seconds, one way or the other.
SEEN_SECONDS = 6.0
MOST_LOOKS = 100


@dataclass(frozen=True, slots=True)
class Hosting:
    """What a port needs of the leader it belongs to."""

    term: int
    node: str
    beat_seconds: float
    lease_seconds: float
    kill_lease_seconds: float
    trusts: Callable[[], bool]  # itself: nobody else can lead yet


@dataclass(slots=True)
class Roster:
    """Where the cluster's nodes are reached, for workers that lose the one they came through."""

    urls: tuple[str, ...] = ()


class Port:
    """One worker connection of a leader."""

    def __init__(
        self,
        hosting: Hosting,
        inbox: Inbox,
        ports: dict[str, Port],
        keep_log: Callable[[list[LogLine]], None],
        keep_notes: Callable[[list[NoteRow]], None],
    ) -> None:
        self._hosting = hosting
        self._inbox = inbox
        self._ports = ports
        self._keep_log = keep_log
        self._keep_notes = keep_notes
        self._waiting: list[wire.ToWorker] = []
        self._filled = asyncio.Event()
        self._give: Callable[[list[wire.ToWorker]], None] | None = None
        self._open = True
        self.incarnation = self.name = ""  # until its hello
        self.roster = Roster()
        self._told: tuple[str, ...] = ()
        self._facts: dict[str, Any] = {}  # of its hello
        self._looks: dict[int, asyncio.Future[wire.Seen]] = {}
        self._look_number = 0

    async def look(self, job: int, attempt: int) -> wire.Seen | None:
        """Ask the worker where the code of an attempt is; None if it does not answer."""
        if len(self._looks) >= MOST_LOOKS:
            raise Busy("too many ask this worker where its jobs are")
        self._look_number += 1
        number = self._look_number
        answer: asyncio.Future[wire.Seen] = asyncio.get_running_loop().create_future()
        self._looks[number] = answer
        self.send(wire.Look(self._hosting.term, number, job, attempt))
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._looks[number]

    async def receive(self, message: wire.FromWorker) -> None:
        """Turn a worker's message into an event."""
        if self.incarnation == "" and not isinstance(message, wire.Hello):
            raise InvalidRequest("the first message must be hello", code="hello_first")
        match message:
            case wire.Hello():
                self._hello(message)
            case wire.Results(results):
                event = happened.Reported(self.incarnation, results, random())
                await self._inbox.put_patiently(event, len(results))
            case wire.Beat():
                self._beat(message)
            case wire.HandBack(attempts):
                await self._inbox.put_patiently(
                    happened.HandedBack(self.incarnation, attempts), len(attempts)
                )
            case wire.Logs(pieces):
                self._keep_log([LogLine(*piece[:5], _storable(piece.text)) for piece in pieces])
            case wire.Notes(notes):
                self._keep_notes([self._row(note) for note in notes])
            case wire.Seen(number):
                if (answer := self._looks.get(number)) is not None and not answer.done():
                    answer.set_result(message)
            case wire.Draining():
                self._inbox.put(happened.Drained(self.incarnation))
            case wire.Goodbye():
                self._inbox.put(happened.Parted(self.incarnation))
                self.close()

    def give_straight(self, give: Callable[[list[wire.ToWorker]], None]) -> None:
        """Let what begins be given by this call, if nothing else waits for the worker."""
        self._give = give

    def send(self, message: wire.ToWorker) -> None:
        """Queue a message for the worker; give it begins at once, if we can and they overtake nothing."""
        if self._give is not None and self._open and not self._waiting and type(message) is wire.Begin:
            try:
                self._give([message])
            except Exception:  # our own fault: it comes back with a hello, and is sent what it does not hold
                log.exception("a worker in this process could not take what begins")
                self.close()
            return
        if len(self._waiting) >= MOST_WAITING:
            self.close()
            return
        self._waiting.append(message)
        self._filled.set()

    async def next_frames(self) -> AsyncIterator[list[wire.ToWorker]]:
        """Yield what is queued until the port closes."""
        while self._open or self._waiting:
            if self._waiting:
                frames, self._waiting = self._waiting, []
                yield frames
            else:
                self._filled.clear()
                await self._filled.wait()

    def close(self) -> None:
        """Let the connection end once what is queued was sent."""
        self._open = False
        self._filled.set()

    def closed(self) -> None:
        """The connection is gone; the lease runs on in the core."""
        self._give = None
        self.close()
        if self.incarnation and self._ports.get(self.incarnation) is self:
            del self._ports[self.incarnation]
            self._inbox.put(happened.Left(self.incarnation))

    def _hello(self, hello: wire.Hello) -> None:
        if self.incarnation:
            raise InvalidRequest("a second hello on one connection", code="hello_twice")
        spec = read_spec(hello)
        if self._inbox.closed:  # the reign has just ended: here it would beat to nobody for ever
            self.send(wire.Refusal("no_leader", f"node {self._hosting.node} does not lead any more"))
            self.close()
            return
        self.incarnation, self.name = spec.incarnation, spec.name
        self._warn_of_a_namesake(hello.predecessor)
        older = self._ports.get(spec.incarnation)
        if older is not None:
            older.close()
        self._ports[spec.incarnation] = self
        self._welcome(heard=self._hosting.trusts())
        self._facts = hello.facts
        signatures = {task.name: task.signature[:MOST_SIGNATURE] for task in hello.tasks if task.signature}
        about = {"facts": hello.facts, "version": hello.version, "signatures": signatures}
        self._inbox.put(
            happened.Joined(
                spec, hello.holds, hello.results, hello.predecessor, random(), about, hello.draining
            ),
            len(hello.results) + 1,
        )

    def _warn_of_a_namesake(self, predecessor: str | None) -> None:
        """Two of one name are pinned, steered and attached together, which hardly anybody means."""
        own = (self.incarnation, predecessor)  # a connection of these may not have closed yet
        for other in self._ports.values():
            if other.name == self.name and other.incarnation not in own:
                facts = {"worker": self.name, "incarnation": self.incarnation, "other": other.incarnation}
                log.warning(
                    "a second worker joins under the name of a connected one; give it a --name", extra=facts
                )
                return

    def _row(self, note: wire.Note) -> NoteRow:
        text = _storable(note.text)
        return NoteRow(
            note.job, note.attempt, self.incarnation, note.progress, text, note.checkpoint,
            note.cpu_seconds, note.memory_bytes,
        )  # fmt: skip

    def _beat(self, beat: wire.Beat) -> None:
        # A beat says only what changes.
        about = {"facts": {**self._facts, **beat.facts}} if beat.facts else {}
        self._inbox.put(happened.Renewed(self.incarnation, beat.holds, about))
        if beat.number > 0 and not self._inbox.closed and self._hosting.trusts():
            self.send(wire.Heard(self._hosting.term, beat.number))
        if self.roster.urls != self._told:
            self._welcome()

    def _welcome(self, heard: bool = False) -> None:
        """Tell the worker how to live here, and which nodes there are; again when those have changed."""
        hosting, self._told = self._hosting, self.roster.urls
        self.send(
            wire.Welcome(
                wire.PROTOCOL,
                hosting.term,
                hosting.node,
                hosting.beat_seconds,
                hosting.lease_seconds,
                list(self._told),
                hosting.kill_lease_seconds,
                heard,
            )
        )


class Doorstep:
    """A port of a node that does not lead: says so, and closes."""

    def __init__(self, detail: str) -> None:
        self._detail = detail
        self._knocked = asyncio.Event()

    async def receive(self, message: wire.FromWorker) -> None:
        """Whatever it says, it has to go elsewhere."""
        self._knocked.set()

    def give_straight(self, give: Callable[[list[wire.ToWorker]], None]) -> None:
        """There is nothing to give."""

    async def next_frames(self) -> AsyncIterator[list[wire.ToWorker]]:
        """Refuse, once."""
        await self._knocked.wait()
        yield [wire.Refusal("no_leader", self._detail)]

    def closed(self) -> None:
        """Nothing was held."""


def read_spec(hello: wire.Hello) -> WorkerSpec:
    """Return what a worker says it is; what comes from outside was checked at the socket."""
    return WorkerSpec(
        name=hello.name,
        incarnation=hello.incarnation,
        slots=hello.slots,
        adapters=frozenset(hello.adapters),
        tasks=tuple(TaskInfo(task.name, task.is_async, task.adapter) for task in hello.tasks),
        tags=tuple(hello.tags),
        queues=tuple(hello.queues),
        async_per_slot=hello.async_per_slot,
        ahead=hello.ahead,
    )


def _storable(text: str) -> str:
    """Return text without NUL, which not every database keeps."""
    return text.replace("\0", "\ufffd") if "\0" in text else text
