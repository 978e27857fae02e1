"""The transport: what goes over the wire, what comes back, and what is sent again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fairway.client.app import App
from fairway.client.http import Transport
from fairway.client.repeats import Repeat, Request
from fairway.errors import (
    Busy,
    CallerError,
    Conflict,
    InvalidRequest,
    NoLeader,
    NotFound,
    Refused,
    StoreUnavailable,
    WorldError,
)
from tests.client.scripted_peer import Peer, Reply, problem, reply

KEY = {"idempotency-key": "k1"}
Call = Callable[..., Any]


@pytest.fixture(params=["blocking", "awaiting"])
def call(request: pytest.FixtureRequest) -> Call:
    """Call through a transport, in either manner."""

    def block(transport: Transport, *args: Any, **kwargs: Any) -> Any:
        return transport.call(*args, **kwargs)

    def wait(transport: Transport, *args: Any, **kwargs: Any) -> Any:
        async def run() -> Any:
            try:
                return await transport.acall(*args, **kwargs)
            finally:
                transport.close()

        return asyncio.run(run())

    return block if request.param == "blocking" else wait


def test_a_call_sends_json_and_reads_json(peer: Peer, call: Call) -> None:
    peer.says(reply({"id": "j"}, 201))
    transport = Transport(peer.url + "/", token="secret")
    found = call(transport, "POST", "/jobs", params={"a": 1, "b": None, "c": True}, body={"x": "é"})
    assert found == {"id": "j"}
    asked = peer.asked[0]
    assert (asked.method, asked.path, asked.body) == ("POST", "/v1/jobs?a=1&c=true", {"x": "é"})
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.headers["content-type"] == "application/json"


def test_bytes_are_taken_to_be_json_already(peer: Peer, call: Call) -> None:
    call(Transport(peer.url), "POST", "/jobs", body=b'{"x":1}')
    assert peer.asked[0].body == {"x": 1}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (Reply(204, b""), None),
        (Reply(200, b"line\n", "text/plain"), "line\n"),
        (Reply(200, b"[1]", "application/json; charset=utf-8"), [1]),
    ],
)
def test_an_answer_is_read_by_its_type(peer: Peer, call: Call, given: Reply, read: Any) -> None:
    peer.says(given)
    assert call(Transport(peer.url), "GET", "/jobs/j") == read


@pytest.mark.parametrize(
    ("given", "error", "status", "code"),
    [
        (problem(404, "not_found"), NotFound, 404, "not_found"),
        (problem(409, "stale_attempt"), Conflict, 409, "stale_attempt"),
        (problem(401, "no_token"), Refused, 401, "no_token"),
        (problem(403, "refused"), Refused, 403, "refused"),
        (problem(422, "invalid", field="queue"), InvalidRequest, 422, "invalid"),
        (problem(413, "too_large"), InvalidRequest, 413, "too_large"),
        (problem(405, "method"), CallerError, 405, "method"),
        (problem(503, "no_leader"), NoLeader, 503, "no_leader"),
        (problem(503, "store_unavailable"), StoreUnavailable, 503, "store_unavailable"),
        (problem(429, "busy"), Busy, 429, "busy"),
        (Reply(502, b"<html>", "text/html"), WorldError, 502, "unavailable"),
        (Reply(404, b"<html>", "text/html"), NotFound, 404, "not_found"),
        (Reply(500, b"", "text/plain"), WorldError, 500, "unavailable"),
    ],
)
def test_a_refusal_becomes_our_error(
    peer: Peer, call: Call, given: Reply, error: type[Exception], status: int, code: str
) -> None:
    peer.says(given)
    with pytest.raises(error) as raised:
        call(Transport(peer.url), "GET", "/jobs/j")
    assert type(raised.value) is error
    assert isinstance(raised.value, CallerError | WorldError)
    assert (raised.value.status, raised.value.code) == (status, code)


def test_a_refusal_names_the_field(peer: Peer) -> None:
    peer.says(problem(422, "invalid", "limit must be above 0", "limit"))
    with pytest.raises(InvalidRequest, match="limit must be above 0") as raised:
        Transport(peer.url).call("PUT", "/queues/a", body={})
    assert raised.value.field == "limit"


def test_nobody_there_is_one_clear_sentence(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(WorldError, match=f"no node answers at {url}; start one with `fairway up`"):
        call(Transport(url), "GET", "/cluster")


def test_a_keyed_post_is_sent_again_under_the_same_key(peer: Peer, call: Call) -> None:
    peer.says(problem(503, "no_leader"), Reply(drop=True), problem(429, "busy"), reply({"id": "j"}, 201))
    assert call(Transport(peer.url, tries=5), "POST", "/jobs", body={"a": 1}, headers=KEY) == {"id": "j"}
    assert [(one.headers["idempotency-key"], one.body) for one in peer.asked] == [("k1", {"a": 1})] * 4


def test_a_post_without_a_key_is_sent_once(peer: Peer, call: Call) -> None:
    peer.says(Reply(drop=True), reply({}))
    with pytest.raises(WorldError):
        call(Transport(peer.url, tries=5), "POST", "/jobs/j/retry")
    assert len(peer.asked) == 1


@pytest.mark.parametrize("given", [problem(422, "invalid"), Reply(500, b"")])
def test_what_will_not_pass_is_not_sent_again(peer: Peer, call: Call, given: Reply) -> None:
    peer.says(given)
    with pytest.raises((CallerError, WorldError)):
        call(Transport(peer.url, tries=5), "POST", "/jobs", body={}, headers=KEY)
    assert len(peer.asked) == 1


def test_a_node_that_answers_is_waited_for_until_the_time_is_over(peer: Peer, call: Call) -> None:
    peer.says(*[problem(503, "no_leader")] * 7, reply({"ok": True}))
    assert call(Transport(peer.url, tries=3), "GET", "/jobs/j", timeout=60) == {"ok": True}
    assert len(peer.asked) == 8
    peer.says(problem(503, "no_leader"))
    with pytest.raises(NoLeader):
        call(Transport(peer.url, tries=3), "GET", "/jobs/j", timeout=0.5)


def test_who_does_not_want_to_wait_is_told_at_once(peer: Peer, call: Call) -> None:
    peer.says(problem(503, "no_leader"))
    with pytest.raises(NoLeader):
        call(Transport(peer.url), "GET", "/jobs/j")
    assert len(peer.asked) == 1


def test_a_node_that_was_never_there_is_asked_some_times_only() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        transport = Transport(f"http://127.0.0.1:{free.getsockname()[1]}", tries=3)
        with pytest.raises(WorldError, match="no node answers"):
            transport.call("GET", "/cluster", timeout=600)


def test_a_pause_is_as_long_as_the_node_asks_for() -> None:
    error = NoLeader("none")
    error.retry_after_seconds = 7
    repeat = Repeat(Request("GET", "/v1/jobs", None, {}), timeout=30)
    assert repeat.pause_after(error, tries=5) == 7


def test_no_pause_goes_beyond_the_timeout() -> None:
    error = NoLeader("none")
    error.retry_after_seconds = 31
    with pytest.raises(NoLeader):
        Repeat(Request("GET", "/v1/jobs", None, {}), timeout=30).pause_after(error, tries=5)


def test_a_silent_node_is_given_up(peer: Peer, call: Call) -> None:
    peer.says(Reply(silent=True))
    with pytest.raises(WorldError, match="did not answer within") as raised:
        call(Transport(peer.url, tries=5), "GET", "/jobs/j", timeout=0.2)
    assert raised.value.code == "timeout"


def test_a_connection_the_node_closed_is_not_used_again(peer: Peer) -> None:
    peer.says(Reply(close=True), Reply(close=True), reply({"ok": True}))
    transport = Transport(peer.url)
    for answer in ({}, {}, {"ok": True}):
        assert transport.call("POST", "/jobs/j/retry") == answer
        assert answer or peer.closed.acquire(timeout=10)


def test_threads_share_a_transport(peer: Peer) -> None:
    transport = Transport(peer.url)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: transport.call("POST", "/echo", body={"n": n}), range(64)))
    assert found == [{}] * 64
    assert sorted(asked.body["n"] for asked in peer.asked) == list(range(64))


@pytest.mark.parametrize("url", ["", "127.0.0.1:8899", "ftp://host", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="is not the address of a node"):
        Transport(url)


@pytest.mark.parametrize(
    "url", ["http://[", "http://x:99999", "http://a..b", "http://x/\ud800", "x", "http://a b"]
)
def test_an_app_is_not_made_with_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidRequest, match="is not the address of a node"):
        App(url=url)


def test_an_app_is_not_made_with_a_token_that_no_header_carries() -> None:
    with pytest.raises(InvalidRequest, match="the token") as refused:
        App(token="s3cret\nb")
    assert "s3cret" not in str(refused.value)


def test_half_a_character_is_the_callers_mistake_and_not_sent(peer: Peer, call: Call) -> None:
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        next(App(url=peer.url).events("\ud800"))
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        call(Transport(peer.url), "POST", "/jobs", body={"task": "\ud800"})
    assert peer.asked == []
