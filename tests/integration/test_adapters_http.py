"""Requests: what is sent, what an answer means, where they do not go, and that they can be stopped."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fairway import ids
from fairway.adapters.http import HttpAdapter
from fairway.adapters.http_judge import LONGEST_WAIT, read_wait
from tests.integration.web import Web, web_server
from tests.integration.worker_world import Recorder, eventually, request


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with web_server() as web:
        yield web


async def send(url: str, allow_private: bool = True, **work: Any) -> Recorder:
    """Send one request and wait for its end."""
    recorder, adapter = Recorder(), HttpAdapter(allow_private)
    await adapter.start(recorder)
    adapter.begin([request(1, url, **work)])
    await recorder.until_ended(1)
    await adapter.close(0)
    return recorder


async def test_a_request_is_sent_as_it_was_given(web: Web) -> None:
    headers = {"X-Colour": "red", "Authorization": "Bearer x"}
    recorder = await send(web.url("/echo?a=1&b=%20"), method="POST", json={"a": [1]}, headers=headers)
    assert recorder.result(1).kind == "ok"
    asked = web.asked[0]
    assert (asked.method, asked.path, asked.body) == ("POST", "/echo?a=1&b=%20", b'{"a":[1]}')
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["host"] == f"127.0.0.1:{web.port}"
    assert (asked.headers["x-colour"], asked.headers["authorization"]) == ("red", "Bearer x")
    assert asked.headers["idempotency-key"] == f"{ids.show(1)}.0"
    assert asked.headers["fairway-attempt"] == "1"


async def test_what_is_given_is_not_overruled(web: Web) -> None:
    headers = {"idempotency-key": "mine", "content-type": "text/csv", "user-agent": "me"}
    await send(web.url("/echo"), method="PUT", body="a,b", headers=headers)
    asked = web.asked[0]
    assert asked.body == b"a,b"
    assert {name: asked.headers[name] for name in headers} == headers


async def test_a_name_is_kept_for_the_server_though_the_connection_goes_to_its_address(web: Web) -> None:
    assert (await send(web.url("/echo", host="localhost"))).result(1).kind == "ok"
    assert web.asked[0].headers["host"] == f"localhost:{web.port}"


async def test_json_is_the_value_and_cookies_are_not(web: Web) -> None:
    value = (await send(web.url("/echo"))).value(1)
    assert (value["status"], value["json"]["method"]) == (200, "GET")
    assert value["headers"]["content-type"] == "application/json"
    assert "set-cookie" not in value["headers"]


@pytest.mark.parametrize(
    ("path", "length", "cut"),
    [("/big", 1024 * 1024, True), ("/bomb", 1024 * 1024, True), ("/broken", 1, False)],
)
async def test_a_body_is_bounded(web: Web, path: str, length: int, cut: bool) -> None:
    value = (await send(web.url(path))).value(1)
    assert length - 1000 <= len(value["body"]) <= length
    assert value.get("truncated", False) == cut


async def test_a_value_is_bounded_however_it_has_to_be_written(web: Web) -> None:
    recorder = await send(web.url("/binary"))
    assert recorder.value(1)["truncated"]
    assert len(recorder.result(1).body) < 1024 * 1024 + 10_000


async def test_a_compressed_answer_is_read(web: Web) -> None:
    assert (await send(web.url("/zipped"))).value(1)["json"] == [1]


@pytest.mark.parametrize(
    ("path", "work", "kind"),
    [
        ("/status/200", {}, "ok"),
        ("/status/204", {}, "ok"),
        ("/status/299", {}, "ok"),
        ("/status/202", {"expect": [200, 201]}, "permanent"),
        ("/status/404", {"expect": [200, 404]}, "ok"),
        ("/status/503", {"expect": [503]}, "ok"),
        ("/status/302", {}, "permanent"),
        ("/status/302", {"follow": True}, "permanent"),  # to nowhere
        ("/status/400", {}, "permanent"),
        ("/status/401", {}, "permanent"),
        ("/status/404", {}, "permanent"),
        ("/status/408", {}, "error"),
        ("/status/425", {}, "error"),
        ("/status/429", {}, "error"),
        ("/status/500", {}, "error"),
        ("/status/503", {"expect": [200]}, "error"),
        ("/status/503?retry-after=soon", {}, "error"),
        ("/status/429?retry-after=7", {}, "retry_after"),
        ("/status/503?retry-after=7", {}, "retry_after"),
        ("/status/404?retry-after=7", {}, "permanent"),
        ("/mute", {}, "error"),
    ],
)
async def test_an_answer_is_judged(web: Web, path: str, work: dict[str, Any], kind: str) -> None:
    recorder = await send(web.url(path), **work)
    assert recorder.result(1).kind == kind
    if kind == "retry_after":
        assert recorder.result(1).retry_after == 7.0
    if kind != "ok":
        assert {"type", "message", "traceback"} <= set(recorder.value(1))


async def test_an_error_carries_what_the_server_said(web: Web) -> None:
    error = (await send(web.url("/status/422?secret=hunter2"))).value(1)
    assert (error["type"], error["status"], error["traceback"]) == ("HttpStatus", 422, "words of the server")
    assert error["message"] == f"GET {web.url('/status/422')} answered 422 Word"


async def test_a_date_is_a_time_to_wait_for(web: Web) -> None:
    date = quote(formatdate(time.time() + 1000, usegmt=True))
    recorder = await send(web.url(f"/status/503?retry-after={date}"))
    assert recorder.result(1).kind == "retry_after"
    assert 0 < recorder.result(1).retry_after <= 1000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0), ("120", 120.0), ("99999999999", LONGEST_WAIT), ("Thu, 01 Jan 1970 00:03:20 GMT", 100.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("Thu, 01 Jan 1970 00:03:20", 100.0), (None, None),
        ("", None), ("soon", None), ("-5", None), ("1.5", None), ("nan", None),
        ("Thu, 99 Jan 1970 00:00:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_read(text: str | None, seconds: float | None) -> None:
    assert read_wait(text, 100.0) == seconds


# --- where it goes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1"]
)
async def test_private_addresses_are_refused_for_good(web: Web, host: str) -> None:
    recorder = await send(web.url("/echo", host=host), allow_private=False)
    assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("permanent", "PrivateAddress")
    assert "--allow-private" in recorder.value(1)["message"]
    assert web.asked == []


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://[fd00:ec2::254]/"]
)
async def test_metadata_and_neighbours_are_refused_without_being_called(address: str) -> None:
    assert (await send(address, allow_private=False)).value(1)["type"] == "PrivateAddress"


async def test_nobody_there_is_worth_another_try(web: Web) -> None:
    free = web.url("/").replace(str(web.port), "1")
    recorder = await send(free)
    assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("error", "ConnectionFailed")


async def test_a_name_that_is_nowhere_is_worth_another_try() -> None:
    recorder = await send("http://no-such-host.invalid/")
    assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("error", "ConnectionFailed")


async def test_a_payload_that_is_no_request_fails_for_good() -> None:
    recorder = await send("gopher://example.org")
    assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("permanent", "BadPayload")


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side of TLS for `localhost`, which we trust."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-out", str(certificate), "-keyout", str(key)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return context


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
async def test_the_name_and_not_the_address_is_what_tls_is_about(tls: ssl.SSLContext) -> None:
    named: list[str | None] = []
    tls.sni_callback = lambda _, name, __: named.append(name)
    async with web_server(tls) as web:
        by_name = await send(web.url("/echo", host="localhost").replace("http:", "https:"))
        by_address = await send(web.url("/echo").replace("http:", "https:"))
    assert (by_name.result(1).kind, named[0]) == ("ok", "localhost")
    assert (by_address.result(1).kind, by_address.value(1)["type"]) == ("error", "ConnectionFailed")
    assert "certificate" in by_address.value(1)["message"].lower()
    assert len(web.asked) == 1


# --- redirects --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
    ],
)
async def test_redirects_are_followed_if_asked(web: Web, status: int, method: str, then: str) -> None:
    url = web.url(f"/status/{status}?location=/echo")
    recorder = await send(url, method=method, body="x", follow=True)
    assert recorder.result(1).kind == "ok"
    assert (web.asked[1].method, web.asked[1].path) == (then, "/echo")
    assert web.asked[1].body == (b"x" if then == method else b"")


async def test_secrets_do_not_follow_to_another_server(web: Web) -> None:
    async with web_server() as other:
        url = web.url(f"/status/307?location={quote(other.url('/echo'))}")
        await send(url, headers={"Authorization": "x", "X-Api-Key": "x", "X-Colour": "red"}, follow=True)
        headers = other.asked[0].headers
    assert "authorization" in web.asked[0].headers
    assert "authorization" not in headers and "x-api-key" not in headers
    assert headers["x-colour"] == "red"


async def test_redirects_without_end_are_given_up(web: Web) -> None:
    recorder = await send(web.url("/loop"), follow=True)
    assert (recorder.result(1).kind, recorder.value(1)["type"]) == ("permanent", "BadRedirect")
    assert len(web.asked) == 6


async def test_each_hop_is_checked(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first server counts as public here; where it sends us does not."""
    import fairway.addresses

    allowed = fairway.addresses.is_public
    monkeypatch.setattr(fairway.addresses, "is_public", lambda ip: ip == "127.0.0.1" or allowed(ip))
    for place in ("http://169.254.169.254/", "http://127.0.0.2/", "http://[::1]/"):
        recorder = await send(
            web.url(f"/status/302?location={quote(place)}"), allow_private=False, follow=True
        )
        assert recorder.value(1)["type"] == "PrivateAddress"


# --- stopping ---------------------------------------------------------------------------------------------
async def test_a_cancelled_request_drops_its_connection(web: Web) -> None:
    recorder, adapter = Recorder(), HttpAdapter(allow_private=True)
    await adapter.start(recorder)
    adapter.begin([request(1, web.url("/slow"))])
    await eventually(lambda: web.asked)
    assert "waiting" in (await adapter.look(1, 1) or "")
    adapter.stop(1, 1, force=False)
    await recorder.until_ended(1)
    assert recorder.result(1).kind == "cancelled"
    await eventually(web.dropped.is_set)
    assert await adapter.look(1, 1) is None


async def test_a_request_can_be_cancelled_before_anything_of_it_has_run(web: Web) -> None:
    recorder, adapter = Recorder(), HttpAdapter(allow_private=True)
    await adapter.start(recorder)
    adapter.begin([request(1, web.url("/slow"))])
    adapter.stop(1, 1, force=False)
    await recorder.until_ended(1)
    assert (recorder.result(1).kind, web.asked) == ("cancelled", [])


@pytest.mark.parametrize(
    ("job_limit", "work"), [(0.2, {}), (None, {"timeout": "200ms"}), (0.2, {"timeout": 60})]
)
async def test_a_time_limit_covers_the_whole(web: Web, job_limit: float | None, work: dict[str, Any]) -> None:
    recorder, adapter = Recorder(), HttpAdapter(allow_private=True)
    await adapter.start(recorder)
    adapter.begin([request(1, web.url("/slow"), **work)._replace(timeout=job_limit)])
    await recorder.until_ended(1)
    assert recorder.result(1).kind == "timeout"
    assert "after 0.2 s" in recorder.value(1)["message"]
