"""Elections by compare-and-set, and forgetting what is old."""

from __future__ import annotations

from collections.abc import Mapping

from fairway.store import Leadership
from fairway.stores.causing import CAUSE_SECONDS, CAUSES_KEPT
from fairway.stores.postgres.connection import Connection
from fairway.stores.submitting import REQUEST_SECONDS
from fairway.stores.tidying import CHANGES_KEPT, CHANGES_KEPT_EACH, EVENT_SECONDS, NODE_SECONDS
from fairway.times import MICRO

Sql = Mapping[str, str]


async def elect(
    connection: Connection,
    sql: Sql,
    seen_term: int,
    holder: str,
    name: str,
    url: str,
    now: int,
    channel: str | None,
) -> Leadership | None:
    """Raise the term if nobody else did since it was seen."""
    if seen_term == 0:
        won = await connection.fetch(sql["first_election"], holder, name, url, now)
    else:
        won = await connection.fetch(sql["next_election"], seen_term, holder, name, url, now)
    if not won:
        return None
    await connection.execute(sql["record_election"])
    await connection.fetch(sql["beat"], seen_term + 1, holder, True, channel)
    return Leadership(*await connection.fetchrow(sql["find_leadership"]))


def fence_of(sql: Sql, term: int, holder: str) -> str:
    """Return the check of the term as text, to be sent with the BEGIN: one round trip less a commit."""
    quoted = "'" + holder.replace("'", "''") + "'"
    return sql["check_term"].replace("$1::bigint", str(int(term))).replace("$2::text", quoted)


async def tidy(
    connection: Connection, sql: Sql, now: int, keep_ended_seconds: float, most: int, event_bytes: int
) -> int:
    """Forget what is old, a bounded number of each kind; return how many rows went."""
    gone = int(await connection.fetchval(sql["tidy_ended"], now - int(keep_ended_seconds * MICRO), most))
    first = await connection.fetchval(sql["first_event_since"], now - EVENT_SECONDS * MICRO, event_bytes)
    for name, values in (
        ("tidy_requests", (now - REQUEST_SECONDS * MICRO, most)),
        ("tidy_claims", (now, most)),
        ("tidy_arrivals", (most,)),
        ("tidy_nodes", (now - NODE_SECONDS * MICRO,)),
        ("tidy_causes", (now - CAUSE_SECONDS * MICRO, CAUSES_KEPT, now, most)),
        ("tidy_changes", (CHANGES_KEPT, CHANGES_KEPT_EACH, most)),
        ("tidy_events", (1 << 62 if first is None else first, most)),
    ):
        gone += int((await connection.execute(sql[name], *values)).rpartition(" ")[2])
    return gone
