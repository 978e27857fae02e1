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
    """Leave out the nodes whose name and address a newer one has: these were started anew."""
    nodes = list(nodes)
    newest: dict[tuple[str, str], int] = {}
    for node in nodes:
        place = (node.name, node.url)
        newest[place] = max(node.started_at, newest.get(place, 0))
    return [node for node in nodes if node.started_at == newest[node.name, node.url]]
