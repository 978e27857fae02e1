"""Strict JSON: what comes from outside means one thing only, and can be written down again.

Python's and many other parsers accept what the standard does not (NaN, duplicate keys) or what another
reader would see differently (huge integers, lone surrogates). All of it is refused here, at the edge.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, TypeVar

import msgspec

from fairway.errors import InvalidRequest
from fairway.misfits import misfit

MOST_DEPTH = 64
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1

T = TypeVar("T")


def strict_json(body: bytes) -> Any:
    """Read a JSON document, refusing what is not standard and what is ambiguous (400)."""
    try:
        return _decode(body.decode())
    except UnicodeDecodeError as error:
        raise _bad(f"the body is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise InvalidRequest(f"the body is nested deeper than {MOST_DEPTH}", code="too_deep") from None
    except json.JSONDecodeError as error:
        raise _bad(f"the body is not JSON: {error.msg} (character {error.pos})") from None
    except ValueError as error:
        raise _bad(f"the body is not JSON that everyone reads alike: {_first_line(error)}") from None


def check_value(value: object, field: str) -> None:
    """Refuse a value that JSON cannot carry faithfully: too deep, too large a number, another type."""
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                continue
            if kind is dict:
                below += item.values()
            elif kind is list or kind is tuple:
                below += item
            elif item is not None and kind is not bool:
                _check_number(item, field)
        if not below:
            return
        level = below
    raise InvalidRequest(f"{field} is nested deeper than {MOST_DEPTH}", code="too_deep", field=field)


def compact_json(value: object, field: str) -> bytes:
    """Write a value as JSON without spaces; it is checked first."""
    check_value(value, field)
    try:
        return _encode(value)
    except UnicodeEncodeError:
        raise InvalidRequest(f"{field} has a lone surrogate, which is not text", field=field) from None
    except TypeError as error:
        raise InvalidRequest(f"{field} is not JSON: {error}", field=field) from None


def convert(value: object, type: type[T], *, strict: bool = True) -> T:
    """Turn plain JSON into a typed value, naming the field that does not fit."""
    try:
        return msgspec.convert(value, type, strict=strict)
    except msgspec.ValidationError as error:
        raise misfit(error, type) from None
    except UnicodeEncodeError:  # where text is due for something else, it is looked at as bytes
        raise InvalidRequest("a lone surrogate is not text") from None


def _check_number(item: object, field: str) -> None:
    if isinstance(item, int):
        if not LEAST_INTEGER <= item <= MOST_INTEGER:
            raise InvalidRequest(f"{field} has an integer beyond 64 bits; send it as text", field=field)
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise InvalidRequest(f"{field} has a number that is not finite", field=field)
    elif not isinstance(item, str | list | dict | tuple):
        raise InvalidRequest(f"{field} has a {type(item).__name__}, which JSON does not know", field=field)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return keys


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _bad(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, code="bad_json", status=400)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


_decode = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant).decode
_encode = msgspec.json.Encoder().encode
