"""Failures by cause: what failed alike is looked at, muted and forgotten together."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from fairway.api.answers import Answer, answer_json
from fairway.api.asker import NAMES_ITSELF, asker
from fairway.api.operation import Call, Operation
from fairway.clock import wall
from fairway.errors import InvalidRequest, NotFound
from fairway.query import Query, Term, matches_failure, parse_for_failures
from fairway.shapes import Failure, Failures, Forgotten
from fairway.store import CauseRow, Store
from fairway.stores.causing import FOREVER
from fairway.stores.paging import MOST_COUNTED
from fairway.times import MICRO, parse_duration
from fairway.views import failure_view

SAMPLES = 5
#: Jobs that one call forgets.
MOST_FORGOTTEN = 5000

_cursor = re.compile(r"(\d{1,18})\.([0-9a-f]{12})", re.ASCII)
_id = re.compile(r"[0-9a-f]{12}")


class FailuresQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which groups, how many, behind which. Muted ones are shown only where `q` says `muted:true`."""

    q: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: str | None = None


class FailureChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Mute it: for good, for a while (`2h`), or no more."""

    muted: bool | str


async def list_failures(call: Call) -> Answer:
    """Show groups, those seen last first."""
    asked: FailuresQuery = call.query
    query, now = parse_for_failures(asked.q), wall()
    found = await _find(call.desk.store, query, now, asked.limit + 1, _before(asked.cursor))
    page, more = found[: asked.limit], len(found) > asked.limit
    shown = [await _shown(call.desk.store, cause, now) for cause in page]
    return answer_json({"failures": shown, "next": f"{page[-1].last_at}.{page[-1].id}" if more else None})


async def _find(
    store: Store, query: Query, now: int, most: int, before: tuple[int, str] | None
) -> list[CauseRow]:
    """Look through the causes, a bounded number of rows, until there are enough that match."""
    says_muted = any(term.field == "muted" for term in query.terms)
    found: list[CauseRow] = []
    while len(found) < most and (rows := await store.causes(before=before)):
        shown = [row for row in rows if says_muted or not row.is_muted(now)]
        found += [row for row in shown if matches_failure(query, _texts(row, now))]
        before = rows[-1].last_at, rows[-1].id
    return found[:most]


def _texts(row: CauseRow, now: int) -> dict[str, str]:
    muted = "true" if row.is_muted(now) else "false"
    texts = {"id": row.id, "task": row.task, "type": row.type, "frame": row.frame}
    return texts | {"message": row.message, "muted": muted}


async def show_failure(call: Call) -> Answer:
    """Show one group."""
    return answer_json(await _shown(call.desk.store, await _get(call), wall()))


async def patch_failure(call: Call) -> Answer:
    """Mute a group, or no more."""
    asked: FailureChanges = call.body
    cause, now = await _get(call), wall()
    if not await call.desk.mute_failure(cause, _until(asked.muted, now), asker(call)):
        raise _unknown(cause.id)
    return answer_json(await _shown(call.desk.store, await _get(call), now))


async def delete_failure(call: Call) -> Answer:
    """Forget a group and its failed jobs, so many at a time."""
    cause, store = await _get(call), call.desk.store
    deleted = await call.desk.forget_failure(cause, MOST_FORGOTTEN, asker(call))
    left = await store.count(_jobs_of(cause.id), wall())
    return answer_json({"deleted": deleted, "left": left if left <= MOST_COUNTED else None})


async def _get(call: Call) -> CauseRow:
    name = call.path["id"]
    found = await call.desk.store.find_cause(name) if _id.fullmatch(name) else None
    if found is None:
        raise _unknown(name)
    return found


def _unknown(name: str) -> NotFound:
    return NotFound(f"there are no failures {name[:40]!r}; see GET /v1/failures", code="no_such_failure")


async def _shown(store: Store, cause: CauseRow, now: int) -> Failure:
    return failure_view(cause, await store.search(_jobs_of(cause.id), now=now, limit=SAMPLES), now)


def _jobs_of(cause: str) -> Query:
    return Query((Term("cause", "=", (cause,)),))


def _until(muted: bool | str, now: int) -> int | None:
    if isinstance(muted, bool):
        return FOREVER if muted else None
    return now + round(parse_duration(muted, "muted") * MICRO)


def _before(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    found = _cursor.fullmatch(cursor)
    if found is None:
        raise InvalidRequest("this cursor was not given by this call", code="bad_cursor", field="cursor")
    return int(found[1]), found[2]


OPERATIONS = [
    Operation(
        "GET", "/v1/failures", list_failures, "Show failures by cause, those seen last first",
        answer=Failures, query=FailuresQuery,
    ),
    Operation(
        "GET", "/v1/failures/{id}", show_failure, "Show what failed alike", answer=Failure, errors=(404,)
    ),
    Operation(
        "PATCH", "/v1/failures/{id}", patch_failure, "Mute a cause, for good or for a while, or no more",
        answer=Failure, body=FailureChanges, errors=(404,), leader=True, headers=NAMES_ITSELF,
    ),
    Operation(
        "DELETE", "/v1/failures/{id}", delete_failure,
        f"Forget a cause and its failed jobs, {MOST_FORGOTTEN} with each call",
        answer=Forgotten, errors=(404,), leader=True, headers=NAMES_ITSELF,
    ),
]  # fmt: skip
