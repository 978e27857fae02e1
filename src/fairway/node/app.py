"""A node put together: store, election, engine, API and, by default, a worker of its own.

This is a composition root: the only place that knows which implementations there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path

from fairway import __version__
from fairway.api.app import build_api
from fairway.api.server import Server
from fairway.clock import wall
from fairway.errors import Deposed, FairwayError, WorldError
from fairway.leadership.elector import Elector
from fairway.leadership.term import Reign
from fairway.node.chores import tidy_forever
from fairway.node.desk import NodeDesk
from fairway.node.engine import Engine
from fairway.node.feed import Feed
from fairway.node.hosting import OwnWorker
from fairway.node.options import NodeOptions
from fairway.store import NodeRow
from fairway.stores.sqlite import SqliteStore
from fairway.stores.sqlite.locks import WorkerLocks, leader_lock
from fairway.worker.app import CannotImport, explain_import

__all__ = ["Node", "NodeOptions", "run_node"]

log = logging.getLogger("fairway.node")

STOP_GRACE_SECONDS = 2.5
STAND_AGAIN_SECONDS = 2.0
PAUSE_MOST_SECONDS = 5.0
LOOK_AT_LOCKS_SECONDS = 0.25


class Node:
    """One fairway process: serves the API, stands for election, leads when elected."""

    def __init__(self, options: NodeOptions) -> None:
        options.check()
        self.options = options
        self.name = options.node_name()
        self.incarnation = secrets.token_hex(8)
        self.path: Path = options.database_path()
        self.store = SqliteStore(self.path)
        self.locks = WorkerLocks(self.path)
        self.feed = Feed(self.store)
        self.desk = NodeDesk(self)
        self.engine: Engine | None = None
        self.url = ""
        self._server: Server | None = None
        self._elector: Elector | None = None
        self._worker: OwnWorker | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._leading = asyncio.Event()
        self._stopping = False
        self._stepping_down = False
        self._started_at = 0
        self._terms = 0

    async def start(self) -> None:
        """Open the store, serve the API, stand for election, start the worker."""
        await self.store.open()
        self._server = Server(build_api(self.desk))
        host, port = await self._server.start(self.options.listen)
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._started_at = wall()
        lock = leader_lock(self.path)
        self._elector = Elector(
            self.store, self.incarnation, self.name, self.url, self.options.leader_ttl, lock
        )
        self._tasks = [
            asyncio.create_task(self._lead_forever(), name="lead"),
            asyncio.create_task(self._write_self_down(), name="node-row"),
        ]
        if self.options.worker:
            self._worker = OwnWorker(self)
            await self._worker.start()

    async def stop(self) -> dict[str, int]:
        """Hand running work back, resign, close; return what is left behind."""
        before = self._handed_back()
        if self._worker is not None:
            await self._worker.stop(STOP_GRACE_SECONDS)
        left = self._what_is_left() | {"handed_back": self._handed_back() - before}
        self._stopping = True
        if self.engine is not None:
            self.engine.stop()
        await self._end_tasks()
        if self._server is not None:
            await self._server.stop(0.5)
        with contextlib.suppress(WorldError):
            await self.store.forget_node(self.incarnation)
        await self.store.close()
        return left

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

    def no_leader_detail(self) -> str:
        """Say where things stand when this node does not lead."""
        return f"node {self.name} does not lead and what was asked needs the leader; try again in a moment"

    def numbers(self) -> dict[str, float]:
        """Return counters and gauges for /metrics."""
        numbers: dict[str, float] = {"leading": float(self.engine is not None), "terms": float(self._terms)}
        if self.engine is not None:
            world = self.engine.core.world
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
        return numbers

    # --- leading ---------------------------------------------------------------------------------
    async def _lead_forever(self) -> None:
        assert self._elector is not None
        pause = 0.0  # grows while the engine fails again and again
        while not self._stopping:
            await asyncio.sleep(pause)
            reign, deposed = await self._elector.win(), False
            try:
                await self._reign(reign)
            except* (Deposed, WorldError) as group:
                log.warning("no longer the leader", extra={"why": str(group.exceptions[0])})
                pause, deposed = 0.0, True
            except* Exception:
                log.exception("the engine failed; it is built anew from the store")
                pause = min(max(2 * pause, 0.1), PAUSE_MOST_SECONDS)
            else:
                pause = 0.0
            finally:
                self.engine, self.feed.live = None, False
                self._leading.clear()
                self.store.stop_listening()
                await self._elector.resign(reign)
            if deposed and not self._stopping:
                await self._elector.wait_a_turn()
            if self._stepping_down:
                self._stepping_down = False
                await asyncio.sleep(STAND_AGAIN_SECONDS)

    async def _reign(self, reign: Reign) -> None:
        assert self._elector is not None
        self._terms += 1
        engine = Engine(self.store, self.feed, reign, self.name, self.options.timers)
        await engine.recover()
        self.store.listen()
        self.engine, self.feed.live = engine, True
        self._leading.set()
        log.info("leading", extra={"term": reign.term})
        async with asyncio.TaskGroup() as tasks:
            beat = tasks.create_task(self._beat(reign, engine))
            chores = tasks.create_task(tidy_forever(self.store))
            watch = tasks.create_task(self._watch_locks(engine))
            try:
                await engine.run()
            finally:
                for task in (beat, chores, watch):
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
        while True:
            try:
                self._look_at_locks(engine)
            except OSError as error:  # no descriptors left, say: leases tell as well, only later
                log.warning("the locks of workers cannot be seen", extra={"why": str(error)})
            await asyncio.sleep(LOOK_AT_LOCKS_SECONDS)

    def _look_at_locks(self, engine: Engine) -> None:
        workers = engine.core.world.workers
        for incarnation in [name for name, worker in workers.items() if not worker.connected]:
            if self.locks.is_free(incarnation):
                engine.bury(incarnation)
        self.locks.remove_stale(keep=workers)

    # --- being there -----------------------------------------------------------------------------
    async def _write_self_down(self) -> None:
        while True:
            row = NodeRow(self.name, self.incarnation, self.url, __version__, self._started_at, wall())
            with contextlib.suppress(WorldError):
                await self.store.save_node(row)
            await asyncio.sleep(10.0)

    def _handed_back(self) -> int:
        return 0 if self.engine is None else self.engine.core.world.counts.handed_back

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


def run_node(options: NodeOptions, announce: Callable[[str], None]) -> int:
    """Run a node until it is told to stop; say what people should know. Return the exit code.

    Raises a FairwayError with one clear message if the node cannot start.
    """
    calm_collector()
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.run(_run(options, announce))
    return uvloop.run(_run(options, announce))


def calm_collector() -> None:
    """Let Python look for cycles less often, and never among what start-up made.

    A busy leader makes thousands of small tuples a commit and no cycles; looking for some at every 700th
    cost 15 % of the drain rate.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _run(options: NodeOptions, announce: Callable[[str], None]) -> int:
    stop = _stop_on_signals(announce)
    node = Node(options)
    try:
        if not await _start(node, stop):
            return 0
    except CannotImport as error:
        await node.stop()
        raise FairwayError(explain_import(options.apps, error)) from None
    for line in _greeting(node):
        announce(line)
    failure = await _until_stopped_or_failed(node, stop)
    announce(f"stopping: {failure}" if failure else "stopping: running jobs are handed back")
    left = await node.stop()
    announce(_farewell(left))
    return 1 if failure else 0


def _stop_on_signals(announce: Callable[[str], None]) -> asyncio.Event:
    """Return an event that the first signal sets; a second one ends the process at once."""
    stop = asyncio.Event()

    def take() -> None:
        if stop.is_set():
            announce("stopped at once; running jobs count as lost and go on at the next start")
            os._exit(130)  # the guardian kills what the worker started
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, take)
    return stop


async def _start(node: Node, stop: asyncio.Event) -> bool:
    """Start a node, unless it is told to stop before it is up."""
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        await starting
        return True
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await node.stop()
    return False


async def _until_stopped_or_failed(node: Node, stop: asyncio.Event) -> str | None:
    """Wait for a signal; return what went wrong if the node cannot go on."""
    failing = asyncio.ensure_future(node.until_failed())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((failing, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if failing.done():
        return failing.result()
    failing.cancel()
    return None


def _greeting(node: Node) -> list[str]:
    return [
        f"fairway {__version__}, node {node.name}",
        f"  api      {node.url}",
        f"  database {node.path}",
        "",
        "try, in another terminal:",
        "  fairway submit --wait -- echo hello",
        "  fairway jobs list",
    ]


def _farewell(left: dict[str, int]) -> str:
    handed_back = left.get("handed_back", 0)
    if "waiting" not in left:  # it did not lead: only the leader knows what is left
        return "stopped; another node leads"
    if not left["waiting"] and not left["running"]:
        return "stopped; nothing is left"
    parts = [f"{left['waiting']} waiting"]
    if handed_back:
        parts.append(f"{handed_back} of them handed back by this node's worker")
    if left["running"]:
        parts.append(f"{left['running']} running on other workers")
    return f"stopped; left: {', '.join(parts)}. Nothing is lost: they go on at the next start"
