"""What one process hosts: one scheduler at the root of its listener, or several, each under its own prefix.

Each scheduler has a node of its own: its store, its election, its engine and its worker. They share nothing
but the process and the listener, so one may lead here while another only stands by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fairway.api.front import ROOT_NAMES, Front
from fairway.errors import InvalidRequest
from fairway.node.app import Node
from fairway.node.options import NodeOptions
from fairway.places import check_scheduler

FRONT_GRACE_SECONDS = 0.5


class Schedulers:
    """The nodes of one process, started and stopped together."""

    def __init__(self, options: NodeOptions, names: Sequence[str] = ()) -> None:
        check_names(names)
        self._listen = options.listen
        self._front: Front | None = None
        if len(names) < 2:
            self.nodes = [Node(replace(options, scheduler=names[0]) if names else options)]
            return
        self._front = front = Front(names, options.token, ("*",) if options.token else ())
        self.nodes = [
            Node(replace(options, scheduler=name), partial(front.door, name), f"/{name}") for name in names
        ]

    async def start(self) -> None:
        """Start all of them; raises what the first one that cannot start says."""
        if self._front is not None:
            await self._front.start(self._listen)
        ends = await asyncio.gather(*(node.start() for node in self.nodes), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end

    async def stop(self) -> list[dict[str, int]]:
        """Stop all of them; return what each leaves behind."""
        try:
            return await asyncio.gather(*(node.stop() for node in self.nodes))
        finally:
            if self._front is not None:
                await self._front.stop(FRONT_GRACE_SECONDS)

    def hurry(self) -> None:
        """Let all hand back what runs now."""
        for node in self.nodes:
            node.hurry()

    async def until_failed(self) -> str:
        """Return why one of them can no longer do its work, should that ever happen."""
        waiting = [asyncio.ensure_future(node.until_failed()) for node in self.nodes]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for one in waiting:
                one.cancel()


def check_names(names: Sequence[str]) -> None:
    """Refuse what names no scheduler, and names that cannot stand side by side."""
    for name in names:
        check_scheduler(name)
    if len(set(names)) != len(names):
        raise InvalidRequest("a scheduler is named twice", field="scheduler")
    taken = ROOT_NAMES.intersection(names)
    if taken and len(names) > 1:
        raise InvalidRequest(
            f"a scheduler named {min(taken)} cannot share a listener, where that path has another meaning",
            field="scheduler",
        )
