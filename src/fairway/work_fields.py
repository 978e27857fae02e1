"""Checks that the kinds of work have in common; each names the field that does not fit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fairway.errors import InvalidRequest
from fairway.masking import MASK
from fairway.names import check_characters
from fairway.times import parse_duration

MOST_VARIABLES = 1000


def check_known(given: dict[str, Any], known: Collection[str], field: str = "work") -> None:
    """Refuse fields that nobody would read."""
    for key in given:
        if key not in known:
            raise InvalidRequest(
                f"{field} has no field {str(key)[:60]!a}; known are {', '.join(known)}", field=field
            )


def check_string(value: object, field: str) -> None:
    """Refuse what is not text that a program can be given."""
    if not isinstance(value, str):
        raise InvalidRequest(
            f"{field} has a {type(value).__name__} where a string is due; quote it", field=field
        )
    check_characters(value, field)


def check_optional_text(value: object, field: str) -> None:
    """Refuse an empty text: it would mean something else to everybody."""
    if value is None:
        return
    if not value:
        raise InvalidRequest(f"{field} is empty; leave it out or give it a value", field=field)
    check_string(value, field)


def check_variables(values: object, field: str) -> None:
    """Check an object of environment variables."""
    if values is None:
        return
    if not isinstance(values, dict) or len(values) > MOST_VARIABLES:
        raise InvalidRequest(f"{field} must be an object of at most {MOST_VARIABLES} strings", field=field)
    for name, value in values.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise InvalidRequest(f"{field} has a bad variable name {name!a:.60}", field=field)
        check_string(name, field)
        check_string(value, field)


def check_not_masked(value: object, field: str) -> None:
    """Refuse what was copied from where secrets are not shown: it would be stored as the secret."""
    if value == MASK:
        raise InvalidRequest(
            f"{field} is {MASK!r}, as secrets are shown; write the secret itself", field=field
        )


def check_timeout(value: object, field: str) -> None:
    """Check a duration above 0, if there is one."""
    if value is not None and parse_duration(value, field) == 0:
        raise InvalidRequest(f"{field} must be above 0; leave it out for no timeout", field=field)


def check_whole(value: object, least: int, most: int, field: str) -> int:
    """Return a whole number within its bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequest(f"{field} must be a whole number from {least:,} to {most:,}", field=field)
    return value
