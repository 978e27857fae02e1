"""Frames of workers: what an honest one sends passes, anything else is refused by name."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.frames import BadFrame, encoder_for, read_frame
from fairway.errors import CallerError
from fairway.wire.messages import (
    Beat,
    FromWorker,
    Goodbye,
    HandBack,
    Held,
    Hello,
    LogPiece,
    Logs,
    Note,
    Notes,
    Refusal,
    Result,
    Results,
    Task,
)

HELLO = Hello(
    1, "w1", "abc", 2, ["python"], [Task("mail.send", True)], ["gpu"], ["acme/*"], facts={"cpu": 2.5}
)
HONEST: list[FromWorker] = [
    HELLO,
    Beat([Held(7, 1), Held(8, 2, False)], {"load": [0.5]}),
    Results([Result(7, 1, "ok", b'{"a":1}', 0.1), Result(8, 1, "retry_after", b"{}", 0.1, 30.0)]),
    HandBack([Held(7, 1)]),
    Logs([LogPiece(7, 1, 0, 5, "stdout", "hi\n\x00\x1b[31m")]),
    Logs([LogPiece(7, 1, 1, 5, "notice", "[output beyond 1 MB is dropped]\n")]),
    Notes([Note(7, 1, 0.5, "half", b'{"row":1}', 1.5, 2**40), Note(7, 2), Note(8, 1, 0.0), Note(8, 1, 1.0)]),
    Notes([Note(7, 1, 1, "x" * 1000, b'"' + b"x" * 65_534 + b'"')]),
    Goodbye("bye"),
]


def hello(**changes: Any) -> Hello:
    return msgspec.structs.replace(HELLO, **changes)


@pytest.mark.parametrize("message", HONEST)
def test_honest_frames_pass_in_both_languages(message: FromWorker) -> None:
    assert read_frame(msgspec.msgpack.encode(message)) == message
    assert read_frame(msgspec.json.encode(message).decode()) == message


def test_bytes_are_base64_in_json() -> None:
    body = base64.b64encode(b'"x"').decode()
    assert read_frame(f'["results",[[7,1,"ok","{body}",0.5]]]') == Results([Result(7, 1, "ok", b'"x"', 0.5)])


@pytest.mark.parametrize(
    "message",
    [
        hello(protocol=2), hello(name=""), hello(name="a b"), hello(name="a" * 129), hello(incarnation=""),
        hello(incarnation="a" * 65), hello(incarnation="a\0"), hello(slots=0), hello(slots=-1),
        hello(slots=10_001), hello(async_per_slot=0), hello(adapters=["x"] * 201), hello(adapters=[""]),
        hello(tasks=[Task("not a task")]), hello(tags=["*a" * 9]), hello(queues=[""]),
        hello(queues=["a"] * 201),
        hello(facts={"x": "y" * 70_000}), hello(predecessor=""), hello(pid=-1),
        hello(holds=[Held(-1, 1)]), hello(holds=[Held(2**63, 1)]),
        hello(results=[Result(1, 1, "?", b"1", 1)]),
        hello(holds=[Held(1, 0)]), hello(results=[Result(1, 0, "ok", b"1", 1)]),
        Beat([Held(1, 0)]), HandBack([Held(1, 0)]), Results([Result(1, 0, "ok", b"1", 0)]),
        Beat([Held(1, -1)]), Beat([Held(1, 2**31)]), Beat([], {"x": float("nan")}),
        Results([Result(1, 1, "won", b"1", 0)]), Results([Result(1, 1, "ok", b"", 0)]),
        Results([Result(1, 1, "ok", b"{", 0)]), Results([Result(1, 1, "ok", b'"\xff"', 0)]),
        Results([Result(1, 1, "ok", b"NaN", 0)]), Results([Result(1, 1, "ok", b"[" * 9999, 0)]),
        Results([Result(1, 1, "ok", b"1", -1)]), Results([Result(1, 1, "ok", b"1", float("nan"))]),
        Results([Result(1, 1, "ok", b"1", float("inf"))]),
        Results([Result(1, 1, "retry_after", b"1", 0, -5)]),
        Results([Result(1, 1, "retry_after", b"1", 0, 1e300)]), HandBack([Held(2**63, 1)]),
        Logs([LogPiece(1, 1, -1, 0, "stdout", "")]), Logs([LogPiece(1, 1, 0, -1, "stdout", "")]),
        Logs([LogPiece(1, 1, 0, 2**62, "stdout", "")]), Logs([LogPiece(1, 1, 0, 0, "nowhere", "")]),
    ],
)  # fmt: skip
def test_what_no_honest_worker_sends_is_refused(message: FromWorker) -> None:
    with pytest.raises(BadFrame):
        read_frame(msgspec.msgpack.encode(message))


@pytest.mark.parametrize(
    "bad",
    [
        Note(1, 0, 0.5), Note(-1, 1), Note(1, 1, 2.0), Note(1, 1, -0.1), Note(1, 1, float("nan")),
        Note(1, 1, float("inf")), Note(1, 1, 0.5, "x" * 1001), Note(1, 1, cpu_seconds=-1.0),
        Note(1, 1, cpu_seconds=float("nan")), Note(1, 1, memory_bytes=-1), Note(1, 1, memory_bytes=2**63),
        Note(1, 1, checkpoint=b'"' + b"x" * 65_536 + b'"'), Note(1, 1, checkpoint=b""),
        Note(1, 1, checkpoint=b"{"), Note(1, 1, checkpoint=b"1e999"), Note(1, 1, checkpoint=b"NaN"),
        Note(1, 1, checkpoint=b'"\xff"'), Note(1, 1, checkpoint=b'"\\ud800"'),
        Note(1, 1, checkpoint=b"[" * 65 + b"]" * 65), Note(1, 1, checkpoint=b"[" * 9999),
    ],
)  # fmt: skip
def test_a_bad_note_is_left_out_and_the_rest_of_its_frame_passes(bad: Note) -> None:
    dropped: list[CallerError] = []
    before, behind = Note(7, 1, 0.5), Note(8, 1, checkpoint=b"[1]")
    frame = msgspec.msgpack.encode(Notes([before, bad, behind]))
    assert read_frame(frame, dropped.append) == Notes([before, behind])
    assert len(dropped) == 1 and dropped[0].detail


def test_another_version_of_the_protocol_has_a_code_of_its_own() -> None:
    with pytest.raises(BadFrame) as refusal:
        read_frame(msgspec.msgpack.encode(hello(protocol=2)))
    assert refusal.value.code == "protocol_version"


@pytest.mark.parametrize(
    "frame",
    [
        "", "{}", "[]", "null", "1", '"hello"', '["nope"]', '["hello"]', '["hello",1]', '["beat"]',
        '["beat",{}]', '["beat",[[1]]]', '["beat",[["1",1]]]', '["beat",[[true,1]]]', '["beat",[[1.5,1]]]',
        '["beat",[[1,1]]', '["results",[[1,1,"ok","not base64!",0]]]', '["results",[[1,1,"ok",5,0]]]',
        '["logs",[[1,1,1,1,"stdout","\\ud800"]]]', "[" * 5000, '["welcome",1,1,"n",2,10]', '["begin",1,[]]',
        b"", b"\x00", b"\xc1", b"junk", b"\x93", b"\xff" * 100, b"\x91\xa4beat", b"\xdd\xff\xff\xff\xff",
        b"\x92\xa4beat\x91\x92\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x92\xa4beat\xa1\xff",
        b"\x92\xa7goodbye\xa1\xff",
    ],
)  # fmt: skip
def test_junk_is_refused(frame: bytes | str) -> None:
    with pytest.raises(BadFrame):
        read_frame(frame)


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_frame_is_read_or_refused(frame: bytes | str) -> None:
    try:
        read_frame(frame)
    except BadFrame as refusal:
        assert refusal.code


def test_a_worker_is_answered_the_way_it_spoke() -> None:
    refusal = Refusal("code", "why")
    assert encoder_for("text")(refusal) == '["refusal","code","why"]'
    assert msgspec.msgpack.decode(encoder_for(b"binary")(refusal)) == ["refusal", "code", "why"]  # type: ignore[arg-type]
