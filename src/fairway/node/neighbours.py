"""Which nodes there are, of those that wrote themselves down: a row outlives its node by an hour."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.store import NodeRow
from fairway.times import MICRO

#: Each node writes itself down every ten seconds.
SILENT_SECONDS = 30


def is_silent(node: NodeRow, now: int) -> bool:
    """Say whether a node was not seen for so long that it is gone, or cut off from the store."""
    return node.seen_at <= now - SILENT_SECONDS * MICRO


def without_predecessors(nodes: Iterable[NodeRow]) -> list[NodeRow]:
    """Leave out the nodes whose name and address another has that was seen later: these were started anew.

    Not by when they were started: a clock that was set back would hide the one that lives.
    """
    nodes = list(nodes)
    last = {(node.name, node.url): node for node in sorted(nodes, key=lambda node: node.seen_at)}
    return [node for node in nodes if last[node.name, node.url] is node]
