"""Values on the command line: durations, times, JSON. A wrong one is a usage error, before any call.

Each function is a callback of an option; None means that the option was not given.
"""

from __future__ import annotations

import re
from typing import Any

import click

from fairway.errors import InvalidRequest
from fairway.places import database_given
from fairway.times import parse_duration, parse_time


def duration(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read `90s`, `5m`, `2h`, `1d` or seconds."""
    try:
        return None if text is None else parse_duration(text, parameter.opts[0])
    except InvalidRequest as error:
        raise click.BadParameter(str(error)) from None


def database_address(_: click.Context, __: click.Parameter, address: str | None) -> str | None:
    """Read a database's address, else that of the variable: to click an empty one is absent."""
    return database_given(address)


def lasting(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read a duration that is not nothing."""
    seconds = duration(context, parameter, text)
    if seconds == 0:
        raise click.BadParameter("it must be longer than nothing")
    return seconds


def size(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Read `512MB`, `2GB` or bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,15})\s*(B|KB|MB|GB|TB)?", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{text[:60]!r} is no size; write one such as 512MB")
    return int(found[1]) * UNITS[(found[2] or "B").upper()]


UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def moment(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Read an RFC 3339 time with a zone; returns the text once it is known to be one."""
    try:
        if text is not None:
            parse_time(text, parameter.opts[0])
    except InvalidRequest as error:
        raise click.BadParameter(str(error)) from None
    return text


def deadline(context: click.Context, parameter: click.Parameter, text: str | None) -> str | float | None:
    """Read a time, or a duration counted from the submit."""
    if text is not None and "-" in text:
        return moment(context, parameter, text)
    return duration(context, parameter, text)


def json_list(_: click.Context, __: click.Parameter, text: str | None) -> list[Any] | None:
    """Read a JSON list."""
    value = None if text is None else _json(text)
    if text is not None and not isinstance(value, list):
        raise click.BadParameter(f"""{text[:60]!r} is no list; write one such as '[1, "x"]'""")
    return value


def json_object(_: click.Context, __: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """Read a JSON object."""
    value = None if text is None else _json(text)
    if text is not None and not isinstance(value, dict):
        raise click.BadParameter(f"""{text[:60]!r} is no object; write one such as '{{"to": "x"}}'""")
    return value


def _json(text: str) -> Any:
    try:
        return read_json(text.encode())
    except InvalidRequest as error:
        raise click.BadParameter(f"{text[:60]!r} {error}") from None


def read_json(text: bytes) -> Any:
    """Read JSON as strictly as the node does; the error begins behind the name of what was read."""
    from fairway.strict import strict_json

    try:
        return check_plain(strict_json(text))
    except InvalidRequest as error:
        raise InvalidRequest(error.detail.removeprefix("the body ")) from None


def check_plain(value: Any) -> Any:
    """Return a value that can be sent as it is: no lone surrogate, no number that is not finite."""
    from fairway.strict import compact_json

    try:
        compact_json(value, "it")
    except InvalidRequest as error:
        raise InvalidRequest(error.detail.removeprefix("it ")) from None
    return value


def split_commas(values: tuple[str, ...]) -> tuple[str, ...]:
    """Cut `a,b` into its parts; empty parts are dropped."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())
