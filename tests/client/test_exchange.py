"""One exchange without IO: requests as bytes, answers from bytes in whatever pieces they come."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.client import exchange
from fairway.client.exchange import Address, Reading
from fairway.errors import InvalidRequest

BODY = b'{"id":"06x"}'
ANSWER = b"HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "host", "port", "name"),
    [
        ("http://127.0.0.1:8899", "127.0.0.1", 8899, "127.0.0.1:8899"),
        ("http://example.org", "example.org", 80, "example.org"),
        ("https://example.org", "example.org", 443, "example.org"),
        ("http://[::1]:8899", "::1", 8899, "[::1]:8899"),
    ],
)
def test_an_address_is_read_from_a_url(url: str, host: str, port: int, name: str) -> None:
    address = Address.of(urlsplit(url))
    assert (address.host, address.port, address.name) == (host, port, name)
    assert address.secure == url.startswith("https")


def test_a_request_is_written_whole() -> None:
    address = Address.of(urlsplit("http://h:1"))
    assert address.write("POST", "/v1/jobs", b"{}", {"a": "b"}) == (
        b"POST /v1/jobs HTTP/1.1\r\nhost: h:1\r\na: b\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert b"content-length" not in address.write("GET", "/", None, {})
    assert address.write("POST", "/", None, {}).endswith(b"content-length: 0\r\n\r\n")
    assert address.write("GET", "/a b/ü", None, {}).startswith(b"GET /a%20b/%C3%BC HTTP/1.1\r\n")


@pytest.mark.parametrize("value", ["b\r\nc: d", "b\nc: d", "b\rc", "b\0", "ü"])
def test_a_header_cannot_become_two(value: str) -> None:
    with pytest.raises(InvalidRequest):
        Address.of(urlsplit("http://h:1")).write("GET", "/", None, {"authorization": value})


@given(cuts=st.lists(st.integers(0, len(EARLY + ANSWER)), max_size=8))
def test_an_answer_is_the_same_however_it_is_cut(cuts: list[int]) -> None:
    whole, reading = EARLY + ANSWER, Reading("POST")
    places = sorted({0, *cuts, len(whole)})
    for first, last in pairwise(places):
        assert not reading.complete
        reading.feed(whole[first:last])
    assert reading.complete and reading.stays
    assert reading.whole() == (201, {"content-type": "a/b", "content-length": str(len(BODY))}, BODY)


def test_a_chunked_answer_is_put_together() -> None:
    reading = Reading("GET")
    reading.feed(CHUNKED)
    assert reading.complete and reading.whole().body == b"hello world"


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    reading = Reading("GET")
    reading.feed(b"HTTP/1.1 200 OK\r\n\r\nhello")
    assert not reading.complete
    reading.end()
    assert reading.complete and not reading.stays and reading.whole().body == b"hello"


def test_an_answer_that_is_cut_off_is_none() -> None:
    reading = Reading("GET")
    reading.feed(ANSWER[:-1])
    reading.end()
    assert not reading.complete


def test_to_a_head_request_nothing_follows() -> None:
    reading = Reading("HEAD")
    reading.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
    assert reading.complete and not reading.stays


def test_two_answers_to_one_question_end_the_connection() -> None:
    reading = Reading("POST")
    reading.feed(ANSWER + ANSWER.replace(b"06x", b"06y"))
    assert reading.complete and not reading.stays and reading.whole().body == BODY


def test_a_head_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_HEAD", 1000)
    reading = Reading("GET")
    reading.feed(b"HTTP/1.1 200 OK\r\n")
    with pytest.raises(ConnectionResetError, match="more than 1000 bytes of headers"):
        for _ in range(100):
            reading.feed(b"a: " + b"x" * 50 + b"\r\n")


def test_what_is_no_http_is_refused() -> None:
    with pytest.raises(ConnectionResetError, match="not HTTP"):
        Reading("GET").feed(b"SSH-2.0-OpenSSH\r\n\r\n")
