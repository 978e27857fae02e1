"""A node as a program: signals, what it says to people, the exit code."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fairway import __version__
from fairway.errors import FairwayError
from fairway.journal import write_to_stderr
from fairway.node.app import Node
from fairway.node.options import NodeOptions
from fairway.node.schedulers import Schedulers
from fairway.plugins import load_disciplines
from fairway.worker.app import CannotImport, CannotStart, explain_import


def run_node(options: NodeOptions, announce: Callable[[str], None], schedulers: Sequence[str] = ()) -> int:
    """Run a node until it is told to stop; say what people should know. Return the exit code.

    Several *schedulers* are hosted side by side. Raises a FairwayError with one clear message if it cannot
    start.
    """
    write_to_stderr()
    calm_collector()
    load_disciplines()
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.run(_run(options, schedulers, announce))
    return uvloop.run(_run(options, schedulers, announce))


def calm_collector() -> None:
    """Let Python look for cycles less often, and never among what start-up made.

    A busy leader makes thousands of small tuples a commit and no cycles; looking for some at every 700th
    cost 15 % of the drain rate.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _run(options: NodeOptions, names: Sequence[str], announce: Callable[[str], None]) -> int:
    hosted = Schedulers(options, names)
    stop = _stop_on_signals(hosted, announce)
    try:
        if not await _start(hosted, stop):
            return 0
    except (CannotImport, CannotStart) as error:
        await hosted.stop()
        raise FairwayError(explain_import(options.apps, error)) from None
    except (FairwayError, OSError):  # the database or the address: what it says is all there is to say
        await hosted.stop()
        raise
    for line in _greeting(hosted.nodes):
        announce(line)
    failure = await _until_stopped_or_failed(hosted, stop)
    announce(f"stopping: {failure}" if failure else "stopping: running jobs are handed back")
    for node, left in zip(hosted.nodes, await hosted.stop(), strict=True):
        announce(_named(node) + _farewell(left))
    return 1 if failure else 0


def _stop_on_signals(hosted: Schedulers, announce: Callable[[str], None]) -> asyncio.Event:
    """Return an event that the first signal sets; a second one hands back at once, a third ends at once."""
    stop, hurried = asyncio.Event(), asyncio.Event()

    def take() -> None:
        if hurried.is_set():
            announce(
                "stopped at once; running jobs are lost: all but at-most-once ones go on at the next start"
            )
            os._exit(130)  # the guardian kills what the worker started
        if stop.is_set():
            hurried.set()
            announce("stopping at once: running jobs are handed back now")
            hosted.hurry()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, take)
    return stop


async def _start(hosted: Schedulers, stop: asyncio.Event) -> bool:
    """Start the nodes, unless told to stop before they are up."""
    starting = asyncio.ensure_future(hosted.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        await starting
        return True
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await hosted.stop()
    return False


async def _until_stopped_or_failed(hosted: Schedulers, stop: asyncio.Event) -> str | None:
    """Wait for a signal; return what went wrong if a node cannot go on."""
    failing = asyncio.ensure_future(hosted.until_failed())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((failing, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if failing.done():
        return failing.result()
    failing.cancel()
    return None


def _greeting(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        yield f"fairway {__version__}, {_named(node)}node {node.name}"
        yield f"  api      {node.url}"
        yield f"  database {node.path}"
        yield "" if node.engine is not None else f"  stands by: {node.who_leads()}\n"
    call = _how_to_call(nodes[0].url)
    yield "try, in another terminal:"
    yield f"  {call} submit --wait -- echo hello"
    yield f"  {call} jobs list"


def _named(node: Node) -> str:
    """Return what tells this scheduler from others of its process, if there are any."""
    return f"scheduler {node.options.scheduler}: " if node.prefix else ""


def _how_to_call(url: str) -> str:
    """Return what to type to reach this node: the program as found, and the address if not the usual."""
    program = Path(sys.argv[0])
    name = program.name if shutil.which(program.name) else str(program)
    if name.endswith("__main__.py"):
        name = "python -m fairway"
    return name if url == "http://127.0.0.1:8899" else f"{name} --url {url}"


def _farewell(left: dict[str, int]) -> str:
    handed_back = left.get("handed_back", 0)
    if "waiting" not in left:  # it did not lead: only the leader knows what is left
        return "stopped; another node leads"
    failed = left.get("failed", 0)
    if not left["waiting"] and not left["running"]:
        return f"stopped; nothing is left{f', {failed} failed meanwhile' if failed else ''}"
    parts = [f"{left['waiting']} waiting"]
    if handed_back:
        parts.append(f"{handed_back} of them handed back by this node's worker")
    if left["running"]:
        parts.append(f"{left['running']} running on other workers")
    lost = f"{failed} failed meanwhile; the others go on" if failed else "Nothing is lost: they go on"
    return f"stopped; left: {', '.join(parts)}. {lost} at the next start"
