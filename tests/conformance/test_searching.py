"""Searches mean the same in every store: each case is a query and the jobs it finds."""

from __future__ import annotations

import base64
import json

import asyncpg
import pytest

from fairway.core.plan import Begin
from fairway.errors import Busy, InvalidRequest
from fairway.ids import show
from fairway.query import Query, Term
from fairway.store import Store
from fairway.stores.postgres import PostgresStore
from fairway.stores.postgres import search as postgres_search
from tests.conformance.stage import NOW, SECOND, Stage, new_job, where

ERROR = b'{"reason":"max_attempts","type":"ValueError","message":"Bad address [x]","traceback":"secret"}'


@pytest.fixture
async def crowd(stage: Stage) -> Store:
    """Nine jobs that differ in everything one can search by."""
    await stage.submit(
        new_job(1, queue="acme/emails", flow="u1", priority=5, payload=payload("a@x.org", to="b@x.org")),
        new_job(2, queue="acme/emails/eu", flow="u2", priority=-1, tags=("gpu", "eu-*")),
        new_job(3, queue="acme", task="", adapter="command", created_at=NOW - 3600 * SECOND),
        new_job(
            4, queue="acmeX/emails", run_at=NOW + 60 * SECOND, payload=payload(1.5, True, None, deep=[1, {}])
        ),
        new_job(5, task="app.other", flow="U[1]*", payload=payload("Grüße")),
        new_job(6, priority=9),
        new_job(7, payload=payload("needle %_ in")),
        new_job(8),
        new_job(9, created_at=NOW - 10 * SECOND),
    )
    await stage.begin(5, incarnation="w2-a", worker="w2")
    await stage.begin(6, 7, 8, 9)
    await stage.end(6, outcome=b'"max_attempts"', ended_at=NOW + 5)
    await stage.end(7, state="failed", outcome=ERROR, tries=3, ended_at=NOW + 4)
    await stage.end(8, state="cancelled", outcome=b'{"reason":"cancelled"}', ended_at=NOW + 3)
    await stage.end(9, state="unknown", outcome=None, ended_at=NOW + 6)
    return stage.store


def payload(*args: object, **kwargs: object) -> bytes:
    return json.dumps({"args": args, "kwargs": kwargs}, ensure_ascii=False, separators=(",", ":")).encode()


CASES = [
    ("state", "queued", [1, 2, 3]),
    ("state", "scheduled", [4]),
    ("state", "waiting", [1, 2, 3, 4]),
    ("state", "running", [5]),
    ("state", "ended", [6, 7, 8, 9]),
    ("state", "failed", [7]),
    ("state", "succeeded,running", [5, 6]),
    ("state", "failed,unknown", [7, 9]),
    ("state", "blocked", []),
    ("queue", "acme", [3]),
    ("queue", "acme/*", [1, 2, 5, 6, 7, 8, 9]),
    ("queue", "*emails", [1, 4, 5, 6, 7, 8, 9]),
    ("queue", "acme?/emails", [4]),
    ("queue", "ACME", []),
    ("task", "app.*", [1, 2, 4, 5, 6, 7, 8, 9]),
    ("task", "app.other", [5]),
    ("adapter", "command", [3]),
    ("flow", "u1,u2", [1, 2]),
    ("flow", "U[1]*", [5]),
    ("flow", "u*", [1, 2]),
    ("flow", "[u]1", []),
    ("tag", "gpu", [2]),
    ("tag", "eu*", [2]),
    ("worker", "w2", [5]),
    ("worker", "w?", [5, 6, 7, 8, 9]),
    ("error", "timeout,valueerror", [7]),
    ("error", "max_attempts", [7]),
    ("error", "bad address [x]", [7]),
    ("error", "*[x]", [7]),
    ("error", "secret", []),
    ("error", "cancelled", [8]),
    ("id", f"{show(3)},{show(6)},junk", [3, 6]),
    ("id", "junk", []),
    ("args.0", "a@x.org", [1]),
    ("args.0", "*@x.org", [1]),
    ("args.0", "1.5", [4]),
    ("args.1", "true", [4]),
    ("args.2", "null", [4]),
    ("args.7", "*", []),
    ("args.to", "*@x.org", [1]),
    ("kwargs.to", "b@x.org", [1]),
    ("kwargs.deep", "[1,{}]", [4]),
    ("kwargs.0", "*", []),
    ("", "NEEDLE", [7]),
    ("", "%_", [7]),
    ("", "Grüße", [5]),
    ("", "GRüßE", [5]),
    ("", "GRÜßE", []),
    ("", "bad ADDRESS", [7]),
    ("", "app.other", [5]),
    ("", "secret", []),
]


async def found(store: Store, query: Query) -> list[int]:
    page = await store.search(query, now=NOW, limit=100, sort="created_at")
    assert page.total == len(page.jobs) == await store.count(query, NOW)
    return [job.id for job in page.jobs]


@pytest.mark.parametrize(("field", "values", "expected"), CASES)
async def test_a_term_finds_what_it_says_and_negated_everything_else(
    crowd: Store, field: str, values: str, expected: list[int]
) -> None:
    texts = (values,) if field in ("", "kwargs.deep") else tuple(values.split(","))
    assert await found(crowd, where(field, *texts)) == expected
    others = [job for job in range(1, 10) if job not in expected]
    assert await found(crowd, where(field, *texts, negated=True)) == others


@pytest.mark.parametrize(
    ("field", "op", "value", "expected"),
    [
        ("priority", ">", "0", [1, 6]),
        ("priority", ">=", "9", [6]),
        ("priority", "<", "0", [2]),
        ("priority", "<=", "-1", [2]),
        ("priority", "=", "5", [1]),
        ("attempt", ">=", "1", [5, 6, 7, 8, 9]),
        ("tries", ">", "2", [7]),
        ("age", ">", "10m", [3]),
        ("age", ">=", "10s", [3, 9]),
        ("age", ">", "10s", [3]),
        ("age", "<=", "5s", [1, 2, 4, 5, 6, 7, 8]),
        ("age", "=", "1h", [3]),
    ],
)
async def test_numbers_and_ages_compare(
    crowd: Store, field: str, op: str, value: str, expected: list[int]
) -> None:
    assert await found(crowd, where(field, value, op=op)) == expected


async def test_terms_are_joined_by_and(crowd: Store) -> None:
    query = Query(
        (Term("queue", "=", ("acme/*",)), Term("state", "=", ("ended",)), Term("error", "=", ("*",), True))
    )
    assert await found(crowd, query) == [6, 9]
    assert await found(crowd, Query()) == list(range(1, 10))


async def test_found_jobs_show_everything(crowd: Store) -> None:
    for job in (await crowd.search(Query(), now=NOW)).jobs:
        stored = await crowd.find_job(job.id)
        assert stored is not None
        stored.state = job.state  # one is by the search's time, the other by the store's
        assert job == stored


async def test_the_states_that_wait_follow_the_time_of_the_search(crowd: Store) -> None:
    page = await crowd.search(where("state", "queued"), now=NOW + 61 * SECOND)
    assert [job.id for job in page.jobs] == [4, 3, 2, 1]


ORDERS = {
    "created_at": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "run_at": [1, 2, 3, 5, 6, 7, 8, 9, 4],
    "priority": [2, 3, 4, 5, 7, 8, 9, 1, 6],
    "started_at": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "ended_at": [1, 2, 3, 4, 5, 8, 7, 6, 9],
    "queue": [3, 1, 5, 6, 7, 8, 9, 2, 4],
}


@pytest.mark.parametrize("limit", [1, 2, 4, 9])
@pytest.mark.parametrize("sign", ["", "+", "-"])
@pytest.mark.parametrize("column", ORDERS)
async def test_pages_follow_each_other_without_gap_or_repeat(
    crowd: Store, column: str, sign: str, limit: int
) -> None:
    seen: list[int] = []
    cursor: str | None = None
    for _ in range(10):
        page = await crowd.search(Query(), now=NOW, sort=sign + column, limit=limit, cursor=cursor)
        assert page.total == 9
        seen += [job.id for job in page.jobs]
        if (cursor := page.next) is None:
            break
    assert seen == (ORDERS[column][::-1] if sign == "-" else ORDERS[column])


async def test_a_job_that_came_between_two_pages_moves_nothing(stage: Stage) -> None:
    await stage.submit(*(new_job(number) for number in (10, 20, 30)))
    first = await stage.store.search(Query(), now=NOW, limit=2)
    await stage.submit(new_job(25), new_job(40))
    rest = await stage.store.search(Query(), now=NOW, limit=2, cursor=first.next)
    assert [job.id for job in (*first.jobs, *rest.jobs)] == [30, 20, 10]


async def test_more_than_ten_thousand_are_not_counted(stage: Stage) -> None:
    await stage.submit(*(new_job(number) for number in range(1, 10_001)))
    assert (await stage.store.search(Query(), now=NOW, limit=1)).total == 10_000
    await stage.run(*(new_job(20_001 + number) for number in range(2)))
    assert (await stage.store.search(Query(), now=NOW, limit=1)).total is None
    assert await stage.store.count(Query(), NOW) == 10_001


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "junk", "!!!!", "ö", "A" * 5000, encoded({}), encoded("x"), encoded(["-created_at", 1])),
        *(encoded(["-created_at", key, 1]) for key in ("a", None, 1.5, True, 1 << 64)),
        *(encoded(["-created_at", 1, job]) for job in (-1, 1 << 63, "x", None)),
        *(encoded([sort, 1, 1]) for sort in ("created_at", "-priority", "", None)),
    ],
)
async def test_a_junk_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await store.search(Query(), now=NOW, cursor=cursor)
    assert caught.value.code == "bad_cursor"


@pytest.mark.parametrize("key", ["a\0b", "\ud800", 1, None])
async def test_a_cursor_of_text_is_one_a_database_could_hold(store: Store, key: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await store.search(Query(), now=NOW, sort="queue", cursor=encoded(["queue", key, 1]))
    assert caught.value.code == "bad_cursor"


@pytest.mark.parametrize(
    "term",
    [
        Term("nonsense", "=", ("x",)),
        Term("state", "=", ("asleep",)),
        Term("state", ">", ("queued",)),
        Term("queue", "<", ("a",)),
        Term("priority", "=", ("high",)),
        Term("priority", "=", ("1" * 30,)),
        Term("priority", "=", ("1; DROP TABLE job",)),
        Term("priority", "= 1 OR 1", ("1",)),
        Term("age", ">", ("soon",)),
        Term("age", "= 1 OR 1", ("1s",)),
        Term("queue", "=", ()),
        Term("queue", "=", tuple(str(n) for n in range(101))),
        Term("queue", "=", ("a*a*a*a*a*a*a*a*a*b",)),
        Term("queue", "=", ("x" * 2001,)),
        Term("args.", "=", ("x",)),
        Term('args.a"b', "=", ("x",)),
        Term("kwargs.a\\b", "=", ("x",)),
        Term("payload", "=", ("x",)),
    ],
)
async def test_a_term_that_means_nothing_is_refused(store: Store, term: Term) -> None:
    with pytest.raises(InvalidRequest):
        await store.search(Query((term,)), now=NOW)
    with pytest.raises(InvalidRequest):
        await store.count(Query((term,)), NOW)


@pytest.mark.parametrize("sort", ["", "-", "payload", "id; --", "--created_at", "created_at DESC"])
async def test_one_sorts_by_what_is_named_only(store: Store, sort: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.search(Query(), now=NOW, sort=sort)


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_page_has_a_bound(store: Store, limit: int) -> None:
    with pytest.raises(InvalidRequest):
        await store.search(Query(), now=NOW, limit=limit)


async def test_a_costly_glob_is_cheap(stage: Stage) -> None:
    """By backtracking, this pattern would take longer than anybody waits."""
    await stage.submit(new_job(1, flow="a" * 100_000))
    assert await found(stage.store, where("flow", "a*a*a*a*a*a*a*a*b")) == []


async def test_brackets_and_quotes_in_values_are_text(stage: Stage) -> None:
    await stage.submit(new_job(1, flow='it\'s [a] "b"'), new_job(2, flow="a"))
    await stage.commit(begins=[Begin([1], "i", "w'; --", NOW)])
    assert await found(stage.store, where("flow", 'it\'s [a] "b"')) == [1]
    assert await found(stage.store, where("flow", "*[[]a*")) == []
    assert await found(stage.store, where("flow", "*[a]*")) == [1]
    assert await found(stage.store, where("worker", "w'; --")) == [1]


async def test_the_wildcards_of_a_database_are_text(stage: Stage) -> None:
    await stage.submit(new_job(1, flow="50%_\\"), new_job(2, flow="50 x\\"), new_job(3, flow="50%_\\n"))
    assert await found(stage.store, where("flow", "50%*")) == [1, 3]
    assert await found(stage.store, where("flow", "??%_*")) == [1, 3]
    assert await found(stage.store, where("flow", "*\\")) == [1, 2]
    assert await found(stage.store, where("flow", "*\\?")) == [3]
    assert await found(stage.store, where("flow", "50_x*")) == []


async def test_one_sign_is_one_character_however_many_bytes(stage: Stage) -> None:
    await stage.submit(new_job(1, flow="ü"), new_job(2, flow="ü🙂"), new_job(3, flow="ü🙂ü"))
    assert await found(stage.store, where("flow", "?")) == [1]
    assert await found(stage.store, where("flow", "?🙂?")) == [3]


ODD = [
    b"no JSON at all",
    b'"only text"',
    b"[]",
    b'{"args":"text","kwargs":[1]}',
    b'{"args":[1e999999],"kwargs":{"to":1e999999}}',
    b'{"args":["\\ud800"],"kwargs":{"to":"\\udc00"}}',
]


@pytest.mark.parametrize("odd", ODD)
async def test_what_no_database_reads_stops_no_search(stage: Stage, odd: bytes) -> None:
    await stage.submit(new_job(1, payload=odd), new_job(2, payload=payload("here", to="there")))
    await stage.run(new_job(3, payload=odd), state="failed", outcome=odd)
    await stage.run(new_job(4), state="failed", outcome=ERROR)
    assert await found(stage.store, where("args.0", "he*")) == [2]
    assert await found(stage.store, where("kwargs.to", "there")) == [2]
    assert await found(stage.store, where("error", "valueerror")) == [4]
    assert await found(stage.store, where("", "bad address")) == [4]


async def test_a_text_with_nul_in_it_is_found_by_what_else_it_says(stage: Stage) -> None:
    await stage.submit(new_job(1, payload=payload("a\0b", "here", path="c:\\u0000")))
    await stage.run(new_job(2), state="failed", outcome=ERROR.replace(b"[x]", rb"\u0000"))
    assert await found(stage.store, where("args.1", "here")) == [1]
    assert await found(stage.store, where("args.0", "a*")) == [1]
    assert await found(stage.store, where("kwargs.path", "c:*")) == [1]
    assert await found(stage.store, where("error", "valueerror")) == [2]
    assert await found(stage.store, where("error", "bad*")) == [2]


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_a_server_that_cannot_check_json_finds_the_same(
    crowd: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_search, "CAN_VALIDATE", 1000)
    for field, value, expected in CASES:
        if field.partition(".")[0] in ("args", "kwargs"):
            assert await found(crowd, where(field, value)) == expected, (field, value)
    assert await found(crowd, where("error", "valueerror")) == [7]
    assert await found(crowd, where("", "bad ADDRESS")) == [7]


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("patience", ["the server's", "ours"])
async def test_a_search_that_takes_too_long_is_stopped(
    store: PostgresStore, patience: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search waits for a table that somebody else holds on to."""
    if patience == "ours":
        monkeypatch.setattr(postgres_search, "MOST_SECONDS", 0.05)
    other, asker = [await asyncpg.connect(store.dsn, timeout=10) for _ in range(2)]
    try:
        await other.execute("BEGIN; LOCK TABLE fairway.ended")
        await asker.execute(f"SET statement_timeout = {'50' if patience != 'ours' else '20000'}")
        with pytest.raises(Busy, match="narrow it down"):
            await postgres_search.count(asker, store.schema, Query(), NOW)
    finally:
        await asker.close(timeout=10)
        await other.close(timeout=10)
