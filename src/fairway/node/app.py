"""A node put together: store, election, engine, API and, by default, a worker of its own.

This is a composition root: the only place that knows which implementations there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fairway import __version__
from fairway.api.app import Api, build_api
from fairway.api.server import Server
from fairway.clock import moment, wall
from fairway.core.look import WorldLook
from fairway.errors import Deposed, NoLeader, WorldError
from fairway.leadership.elector import Elector
from fairway.leadership.term import Reign
from fairway.node.actions import Operations
from fairway.node.chores import tidy_forever
from fairway.node.databases import NodeStore, choose_database
from fairway.node.desk import NodeDesk
from fairway.node.engine import Engine
from fairway.node.feed import Feed
from fairway.node.hosting import OwnWorker
from fairway.node.link import Link
from fairway.node.metrics import mishap_numbers, tenant_numbers
from fairway.node.mover import Mover
from fairway.node.neighbours import is_silent
from fairway.node.options import NodeOptions, url_of
from fairway.node.ports import Roster
from fairway.node.postman import Postman
from fairway.node.relay import Relay
from fairway.node.schedule_book import ScheduleBook
from fairway.node.timekeeper import Timekeeper
from fairway.node.webhook import Mailbag
from fairway.store import NodeRow
from fairway.stores.sqlite.locks import WorkerLocks

__all__ = ["Node", "NodeOptions"]

log = logging.getLogger("fairway.node")

STAND_AGAIN_SECONDS = 2.0
SETTLE_SECONDS = 0.6  # a node alone on its file leads by then
PAUSE_MOST_SECONDS = 5.0
LOOK_AT_LOCKS_SECONDS = 0.25
WRITE_DOWN_SECONDS = 10.0


class Listening(Protocol):
    """Serves one API: a listener of its own, or a part of one that several schedulers share."""

    async def start(self, listen: str) -> tuple[str, int]: ...

    async def stop(self, grace: float) -> None: ...


class Node:
    """One fairway process, or one scheduler's part of it: serves the API, stands, leads when elected.

    *serve* makes the server of its API; *prefix* is what stands before every path there.
    """

    def __init__(
        self, options: NodeOptions, serve: Callable[[Api], Listening] = Server, prefix: str = ""
    ) -> None:
        options.check()
        self.options = options
        self._serve, self.prefix = serve, prefix
        self.name = options.node_name()
        self.incarnation = secrets.token_hex(8)
        self._database = choose_database(options)
        self.path: Path | str = self._database.shown
        self.store: NodeStore = self._database.store
        self.locks = self._database.worker_locks
        self.feed = Feed(self.store)
        self.link = Link(self.incarnation, options.leader_ttl, stands=options.lead, token=options.token)
        self.relay = Relay(self.link, self.name, options.token)
        self.roster = Roster()
        self.linked: dict[
            object, tuple[str, bool]
        ] = {}  # nodes that keep a link to us, and whether they stand
        self.reign_over = asyncio.Event()
        self._stirred = asyncio.Event()
        self.desk = NodeDesk(self)
        self.engine: Engine | None = None
        self.schedules: ScheduleBook | None = None  # while it leads
        self.mover: Mover | None = None  # the same
        self.operations: Operations | None = None  # the same
        self.url = ""  # where this machine reaches it
        self.advertised = ""  # where others do
        self._server: Listening | None = None
        self._elector: Elector | None = None
        self._worker: OwnWorker | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._leading = asyncio.Event()
        self._stopping = False
        self._stepping_down = False
        self._started_at = 0
        self._terms = 0
        self._deposed = 0  # reigns that ended because a late write was refused, or the store was lost

    async def start(self) -> None:
        """Open the store, serve the API, stand for election, start the worker."""
        await self.store.open()
        # Whoever has the token is no page of a browser that was led here by a foreign name.
        hosts = ("*",) if self.options.token else ()
        api = build_api(self.desk, token=self.options.token, hosts=hosts, prefix=self.prefix)
        self._server = self._serve(api)
        host, port = await self._server.start(self.options.listen)
        self.url = url_of(host, port) + self.prefix
        self.advertised = self.options.advertised(host, port) + self.prefix
        self._started_at = wall()
        self._elector = Elector(
            self.store,
            self.incarnation,
            self.name,
            self.advertised,
            self.options.leader_ttl,
            self._database.lock,
        )
        self._elector.pause = self.link.pause
        self._tasks = [
            asyncio.create_task(self._lead_forever(), name="lead"),
            asyncio.create_task(self._write_self_down(), name="node-row"),
            asyncio.create_task(self.link.keep(), name="link"),
        ]
        with contextlib.suppress(NoLeader):
            await self.link.until_up(SETTLE_SECONDS)
        if self.options.worker:
            self._worker = OwnWorker(self)
            await self._worker.start()

    async def stop(self) -> dict[str, int]:
        """Hand running work back, resign, close; return what is left behind."""
        before = self._counted()
        if self._worker is not None:
            await self._worker.stop(self.options.grace_seconds)
        grown = {what: max(count - before[what], 0) for what, count in self._counted().items()}
        left = self._what_is_left() | grown
        self._stopping = True
        if self.engine is not None:
            self.engine.stop()
        await self._end_tasks()
        self.link.close()
        if self._server is not None:
            await self._server.stop(0.5)
        if self._tasks:  # else it never came so far as to write itself down
            with contextlib.suppress(WorldError):
                await self.store.forget_node(self.incarnation)
        await self.store.close()
        return left

    def hurry(self) -> None:
        """Hand running work back now, whatever the grace."""
        if self._worker is not None:
            self._worker.hurry()

    async def until_failed(self) -> str:
        """Return why this node can no longer do its work, should that ever happen."""
        lead = self._tasks[0]
        await asyncio.wait([lead])
        error = None if lead.cancelled() else lead.exception()
        return f"{type(error).__name__}: {error}" if error else "it stopped standing for election"

    async def until_leading(self, timeout: float = 10.0) -> None:
        """Return when this node leads."""
        async with asyncio.timeout(timeout):
            await self._leading.wait()

    def step_down(self) -> None:
        """Resign, and give others the time to stand."""
        self._stepping_down = True
        if self.engine is not None:
            self.engine.stop()

    def who_leads(self) -> str:
        """Say who leads while this node stands by."""
        leader = self.link.leader
        return "nobody leads just now" if leader is None else f"{leader.name} at {leader.url} leads"

    def no_leader_detail(self) -> str:
        """Say why what was asked cannot be done here when this node does not lead."""
        leader = self.link.leader
        if leader is None:
            return "nobody leads just now; try again in a moment"
        return (
            f"node {self.name} stands by and what was asked needs the leader, {leader.name} at {leader.url}"
        )

    def numbers(self) -> dict[str, float]:
        """Return counters and gauges for /metrics."""
        numbers: dict[str, float] = {"leading": float(self.engine is not None), "terms": float(self._terms)}
        numbers |= {"linked": float(self.link.up), "deposed_total": float(self._deposed)}
        if self.engine is not None:
            world: WorldLook = self.engine.core.world
            numbers |= {
                "term": float(self.engine.reign.term),
                "jobs_waiting": float(world.tree.root.waiting),
                "jobs_running": float(len(world.live)),
                "workers": float(sum(worker.connected for worker in world.workers.values())),
                "commits_total": float(self.engine.commits),
            }
            counts = self.engine.counts
            for name in counts.__slots__:
                numbers[f"jobs_{name}_total"] = float(getattr(counts, name))
            numbers |= tenant_numbers(world, moment())
            numbers["jobs_set_aside"] = float(len(world.aside))
            numbers["poison_calls_refused_total"] = float(self.engine.culprits.refused)
            numbers |= mishap_numbers(world)
        if self.schedules is not None:
            numbers |= self.schedules.numbers()
        if self.operations is not None:
            numbers |= self.operations.numbers()
        return numbers

    # --- leading ---------------------------------------------------------------------------------
    async def _lead_forever(self) -> None:
        assert self._elector is not None
        if not self.options.lead:
            await self._elector.watch()
        pause = 0.0  # grows while the engine fails again and again
        while not self._stopping:
            await asyncio.sleep(pause)
            reign, deposed = await self._elector.win(), False
            try:
                await self._reign(reign)
            except* (Deposed, WorldError) as group:
                log.warning("no longer the leader", extra={"why": str(group.exceptions[0])})
                pause, deposed = 0.0, True
                self._deposed += 1
            except* Exception:
                log.exception("the engine failed; it is built anew from the store")
                pause = min(max(2 * pause, 0.1), PAUSE_MOST_SECONDS)
            else:
                pause = 0.0
            finally:
                self.engine, self.schedules, self.mover, self.feed.live = None, None, None, False
                self.operations = None
                self._leading.clear()
                self.store.stop_listening()
                await self._elector.resign(reign)
                self.link.lead_here(False)
                self.reign_over.set()
            if deposed and not self._stopping:
                await self._elector.wait_a_turn()
            if self._stepping_down:
                self._stepping_down = False
                await self._let_others_stand()

    async def _let_others_stand(self) -> None:
        """After stepping down, wait a moment for another node to lead, if there is one."""
        with contextlib.suppress(WorldError):
            nodes = await self.store.nodes()
            if any(node.incarnation != self.incarnation and not is_silent(node, wall()) for node in nodes):
                assert self._elector is not None
                await self._elector.watch(STAND_AGAIN_SECONDS)

    async def _reign(self, reign: Reign) -> None:
        assert self._elector is not None
        self._terms += 1
        engine = Engine(self.store, self.feed, reign, self.name, self._database.adapt(self.options.timers))
        await engine.recover()
        self.store.listen()
        timekeeper = Timekeeper(self.store, reign, self.desk.cancel, engine.look_again, engine.note)
        self.schedules = ScheduleBook(self.store, reign, timekeeper, engine.note)
        self.mover = mover = Mover(self.store, engine)
        postman = Postman(
            self.store, engine, Mailbag(self.options.webhook_secret, self.options.allow_private)
        )
        self.engine, self.feed.live = engine, True
        self.reign_over = asyncio.Event()
        self._leading.set()
        self.link.lead_here(True)
        self.stir()
        log.info("leading", extra={"term": reign.term})
        async with asyncio.TaskGroup() as tasks:
            beat = tasks.create_task(self._beat(reign, engine))
            chores = tasks.create_task(tidy_forever(self.store, engine))
            watch = tasks.create_task(self._watch_locks(engine))
            firing = tasks.create_task(timekeeper.run())
            moving = tasks.create_task(mover.run())
            telling = tasks.create_task(postman.run())
            self.operations = operations = Operations(self.store, reign, self.desk, engine.note, tasks)
            try:
                await engine.run()
            finally:
                operations.close()
                for task in (beat, chores, watch, firing, moving, telling):
                    task.cancel()
        if not beat.cancelled():  # another took the term: let it have the lock before we stand again
            raise Deposed(f"term {reign.term} is over")

    async def _beat(self, reign: Reign, engine: Engine) -> None:
        assert self._elector is not None
        await self._elector.keep(reign)
        log.warning("the term is over", extra={"term": reign.term})
        engine.stop()

    async def _watch_locks(self, engine: Engine) -> None:
        """Workers of this machine whose processes are gone are known at once, by their OS locks."""
        locks = self.locks
        while locks is not None:
            try:
                self._look_at_locks(engine, locks)
            except OSError as error:  # no descriptors left, say: leases tell as well, only later
                log.warning("the locks of workers cannot be seen", extra={"why": str(error)})
            await asyncio.sleep(LOOK_AT_LOCKS_SECONDS)

    def _look_at_locks(self, engine: Engine, locks: WorkerLocks) -> None:
        workers = engine.core.world.workers
        for incarnation in [name for name, worker in workers.items() if not worker.connected]:
            if locks.is_free(incarnation):
                engine.bury(incarnation)
        locks.remove_stale(keep=workers)

    # --- being there -----------------------------------------------------------------------------
    async def _write_self_down(self) -> None:
        while True:
            with contextlib.suppress(WorldError):
                await self.store.save_node(self._row())
                if self.engine is not None:
                    await self._look_around()
            self._stirred.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WRITE_DOWN_SECONDS):
                    await self._stirred.wait()

    def stir(self) -> None:
        """A node came or went, or this one leads now: look around at once."""
        self._stirred.set()

    async def _look_around(self) -> None:
        """See which nodes there are, for the workers to know."""
        nodes = [node for node in await self.store.nodes() if node.url and not is_silent(node, wall())]
        self.roster.urls = tuple(sorted(node.url for node in nodes))

    def _row(self) -> NodeRow:
        return NodeRow(self.name, self.incarnation, self.advertised, __version__, self._started_at, wall())

    def _counted(self) -> dict[str, int]:
        """Return what grows while a worker is stopped; at-most-once work that was running fails then."""
        if self.engine is None:
            return {"handed_back": 0, "failed": 0}
        counts = self.engine.core.world.counts
        return {"handed_back": counts.handed_back, "failed": counts.failed}

    def _what_is_left(self) -> dict[str, int]:
        if self.engine is None:
            return {}
        world = self.engine.core.world
        return {"waiting": world.tree.root.waiting, "running": len(world.live)}

    async def _end_tasks(self) -> None:
        """Give the leader's last commit its time, then end what still runs."""
        if self._tasks and self.engine is not None:
            await asyncio.wait(self._tasks[:1], timeout=2.0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
