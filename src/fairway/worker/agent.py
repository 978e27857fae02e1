"""The agent: a worker's own process, which never runs user code.

Its duties:

1. Start the adapters, and learn from them which tasks there are.
2. Keep connected to a node, whichever answers: try again for ever, with a growing pause; at each connection
   say who it is, what it holds and what it has finished but was not thanked for.
3. Beat, naming every attempt it holds.
4. Give begun attempts to their adapters, each (job, attempt) at most once in its life, those that are begun
   ahead when a slot is free; stop those it is told to stop; say where their code is when asked; drop what an
   older term sends.
5. Pass on results, hand-backs and output; keep results and hand-backs until they are acknowledged.
6. End the code that must not outlive its lease (`kill`) before anybody else can be given it.
7. Offer what it is told to, and drain when told to: take nothing more, and when the deadline is over stop
   what still runs and hand it back, unless it must not start twice.
8. Close: take nothing more, hand back what has not started, give the rest a grace, say goodbye.

When no node answers for longer than the lease, other work runs on (`keep`): its results are told later, and
refused if the attempts were taken away. One loop owns it all; there are no locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import platform
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

import fairway
from fairway.adapter import Adapter
from fairway.adapters.outcome import describe
from fairway.wire.messages import (
    PROTOCOL,
    Acks,
    Adjust,
    Assignment,
    Beat,
    Begin,
    Draining,
    Goodbye,
    Heard,
    Held,
    Hello,
    LogPiece,
    Look,
    Note,
    Refusal,
    Result,
    Seen,
    Stop,
    Task,
    ToWorker,
    Welcome,
)
from fairway.worker.facts import lasting_facts, passing_facts
from fairway.worker.identity import Identity
from fairway.worker.lease import Lease
from fairway.worker.outbox import Key, Outbox
from fairway.worker.shelf import Shelf
from fairway.worker.transport import Connect, Disconnected, NotAdmitted, Transport
from fairway.worker.warden import Warden

log = logging.getLogger(__name__)

REMEMBERED = 50_000
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
#: A connection that held so long was a good one, however it ended.
GOOD_SECONDS = 30.0
CONNECT_SECONDS = 10.0
GOODBYE_SECONDS = 0.7
#: While every slot has more to do, ends are told together that come within this time.
GATHER_SECONDS = 0.004
LOOK_SECONDS = 5.0
MOST_LOOKS = 20
MOST_SEEN = 256 * 1024
#: How long a closing worker waits for the node's word on its last reports: unheard, they would cost a lease.
LEAVE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a worker offers."""

    slots: int
    tags: tuple[str, ...] = ()
    queues: tuple[str, ...] = ("**",)
    async_per_slot: int = 100
    facts: dict[str, Any] = field(default_factory=dict)


class Agent:
    """One worker. `start`, then `run` until `close`."""

    def __init__(
        self,
        identity: Identity,
        capacity: Capacity,
        adapters: Sequence[Adapter],
        connect: Connect,
        warden: Warden,
        learn: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self.identity, self.capacity, self.warden = identity, capacity, warden
        self.tasks: list[Task] = []
        self.connected = asyncio.Event()
        self._connected_at = 0.0
        self._adapters = {adapter.name: adapter for adapter in adapters}
        self._connect = connect
        self._learn = learn  # told where else the cluster can be reached
        self._facts = lasting_facts() | capacity.facts
        self._outbox = Outbox()
        self._held: dict[Key, Hold] = {}
        self._used = 0  # slots that hold something
        self._waiting = 0  # bundles that wait for one, on the shelf or behind what runs
        self._async_tasks: frozenset[tuple[str, str]] = frozenset()
        self._async_held = 0  # attempts that hold a part of one
        self._shelf = Shelf(self.handed_back)
        self._once: set[Key] = set()  # of those, what cannot be handed back once it has started
        self._draining = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self._memory = Memory()
        self._lease = Lease()
        self._term = 0
        self._beat_seconds = 2.0
        self._nodes = 0  # how many it could go to
        self._closing = False
        self._transport: Transport | None = None
        self._leaving = False
        self._left = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._looking: set[asyncio.Task[None]] = set()

    # --- 1. starting ----------------------------------------------------------------------------------
    async def start(self) -> None:
        """Start the guardian and the adapters; raises, and leaves nothing behind, if one cannot work."""
        self.warden.start()
        try:
            for adapter in self._adapters.values():
                tasks = await adapter.start(self)
                self.tasks += [msgspec.structs.replace(task, adapter=adapter.name) for task in tasks]
        except BaseException:
            await self.warden.close()
            raise
        self._async_tasks = frozenset((task.adapter, task.name) for task in self.tasks if task.is_async)

    async def run(self) -> None:
        """Serve nodes until closed."""
        self._running = asyncio.current_task()
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self._keep_to_the_lease())
            try:
                await self._keep_connected()
            finally:
                keeping.cancel()

    async def _keep_connected(self) -> None:
        pause, failures, last = FIRST_PAUSE, 0, ""
        while not self._closing:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    opening = self._connect()
                    transport = await opening if inspect.isawaitable(opening) else opening
                await self._serve(transport)
                pause = FIRST_PAUSE
            except* Exception as group:
                error = first_of(group)
                if self._was_good(error):
                    pause, failures, last = FIRST_PAUSE, 0, ""
                failures += 1
                if not self._closing:
                    tell_why(error, failures, last)
                if isinstance(error, NotAdmitted):
                    last = str(error)
            self.connected.clear()
            if not self._closing:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, LONGEST_PAUSE)

    def _was_good(self, error: BaseException) -> bool:
        """Whether the connection that ended was one; a refusal may come after each welcome, and is none."""
        if not self.connected.is_set():
            return False
        held = asyncio.get_running_loop().time() - self._connected_at
        return not isinstance(error, Refused) or held >= GOOD_SECONDS

    # --- 2. one connection ------------------------------------------------------------------------------
    async def _serve(self, transport: Transport) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await transport.send([self._hello()])
                first = await transport.receive()
            self._be_welcomed(first)
            self._transport = transport
            self._connected_at = asyncio.get_running_loop().time()
            self.connected.set()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_receiving(transport))
                tasks.create_task(self._keep_sending(transport))
                tasks.create_task(self._keep_beating(transport))
        finally:
            self._transport = None
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1):
                    await transport.close()

    def _be_welcomed(self, messages: Sequence[ToWorker]) -> None:
        if not messages or not isinstance(messages[0], Welcome):
            raise refusal_of(messages)
        if messages[0].term < self._term:
            raise Disconnected(f"node {messages[0].node} is of term {messages[0].term}, which is over")
        self._take(messages)

    def _hello(self) -> Hello:
        results = self._outbox.start_again()
        self._lease.start_again()
        told = {result[:2] for result in results}
        return Hello(
            protocol=PROTOCOL,
            name=self.identity.name,
            incarnation=self.identity.incarnation,
            slots=self.capacity.slots,
            adapters=list(self._adapters),
            tasks=self.tasks,
            tags=list(self.capacity.tags),
            queues=list(self.capacity.queues),
            async_per_slot=self.capacity.async_per_slot,
            facts=self._facts | self._versions() | self._passing_facts(),
            holds=[held for held in self._holds() if held[:2] not in told],
            results=results,
            predecessor=self.identity.predecessor,
            pid=os.getpid(),
            version=fairway.__version__,
            draining=self._draining or self._closing,
            ahead=True,
        )

    def _versions(self) -> dict[str, Any]:
        """Name what runs the code here; an adapter that has no version of its own says nothing."""
        own = {name: getattr(adapter, "version", None) for name, adapter in self._adapters.items()}
        told = {name: str(version) for name, version in own.items() if version}
        return {"versions": {"fairway": fairway.__version__, "python": platform.python_version(), **told}}

    async def _keep_receiving(self, transport: Transport) -> None:
        transport.give_straight(self._take)
        while True:
            self._take(await transport.receive())

    async def _keep_sending(self, transport: Transport) -> None:
        while True:
            await self._outbox.wake.wait()
            if self._waiting and self._waiting >= self._used:  # no slot idles: let a few ends gather
                await asyncio.sleep(GATHER_SECONDS)
            self._outbox.wake.clear()
            for message in self._outbox.take():
                await transport.send([message])
            if self._leaving and not self._outbox.results and not self._held:
                await transport.send([Goodbye("closing")])
                self._left.set()

    # --- 3. beats ---------------------------------------------------------------------------------------
    async def _keep_beating(self, transport: Transport) -> None:
        while True:
            await asyncio.sleep(self._beat_seconds)
            if self._left.is_set():  # a goodbye is the last word
                return
            await transport.send([self._beat()])

    def _beat(self) -> Beat:
        return Beat(self._holds(), self._passing_facts(), self._lease.next_number())

    def _passing_facts(self) -> dict[str, Any]:
        return passing_facts() | {"nodes": self._nodes}

    def _holds(self) -> list[Held]:
        """Name what runs and what has ended without the node knowing: both are still ours."""
        holds = [Held(*key, hold.adapter.started(*key)) for key, hold in self._held.items()]
        holds += [Held(*key) for key in self._outbox.results]
        return holds

    # --- 4. orders --------------------------------------------------------------------------------------
    def _take(self, messages: Sequence[ToWorker]) -> None:
        for message in messages:
            if isinstance(message, Refusal):
                raise refusal_of([message])
            if message.term < self._term:
                log.info("dropped a message of an older term", extra={"term": message.term})
                continue
            self._term = message.term
            if isinstance(message, Begin):
                self._begin(message.assignments, message.ahead)
            elif isinstance(message, Acks):
                self._acknowledge(message)
            elif isinstance(message, Stop):
                self._stop(message)
            elif isinstance(message, Look):
                self._begin_look(message)
            elif isinstance(message, Adjust):
                self._adjust(message)
            elif isinstance(message, Heard):
                self._lease.heard(message.number)
                self.warden.renew(self._lease.until)
            elif isinstance(message, Welcome):
                self._heed(message)

    def _heed(self, welcome: Welcome) -> None:
        """Beat as often as we are told, and know where to go when this node is gone."""
        self._beat_seconds = welcome.beat_seconds
        self._lease.last(welcome.kill_lease_seconds or welcome.lease_seconds, usual=welcome.lease_seconds)
        if welcome.heard:
            self._lease.hello_heard()
            self.warden.renew(self._lease.until)
        if welcome.nodes and self._learn is not None:
            self._learn(welcome.nodes)
            self._nodes = len(welcome.nodes)

    def _begin(self, assignments: Sequence[Assignment], ahead: bool) -> None:
        keys = [assignment[:2] for assignment in assignments]
        if not self._memory.is_new(keys):
            assignments = self._without_known(assignments)
            keys = [assignment[:2] for assignment in assignments]
        if self._closing or self._draining or self._outbox.is_full:
            self._memory.add(keys)
            self.handed_back(keys)
            return
        for bundle in group(assignments):
            keys = [assignment[:2] for assignment in bundle]
            self._memory.add(keys)
            adapter = self._adapters.get(bundle[0].adapter)
            if adapter is None or (bundle[0].kill and not self._lease.claim(bundle[0][:2])):
                self.handed_back(keys)
                continue
            self._held.update(dict.fromkeys(keys, Hold(adapter, len(keys))))
            if bundle[0].once:  # alone: such jobs are never bundled
                self._once.add(bundle[0][:2])
            if ahead and (self._shelf or not self._has_room()):
                self._shelf.put(bundle)
                self._waiting += 1
            else:
                self._begin_bundle(bundle)
        if self._shelf:
            self._begin_shelved()

    def _has_room(self) -> bool:
        """Whether a slot is free here."""
        return self._used - -self._async_held // self.capacity.async_per_slot < self.capacity.slots

    def _begin_shelved(self) -> None:
        while self._shelf and self._has_room():
            self._waiting -= 1
            self._begin_bundle(self._shelf.take())
        self._hand_on()

    def _hand_on(self) -> None:
        """Let what is begun ahead stand behind what runs, in the process itself, as far as adapters can."""
        while self._shelf and not self._has_room():
            bundle = self._shelf.first
            adapter = self._held[bundle[0][:2]].adapter
            try:
                if not adapter.begin_behind(bundle):
                    return
            except Exception as error:
                log.error("the %s adapter could not begin behind: %r", adapter.name, error, exc_info=error)
                self.handed_back([assignment[:2] for assignment in self._shelf.take()])
                return
            self._shelf.take()

    def _begin_bundle(self, bundle: Sequence[Assignment]) -> None:
        """Give attempts to their adapter; if it cannot take them, the node shall have them back."""
        hold = self._held[bundle[0][:2]]
        adapter, hold.runs = hold.adapter, True
        hold.is_async = (adapter.name, bundle[0].task) in self._async_tasks
        if hold.is_async:
            self._async_held += len(bundle)
        else:
            self._used += 1
        try:
            adapter.begin(bundle)
        except Exception as error:
            log.error("the %s adapter could not begin, handing back: %r", adapter.name, error, exc_info=error)
            self.handed_back([assignment[:2] for assignment in bundle])

    def _without_known(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Leave out what we have heard of: it runs, or the node has missed what became of it."""
        fresh: dict[Key, Assignment] = {}
        for assignment in assignments:
            key = assignment[:2]
            if not self._memory.knows(key):
                fresh.setdefault(key, assignment)
            elif key not in self._held:
                self._outbox.tell_again(key)
        return list(fresh.values())

    def _stop(self, message: Stop) -> None:
        for held in message.attempts:
            hold = self._held.get(held[:2])
            if hold is None:
                continue
            if hold.runs or not self._shelf.remove(held[:2]):
                hold.adapter.stop(held.job, held.attempt, message.force, message.kind)
            elif message.kind == "stopped":
                self.handed_back([held[:2]])
            else:
                self.finished([unstarted(held[:2], message.kind)])

    def _begin_look(self, message: Look) -> None:
        if len(self._looking) >= MOST_LOOKS:
            self._outbox.add_seen(Seen(message.number, "this worker is looking at too many attempts", False))
            return
        task = asyncio.get_running_loop().create_task(self._look(message))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, message: Look) -> None:
        """Say where an attempt's code is, or why that cannot be told."""
        hold = self._held.get((message.job, message.attempt))
        text, why = None, "this worker does not run it any more"
        if hold is not None:
            adapter = hold.adapter
            why = f"the {adapter.name} adapter cannot tell where its code is"
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    text = await adapter.look(message.job, message.attempt)
            except TimeoutError:
                why = f"its process did not answer within {LOOK_SECONDS:g} s"
            except Exception as error:
                log.error("the %s adapter could not look: %r", adapter.name, error, exc_info=error)
                why = f"the worker could not look: {type(error).__name__}"
        self._outbox.add_seen(Seen(message.number, (text or why)[:MOST_SEEN], text is not None))

    # --- 5. reports -------------------------------------------------------------------------------------
    def finished(self, results: Sequence[Result]) -> None:
        """These attempts ended; those that the worker itself stopped are handed back."""
        pop, release = self._held.pop, self._lease.release
        for result in results:
            hold = pop(result[:2], None)
            if hold is not None:
                self._let_go(hold)
            release(result[:2])
        if self._once:
            self._once.difference_update([result[:2] for result in results])
        stopped = [Held(*result[:2]) for result in results if result[2] == "stopped"]
        if stopped:
            self._outbox.add_hand_backs(stopped)
            results = [result for result in results if result[2] != "stopped"]
        self._outbox.add_results(results)

    def _let_go(self, hold: Hold) -> None:
        """One of the attempts that came together is over; with the last of them a slot is free."""
        hold.left -= 1
        if not hold.runs:
            self._waiting -= not hold.left
            return
        if hold.is_async:
            self._async_held -= 1
        elif hold.left:
            return
        else:
            self._used -= 1
        if self._shelf:  # soon: the process that ran it is to be idle by then, or to run what stood behind
            asyncio.get_running_loop().call_soon(self._begin_shelved)

    def began(self, attempts: Sequence[Key]) -> None:
        """These attempts, which stood behind others, have taken their slot."""
        hold = self._held.get(attempts[0])
        if hold is not None and not hold.runs:
            hold.runs = True
            self._waiting -= 1
            self._used += 1
        self._hand_on()

    def handed_back(self, attempts: Sequence[Key]) -> None:
        """These attempts did not start and never will here."""
        for key in attempts:
            hold = self._held.pop(key, None)
            if hold is not None:
                self._let_go(hold)
            self._lease.release(key)
        self._once.difference_update(attempts)
        self._outbox.add_hand_backs([Held(*key, False) for key in attempts])

    def wrote(self, pieces: Sequence[LogPiece]) -> None:
        """These attempts wrote output."""
        self._outbox.add_logs(pieces)

    def noted(self, notes: Sequence[Note]) -> None:
        """These attempts said how far they are, or left a checkpoint."""
        self._outbox.add_notes(notes)

    def _acknowledge(self, message: Acks) -> None:
        self._outbox.acknowledge(message.done)
        self._outbox.acknowledge(message.stale)
        # An attempt that is not ours any more runs on, and its result will be refused; unless it must not.
        self._end([key for key in message.lost if self._lease.holds(key)])
        self._forget_waiting(message.lost)
        if self._leaving:
            self._outbox.wake.set()

    def _forget_waiting(self, keys: Sequence[Key]) -> None:
        """What is begun ahead and is not ours any more is not started."""
        for key in keys:
            hold = self._held.get(key)
            if hold is None or hold.runs:
                continue
            if self._shelf.remove(key):
                self._let_go(self._held.pop(key))
            else:
                hold.adapter.take_back()

    # --- 6. the lease -----------------------------------------------------------------------------------
    async def _keep_to_the_lease(self) -> None:
        """End what must not outlive the lease; the guardian does the same, should we be too late."""
        while True:
            await self._lease.wait()
            if overdue := self._lease.take_overdue():
                log.warning("no node has answered for nearly a lease: ending %d attempts", len(overdue))
                self._end(overdue)

    def _end(self, keys: Sequence[Key]) -> None:
        """Kill the code of these attempts; they are handed back."""
        for key in keys:
            if hold := self._held.get(key):
                hold.adapter.stop(*key, force=True, kind="stopped")

    # --- 7. what it offers ------------------------------------------------------------------------------
    def _adjust(self, message: Adjust) -> None:
        """Offer what people want: the next hello says the same, so it outlasts the leader that told us."""
        if message.slots is not None:
            self.capacity = replace(self.capacity, slots=message.slots)
            for adapter in self._adapters.values():
                adapter.resize(message.slots)
            self._begin_shelved()
        if message.queues is not None:
            self.capacity = replace(self.capacity, queues=tuple(message.queues))
        if message.draining is not None:
            self._drain(message.draining, message.deadline_seconds)

    def _drain(self, on: bool, deadline_seconds: float | None) -> None:
        """Take no more, or take work again. The deadline is kept here: it outlasts the leader that set it."""
        self._draining = on
        if on:
            self._hand_back_waiting()
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
        if on and deadline_seconds is not None:
            loop = asyncio.get_running_loop()
            self._drain_timer = loop.call_later(deadline_seconds, self._stop_the_rest)

    def _hand_back_waiting(self) -> None:
        """Give up what was begun ahead and has no slot yet, on the shelf or behind what runs."""
        if self._shelf:
            self.handed_back(self._shelf.clear())
        for adapter in self._adapters.values():
            adapter.take_back()

    def _stop_the_rest(self) -> None:
        """The deadline is over: stop what can be handed back."""
        for key, hold in list(self._held.items()):
            if key not in self._once:
                hold.adapter.stop(*key, force=False, kind="stopped")

    # --- 8. the end -------------------------------------------------------------------------------------
    def hurry(self) -> None:
        """While closing: kill what still runs and hand it back now, whatever the grace."""
        self._end(list(self._held))

    async def close(self, grace_seconds: float = 3.0) -> list[Key]:
        """Stop within the grace and a few seconds; return the attempts the node may not know about."""
        self._closing = True
        if self._shelf:
            self.handed_back(self._shelf.clear())
        await self._say_draining()
        await asyncio.gather(*(adapter.close(grace_seconds) for adapter in self._adapters.values()))
        await self._leave()
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running], timeout=1.5)
        await self.warden.close()
        return [*self._held, *self._outbox.results]

    async def _say_draining(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(Disconnected, OSError, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._transport.send([Draining()])

    async def _leave(self) -> None:
        """Wait a moment until the node has heard everything."""
        self._leaving = True
        self._outbox.wake.set()
        if self._transport is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._left.wait()


class Hold:
    """Attempts that came together and are held: by whom they are run, and how many have not ended."""

    __slots__ = ("adapter", "is_async", "left", "runs")

    def __init__(self, adapter: Adapter, left: int) -> None:
        self.adapter, self.left = adapter, left
        self.runs = False  # not begun ahead, or a slot was free for it
        self.is_async = False


def unstarted(key: Key, kind: str) -> Result:
    """Return the result of an attempt that was stopped before it began."""
    return Result(*key, kind, msgspec.json.encode(describe("Stopped", "stopped before it began")), 0.0)


class Memory:
    """Remembers the last attempts, at least 25,000 and at most 50,000, in two halves."""

    def __init__(self) -> None:
        self._recent: set[Key] = set()
        self._older: set[Key] = set()

    def knows(self, key: Key) -> bool:
        """Whether this attempt was here before."""
        return key in self._recent or key in self._older

    def is_new(self, keys: list[Key]) -> bool:
        """Whether none of these was here before, nor twice among them."""
        return self._recent.isdisjoint(keys) and self._older.isdisjoint(keys) and len(set(keys)) == len(keys)

    def add(self, keys: list[Key]) -> None:
        """Remember these."""
        self._recent.update(keys)
        if len(self._recent) >= REMEMBERED // 2:
            self._older, self._recent = self._recent, set()


def group(assignments: Sequence[Assignment]) -> list[list[Assignment]]:
    """Put those of one bundle together; the others stand alone, and so does what may have to be killed."""
    groups: list[list[Assignment]] = []
    bundles: dict[tuple[str, int], list[Assignment]] = {}
    for assignment in assignments:
        if not assignment.bundle or assignment.kill:
            groups.append([assignment])
            continue
        name = (assignment.adapter, assignment.bundle)
        if name not in bundles:
            bundles[name] = []
            groups.append(bundles[name])
        bundles[name].append(assignment)
    return groups


class Refused(Disconnected):
    """The node will not serve us, and said why."""


def refusal_of(messages: Sequence[ToWorker]) -> Disconnected:
    """Return why a node did not welcome us, or does not want us any more."""
    if messages and isinstance(messages[0], Refusal):
        return Refused(f"{messages[0].code}: {messages[0].detail}")
    return Disconnected("the node did not answer with a welcome")


def first_of(group: BaseExceptionGroup[Exception]) -> BaseException:
    """Return the first error in a group, however deep it lies."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def tell_why(error: BaseException, failures: int, last: str = "") -> None:
    """Log why there is no connection; an error that nobody foresaw comes with its traceback.

    A connection is often gone for a moment (a node starts, stops, hands over): that is news only for those
    who want to know everything. What lasts is said once, and again about once a minute. No token comes by
    waiting: that one is wanted is said at once, unless it was what was said *last*.
    """
    level = logging.WARNING if failures == 4 or failures % 30 == 0 else logging.INFO
    if isinstance(error, NotAdmitted):
        level = logging.INFO if str(error) == last else logging.WARNING
        log.log(level, "%s; trying again", error, extra={"node": error.address})
    elif isinstance(error, Refused):
        log.log(level, "the node refuses this worker, trying again: %s", error)
    elif isinstance(error, Disconnected | OSError | TimeoutError):
        log.log(level, "no connection, trying again: %s: %s", type(error).__name__, error)
    else:
        log.error("the connection failed, trying again: %r", error, exc_info=error)
