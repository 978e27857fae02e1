"""Writes docs/reference/http.md from the route table: `python -m fairway.api.reference`.

A test keeps the page and the table alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fairway.api.app import operations
from fairway.api.operation import Operation
from fairway.api.tally import Tally

INTRODUCTION = """\
# The HTTP API

Written by `python -m fairway.api.reference`; the same table serves `/v1/openapi.json`, which has every field.

Bodies are JSON (`Content-Type: application/json`, UTF-8, not compressed); a call without one in the table
takes none, or `{}`, and is refused with any other. Times are RFC 3339 with a zone; durations are `90s`, `5m`,
`2h`, `1d` or seconds. `q` is [the search grammar](query.md).

Every error is `application/problem+json` with `type`, `title`, `status`, a stable `code`, `detail` and, where
it helps, `field`. With `503` and `429` comes `Retry-After`: the same call may succeed a moment later. A
submit that got no answer may be sent again with the same `Idempotency-Key`: it gives the same jobs for 24
hours.

A call on which two leaders ended by an internal error is refused by the next with `422` and `poison_call`;
`detail` names the call and the error. No other call is: one that differs in more than ids, times and who
sends it is another. It is forgotten after 24 hours, or with another version of Fairway. Where an answer has
many parts and one that only tells people something fails (why a job waits, its position, when it will start,
the numbers of a queue), that part is `null`; an answer that is nothing else (`/-/next`, `/v1/demand`) is
`500` and `no_advice`. `GET /v1/cluster/troubles` tells of both.

A job may wait for others (`after`, `if_failed`); in a bulk `"#3"` names the job at that index of the call:
see [jobs after others](../guide/dependencies.md).

Every node serves every call. What only the leader knows or may change is passed on to its node; while no
leader is reached, that is answered with `503` and `no_leader`.

A call must name this server as its `Host`; one sent by a web page must come from a page of this server. A
token goes into `Authorization: Bearer …`, never into the URL; where nodes have one (`FAIRWAY_TOKEN`), every
call needs it but `/healthz` and `/readyz`.

Where one process hosts several schedulers, the name of one stands before every path: `/night/v1/jobs`. At the
root are `/healthz`, `/readyz` and `/metrics` of all of them together.
"""

STREAMS = """\
## Streams

`GET /v1/events` and `GET /v1/jobs/{id}/log?follow=true` answer with server-sent events. An event's `id` is
`number.index`; send the last one seen as `Last-Event-ID` (or `after=`) to go on behind it. If events behind
it are no longer kept, the first one sent is of kind `gap`. A comment line comes at least every 15 seconds.
[All kinds of events](events.md).

## Workers

`/v1/worker` is a WebSocket: see [the worker protocol](protocol.md).
"""


def page() -> str:
    """Return the page."""
    table = "\n".join(_rows(operations(Tally())))
    return (
        f"{INTRODUCTION}\n## Calls\n\n| call | does | body | query |\n|---|---|---|---|\n{table}\n\n{STREAMS}"
    )


def _rows(table: list[Operation]) -> Iterator[str]:
    for operation in table:
        path = re.sub(r":\w+}", "}", operation.path)
        body = "" if operation.body is None else f"`{operation.body.__name__}`"
        query = ", ".join(f"`{name}`" for name in operation.query.__struct_fields__)
        yield f"| `{operation.method} {path}` | {operation.summary} | {body} | {query} |"


if __name__ == "__main__":
    print(page(), end="")
