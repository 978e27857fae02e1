"""Only JSON that everybody reads alike is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import InvalidRequest
from fairway.strict import MOST_DEPTH, compact_json, strict_json


def check(body: bytes, code: str) -> None:
    """Reading *body* is refused with *code*."""
    with pytest.raises(InvalidRequest) as refusal:
        strict_json(body)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"nope", b"{'a':1}", b'{"a":1,}', b"[1,]", b"01", b"+1", b"1.", b".5", b"0x10",
        b"NaN", b"Infinity", b"-Infinity", b'{"a":NaN}', b'{"a":1,"a":2}', b'{"a":{"b":1,"b":1}}',
        b'"\xff"', b'{"a":"\xc3"}', b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b'"\x01"', b'"a\nb"',
        b"1 2", b"{} {}", b"9" * 5000, b"// c\n1", b'"\\x41"', b"tru", b"True",
    ],
)  # fmt: skip
def test_what_is_not_plain_json_is_refused(body: bytes) -> None:
    check(body, "bad_json")


def test_nesting_without_end_is_refused() -> None:
    check(b"[" * 1_000_000, "too_deep")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_value_may_be_nested_so_deep_and_no_deeper() -> None:
    assert compact_json(nested(MOST_DEPTH - 1), "args") == json.dumps(nested(MOST_DEPTH - 1)).encode()
    with pytest.raises(InvalidRequest) as refusal:
        compact_json(nested(MOST_DEPTH), "args")
    assert refusal.value.code == "too_deep"


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**300, float("inf"), float("nan"), {"a": [2**70]}])
def test_numbers_that_others_would_change_are_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        compact_json(value, "args")


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a", "\ud83d"], {1, 2}, b"bytes", object()])
def test_what_is_not_text_or_not_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        compact_json(value, "args")


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_what_is_taken_comes_back_as_it_was(value: object) -> None:
    assert strict_json(compact_json(value, "args")) == value
    assert strict_json(json.dumps(value).encode()) == value
