"""Muting and forgetting of what failed alike, as long as this node leads: fenced by its term, and told.

Written first and told right after: with a leader that dies in that moment the event is lost, the deed is not.
"""

from __future__ import annotations

from typing import Any

from fairway.clock import wall
from fairway.core.plan import News
from fairway.errors import Deposed, NoLeader
from fairway.node.engine import Engine
from fairway.store import CauseRow, Store
from fairway.stores.causing import FOREVER
from fairway.times import show_time


async def mute(store: Store, engine: Engine, cause: CauseRow, until: int | None, who: str) -> bool:
    """Mute a cause until a time, None: no more; False if it is gone."""
    reign = engine.reign
    try:
        found = await store.mute_cause(reign.term, reign.holder, cause.id, until)
    except Deposed as error:
        raise NoLeader(str(error)) from None
    if found:
        detail: dict[str, Any] = {"cause": cause.id, "muted": until is not None, "by": who}
        if until is not None and until != FOREVER:
            detail["until"] = show_time(until)
        _tell(engine, "failure.muted", cause, detail)
    return found


async def forget(store: Store, engine: Engine, cause: CauseRow, most: int, who: str) -> int:
    """Forget so many failed jobs of a cause, and the cause with the last; return how many went."""
    reign = engine.reign
    try:
        gone = await store.forget_cause(reign.term, reign.holder, cause.id, most)
    except Deposed as error:
        raise NoLeader(str(error)) from None
    _tell(engine, "failure.deleted", cause, {"cause": cause.id, "jobs": gone, "by": who})
    return gone


def _tell(engine: Engine, kind: str, cause: CauseRow, detail: dict[str, Any]) -> None:
    engine.note([News(kind, wall(), task=cause.task or None, detail=detail)])
