"""A value that does not fit is refused in plain words, with the name of its field."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from fairway.errors import InvalidRequest
from fairway.misfits import misfit
from fairway.strict import convert


class Colour(StrEnum):
    """A closed set."""

    RED = "red"
    BLUE = "blue"


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """A part of an order."""

    item: str
    count: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """Something with fields of all kinds."""

    limit: int | None = None
    rate: str | msgspec.UnsetType | None = msgspec.UNSET
    delay: int | float | str | None = None
    urgent: bool = False
    colour: Colour = Colour.RED
    kind: Literal["new", "used"] | msgspec.UnsetType | None = msgspec.UNSET
    away: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    name: Annotated[str, msgspec.Meta(max_length=3)] = ""
    lines: list[Line] = []
    by_name: dict[str, Line] = {}


def check(value: Any, says: str, field: str | None) -> None:
    """An order that is *value* is refused with these words."""
    with pytest.raises(InvalidRequest) as refusal:
        convert(value, Order)
    error = refusal.value
    assert (error.detail, error.field) == (says, field)
    assert (error.code, error.status) == ("invalid", 422)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"limit": "x"}, "limit: expected a whole number or null, got text"),
        ({"limit": 2.5}, "limit: expected a whole number or null, got a fraction"),
        ({"rate": 5}, "rate: expected text or null, got a whole number"),
        ({"delay": []}, "delay: expected a number, text or null, got a list"),
        ({"urgent": None}, "urgent: expected true or false, got null"),
        ({"lines": {}}, "lines: expected a list, got an object"),
        ({"name": "long"}, "name: expected text of length at most 3"),
        ({"lines": [{"item": "x", "count": 0}]}, "lines[0].count: expected a whole number, at least 1"),
    ],
)
def test_types_are_named_in_plain_words(value: Any, says: str) -> None:
    check(value, says, says.partition(":")[0])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"colour": "pink"}, "colour: expected red or blue, got 'pink'"),
        ({"kind": "lost"}, "kind: expected new, used or null, got 'lost'"),
        ({"away": False}, "away: expected true, got false"),
    ],
)
def test_the_values_of_a_choice_are_named(value: Any, says: str) -> None:
    check(value, says, says.partition(":")[0])


def test_known_fields_are_named_beside_an_unknown_one() -> None:
    fields = ", ".join(Order.__struct_fields__)
    check({"bogus": 1}, f"bogus: unknown field; known here: {fields}", "bogus")
    known = "unknown field; known here: item, count"
    check({"lines": [{"item": "x"}, {"what": 1}]}, f"lines[1].what: {known}", "lines[1].what")
    check({"by_name": {"a": {"what": 1}}}, f"by_name[...].what: {known}", "by_name[...].what")
    check({"lines": [{}]}, "lines[0].item: it is required", "lines[0].item")


def test_what_is_no_object_at_all_has_no_field() -> None:
    check([], "expected an object, got a list", None)


def test_without_a_type_it_is_said_as_far_as_it_is_known() -> None:
    assert misfit(ValueError("Invalid enum value 'x' - at `$.kind`")).detail == "kind: 'x' is not known here"
    assert misfit(ValueError("Object contains unknown field `x`")).detail == "x: unknown field"
