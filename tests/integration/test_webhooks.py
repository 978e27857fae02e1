"""Ends of jobs told by calls: a real receiver, real nodes, one of them killed before it could tell."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import fairway
from fairway.core.model import Extras, Notify
from fairway.node.webhook import Mailbag
from fairway.store import Call, Submission
from tests.node.stage import HeldStore, Shell, new_job
from tests.running import RunningNode, free_port

TASKS = "tests.integration.failing_tasks"
SECRET = "s3cret"
SECONDS = 60.0


class Received(NamedTuple):
    """One call as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Takes calls on loopback; answers with the next of *statuses*, then 200."""

    def __init__(self, port: int = 0, statuses: tuple[int, ...] = ()) -> None:
        self.calls: list[Received] = []
        self.statuses = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.calls.append(Received(self.path, headers, body))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hooks?x=1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def until(self, count: int) -> list[Received]:
        eventually(lambda: len(self.calls) >= count)
        return self.calls


def eventually(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until, "it did not come so"
        time.sleep(0.05)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


def a_node(folder: Path, *arguments: str, **env: str) -> RunningNode:
    env = {"FAIRWAY_WEBHOOK_SECRET": SECRET, "FAIRWAY_TIME_SCALE": "0.2"} | env
    return RunningNode(folder, "--app", f"{TASKS}:app", "--slots", "1", *arguments, env=env)


def submit(node: RunningNode, task: str, *args: object, **more: Any) -> str:
    return node.submit(task=f"{TASKS}.{task}", args=list(args), **{"max_attempts": 1} | more)


def check_signature(call: Received, secret: str) -> None:
    """As a receiver would."""
    parts = dict(part.split("=", 1) for part in call.headers["fairway-signature"].split(","))
    assert abs(time.time() - int(parts["t"])) < 300
    wanted = hmac.new(secret.encode(), f"{parts['t']}.".encode() + call.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(wanted, parts["v1"])


def test_an_end_is_told_signed_and_once(tmp_path: Path, receiver: Receiver) -> None:
    with a_node(tmp_path, "--allow-private") as node:
        job = submit(node, "succeed", "well", notify=receiver.url, queue="acme/mail", group="g")
        [call] = receiver.until(1)
        check_signature(call, SECRET)
        with pytest.raises(AssertionError):
            check_signature(call, "another")
        assert call.path == "/hooks?x=1" and call.headers["content-type"] == "application/json"
        assert call.headers["host"] == f"127.0.0.1:{receiver.port}"
        said = call.json
        assert said["event"] == "job.ended" and call.headers["fairway-delivery"] == str(said["delivery"])
        told, shown = said["job"], node.job(job)
        assert {name: shown[name] for name in told if name in shown} == told
        assert told["outcome"] == {"ok": True, "value": "well"} and told["group"] == "g"
        other = submit(node, "fail", 1, 7, notify={"url": receiver.url, "on": ["failed"]})
        quiet = submit(node, "succeed", notify={"url": receiver.url, "on": ["failed"]})
        later = submit(node, "succeed", notify=receiver.url, delay="1h")
        node.http.delete(f"/v1/jobs/{later}")
        node.job(quiet, wait="30s")
        calls = {call.json["job"]["id"]: call.json for call in receiver.until(3)}
        assert calls.keys() == {job, other, later}
        failed = calls[other]["job"]["outcome"]
        assert (failed["reason"], failed["error"]["message"]) == ("max_attempts", "there is no order 7")
        assert calls[other]["job"]["cause"] == node.job(other)["cause"] is not None
        assert calls[later]["job"]["state"] == "cancelled"
        assert len({one["delivery"] for one in calls.values()}) == 3


def test_a_receiver_that_fails_twice_gets_the_same_call_again(tmp_path: Path) -> None:
    receiver = Receiver(statuses=(500, 429))
    try:
        with a_node(tmp_path, FAIRWAY_ALLOW_PRIVATE="1") as node:
            submit(node, "succeed", notify=receiver.url)
            calls = receiver.until(3)
            assert len({call.body for call in calls}) == 1
            # It was taken: the next thing told is another job's end.
            other = submit(node, "succeed", notify=receiver.url)
            assert receiver.until(4)[3].json["job"]["id"] == other
    finally:
        receiver.close()


def test_without_a_secret_calls_are_not_signed(tmp_path: Path, receiver: Receiver) -> None:
    with a_node(tmp_path, FAIRWAY_ALLOW_PRIVATE="1", FAIRWAY_WEBHOOK_SECRET="") as node:
        submit(node, "succeed", notify=receiver.url)
        [call] = receiver.until(1)
        assert "fairway-signature" not in call.headers


def test_what_a_killed_node_did_not_tell_is_told_after_its_restart(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/late"
    with a_node(tmp_path, FAIRWAY_ALLOW_PRIVATE="1") as node:
        job = submit(node, "succeed", "kept", notify=url)
        assert node.job(job, wait="30s")["state"] == "succeeded"  # nobody listens at the port yet
        node.kill()
        receiver = Receiver(port)
        try:
            node.start()
            node.until_ready()
            calls = receiver.until(1)
            assert calls[0].json["job"]["id"] == job
            check_signature(calls[0], SECRET)
        finally:
            receiver.close()


def failures_told(node: RunningNode, count: int) -> list[dict[str, Any]]:
    """Return the first events of calls that were given up."""
    app, found = fairway.App(url=node.url), []
    for event in app.events("kind:notify.failed", after="0.0"):
        found.append(event)
        if len(found) == count:
            break
    app.close()
    return found


def test_a_private_address_is_refused_by_the_api_and_when_it_is_called(
    tmp_path: Path, receiver: Receiver
) -> None:
    with a_node(tmp_path) as node:
        answer = node.http.post("/v1/jobs", json={"task": f"{TASKS}.succeed", "notify": receiver.url})
        assert answer.status_code == 422 and answer.json()["code"] == "private_address"
        app = fairway.App(database=f"sqlite:///{node.database}")  # past the API: straight into the file

        @app.task(name=f"{TASKS}.succeed", notify=receiver.url)
        def succeed() -> str: ...

        job = succeed.submit()
        [event] = failures_told(node, 1)
        assert event["job"] == job.id and "not an address of the public internet" in event["detail"]["why"]
        app.close()
    assert receiver.calls == []


def test_a_receiver_that_refuses_for_good_is_not_asked_again(tmp_path: Path) -> None:
    receiver = Receiver(statuses=(404, 302))
    try:
        with a_node(tmp_path, FAIRWAY_ALLOW_PRIVATE="1") as node:
            jobs = [submit(node, "succeed", notify=receiver.url) for _ in range(2)]
            told = failures_told(node, 2)
            assert {event["job"] for event in told} == set(jobs)
            whys = sorted(event["detail"]["why"] for event in told)
            assert whys == ["the receiver answered 302", "the receiver answered 404"]
            assert {event["detail"]["host"] for event in told} == {f"127.0.0.1:{receiver.port}"}
            assert len(receiver.calls) == 2
    finally:
        receiver.close()


async def test_a_good_host_does_not_wait_behind_a_thousand_calls_to_a_dead_one(
    tmp_path: Path, receiver: Receiver
) -> None:
    """Every call has a URL of its own; the dead host takes connections and never says a word."""
    store, silent = HeldStore(), socket.create_server(("127.0.0.1", 0), backlog=64)
    dead = f"http://127.0.0.1:{silent.getsockname()[1]}"
    try:
        shell = Shell(tmp_path, store)
        shell.options = replace(shell.options, allow_private=True)
        async with shell:
            jobs = [told(number, f"{dead}/{number}") for number in range(1, 1001)]
            await shell.desk.submit([Submission([*jobs, told(1001, receiver.url)])])
            for number in range(1, 1002):
                await shell.desk.cancel(number)
            await until(lambda: receiver.calls)
            async with asyncio.timeout(SECONDS):
                # The answer was sent; that it came is still to be written down.
                while {call.host for call in await store.due_calls(2**62, most=9999)} != {dead[7:]}:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
    finally:
        silent.close()


async def test_what_calls_need_is_loaded_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    """It reads certificates, and the leader's loop has other things to do."""
    made_in: list[int] = []

    class Noted(httpx.AsyncClient):
        def __init__(self, *values: Any, **more: Any) -> None:
            made_in.append(threading.get_ident())
            super().__init__(*values, **more)

    monkeypatch.setattr(httpx, "AsyncClient", Noted)
    bag = Mailbag(None, allow_private=True)
    await bag.post(Call(1, 1, receiver.url, "here", b"{}", 0, 0, 0), 0)
    await bag.close()
    assert len(receiver.calls) == 1 and made_in and threading.get_ident() not in made_in


def told(number: int, url: str) -> Any:
    return new_job(number, extras=Extras(notify=Notify(url, ())))


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
