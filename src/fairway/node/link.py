"""A node's link to the leader: who leads, and whether its node is reached from here.

A node that does not lead keeps one call open to the leader's, which sends its pulse there several times a
TTL for as long as it trusts itself. While the pulse is heard, the store need not be asked for the leader's
beat more than twice a TTL, so that an idle cluster asks its database next to nothing; once it falls silent or
the connection breaks, the beat is read at once and then twenty times a TTL. The link decides nothing: who
leads is written in the store, and a node without a link works through the store alone.

Owned by one node; told by its elector what the store says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from urllib.parse import urlencode, urlsplit

from fairway.client.async_http import AsyncConnections
from fairway.errors import CallerError, FairwayError, NoLeader
from fairway.store import Leadership

log = logging.getLogger("fairway.node")

OPEN_SECONDS = 3.0
#: The leader's node does not take us for one of its own.
REFUSES_US = frozenset({401, 403, 421})


class Link:
    """This node's view of the leader, if that is another node."""

    def __init__(
        self, incarnation: str, ttl: float, *, stands: bool = True, token: str | None = None
    ) -> None:
        self.leader: Leadership | None = None
        self.up = False
        self.here = False  # this node leads itself
        self._incarnation, self._stands, self._token = incarnation, stands, token
        self._ttl = ttl
        self._refusal = ""  # why the leader's node does not let us in
        self._warned = ""  # what of this was said in the log
        self._news = asyncio.Event()
        self._lost = asyncio.Event()
        self._beat: tuple[int, int] | None = None  # as it was seen last
        self._connections: tuple[str, AsyncConnections] | None = None

    # --- what is known -----------------------------------------------------------------------------
    def see(self, seen: Leadership | None) -> None:
        """Take in what the store says."""
        other = seen if seen and seen.url and seen.holder not in ("", self._incarnation) else None
        if not _same(other, self.leader):
            self.leader, self.up, self._refusal = other, False, ""
            self._tell()

    def lead_here(self, here: bool) -> None:
        """This node has begun to lead, or ended."""
        self.here = here
        self.leader, self.up, self._refusal = None, False, ""
        self._tell()

    async def pause(self, seen: Leadership | None) -> None:
        """Wait until the store should be asked again: the elector's pace.

        The beat counts from when we saw it: if we looked every two seconds, a leader that freezes right after
        one would be replaced two seconds late. A frozen leader keeps its connections, but its beat stands
        still, which else changes from look to look.
        """
        self.see(seen)
        beat = (seen.term, seen.beat) if seen is not None else None
        stands_still, self._beat = beat == self._beat, beat
        if not self.up or stands_still:
            await asyncio.sleep(self._ttl / 20)
            return
        self._lost.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._ttl / 4):
                await self._lost.wait()

    async def until_up(self, seconds: float) -> Leadership:
        """Return the leader once its node is reached; NoLeader when the time is over, or it is us."""
        await self._until(lambda: self.up or self.here, seconds)
        if self.up and self.leader is not None:
            return self.leader
        raise NoLeader(self.why_not())

    async def until_best(self, seconds: float) -> Leadership | None:
        """Return the leader once its node is reached; if that takes too long, as it is known; None: it is us.

        A leader that froze is known until the next one is elected: whoever goes there waits in vain.
        """
        await self._until(lambda: self.up or self.here, seconds)
        return await self.until_known(0.0)

    async def until_known(self, seconds: float) -> Leadership | None:
        """Return the leader once there is one, reached or not; None if it is us."""
        await self._until(lambda: self.leader is not None or self.here, seconds)
        if self.leader is None and not self.here:
            raise NoLeader(self.why_not())
        return None if self.here else self.leader

    async def until_other_than(self, leader: Leadership) -> None:
        """Return when somebody else leads, or nobody does."""
        while _same(self.leader, leader):
            await self._news.wait()

    def why_not(self) -> str:
        """Say why the leader cannot be asked from here."""
        if self.leader is None:
            return "nobody leads just now; try again in a moment"
        unreached = f"this node does not reach the leader, {self.leader.name} at {self.leader.url}"
        return self._refusal or unreached

    # --- keeping it --------------------------------------------------------------------------------
    async def keep(self) -> None:
        """Hold a call open to whoever leads, for ever."""
        while True:
            leader = self.leader
            if leader is None:
                await self._news.wait()
                continue
            try:
                await self._listen(leader)
            except CallerError as error:
                self._note_refusal(leader, error.status)
            except (OSError, ValueError, FairwayError, StopAsyncIteration):
                self._refusal = ""
            if _same(self.leader, leader):
                self._set_up(False)
                await asyncio.sleep(self._ttl / 20)
            else:
                self.close()  # those who still wait for the old leader hear that it is over

    async def _listen(self, leader: Leadership) -> None:
        """Hear the leader's pulse until it stops or somebody else leads."""
        stands = "true" if self._stands else "false"
        query = urlencode({"node": self._incarnation, "stands": stands, "term": leader.term})
        silence = self._ttl / 8
        connections = self.connections(leader)
        target = f"{prefix_of(leader)}/v1/cluster/pulse?{query}"
        stream = connections.stream(target, bearer(self._token), silence)
        patience = OPEN_SECONDS
        async with aclosing(stream) as pulse:  # type: ignore[type-var]
            while _same(self.leader, leader):
                async with asyncio.timeout(patience):
                    await anext(pulse)
                patience = silence
                if _same(self.leader, leader):
                    self._set_up(True)

    def connections(self, leader: Leadership) -> AsyncConnections:
        """Return the connections to the leader's node, kept until another one leads."""
        if self._connections is None or self._connections[0] != leader.url:
            self.close()
            self._connections = leader.url, AsyncConnections(urlsplit(leader.url))
        return self._connections[1]

    def close(self) -> None:
        """Close what is open; it can be used again."""
        if self._connections is not None:
            (_, connections), self._connections = self._connections, None
            connections.cut()

    def _note_refusal(self, leader: Leadership, status: int) -> None:
        """Remember that the leader's node does not take us for one of its own; said once."""
        if not _same(self.leader, leader):
            return
        self._refusal = refusal(leader, status) if status in REFUSES_US else ""
        if self._refusal and self._refusal != self._warned:
            self._warned = self._refusal
            log.warning("%s", self._refusal)

    def _set_up(self, up: bool) -> None:
        if up:
            self._refusal = self._warned = ""
        if up != self.up:
            self.up = up
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
        if not self.up:
            self._lost.set()

    async def _until(self, fact: Callable[[], bool], seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not fact():
                    await self._news.wait()


def refusal(leader: Leadership, status: int) -> str:
    """Say why the leader's node refuses this one, and what to do; the caller has done nothing wrong."""
    who = f"the leader's node, {leader.name} at {leader.url},"
    if status in (401, 403):
        return f"{who} does not accept this node's token: set the same FAIRWAY_TOKEN on all nodes"
    return f"{who} refuses this node ({status}): it does not answer to the host in that address"


def bearer(token: str | None) -> dict[str, str]:
    """Return the header that carries the cluster's token."""
    return {"authorization": f"Bearer {token}"} if token else {}


def prefix_of(leader: Leadership) -> str:
    """Return what stands before every path at the leader's node: it may host several schedulers."""
    return urlsplit(leader.url).path.rstrip("/")


def _same(one: Leadership | None, other: Leadership | None) -> bool:
    """Say whether both are the same reign; the beat does not matter."""
    if one is None or other is None:
        return one is other
    return (one.term, one.holder) == (other.term, other.holder)
