"""What does not fit its type, in plain words: msgspec names types of Python, and neither fields nor values.

What it says is short and has a place: "Expected `int | null`, got `str` - at `$.jobs[3].priority`". What
could stand at that place is looked up in the type, only once something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect

from fairway.errors import InvalidRequest

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
JSON = {"True": "true", "False": "false", "None": "null"}
BOUNDS = {" of length <=": " of length at most", " of length >=": " of length at least"}
BOUNDS |= {" <=": ", at most", " >=": ", at least", " <": ", below", " >": ", above"}

_named = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_chosen = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_bound = re.compile("|".join(BOUNDS))


def misfit(error: Exception, type: Any = None) -> InvalidRequest:
    """Say in our words what msgspec found in a value that should be of *type*, if that is known."""
    said, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`")
    if named := _named.fullmatch(said):
        text = _of_field(named[1], type, path)
        path += f".{named[2]}"
    elif chosen := _chosen.fullmatch(said):
        text = _of_choice(chosen[1], type, path)
    else:
        text = _of_type(said)
    field = path.lstrip(".")
    return InvalidRequest(f"{field}: {text}" if field else text, field=field or None)


def _of_field(problem: str, type: Any, path: str) -> str:
    if problem == "missing required":
        return "it is required"
    structs = [one for one in _types_at(type, path) if isinstance(one, inspect.StructType)]
    known = ", ".join(field.encode_name for one in structs for field in one.fields)
    return f"unknown field; known here: {known}" if known else "unknown field"


def _of_choice(value: str, type: Any, path: str) -> str:
    types = _types_at(type, path)
    allowed = [WORDS["int"] for each in types if isinstance(each, inspect.IntType)]
    allowed += [JSON.get(str(one), str(one)) for each in types for one in _values(each)]
    value = JSON.get(value, value)
    return f"expected {_either(allowed)}, got {value}" if allowed else f"{value} is not known here"


def _of_type(said: str) -> str:
    said = said.replace(", got `float`", ", got a fraction")  # where a whole number may be due
    text = re.sub("`([^`]*)`", lambda names: _in_words(names[1].split(" | ")), said)
    text = _bound.sub(lambda bound: BOUNDS[bound[0]], text)
    return text[:1].lower() + text[1:]


def _in_words(names: Sequence[str]) -> str:
    return _either([WORDS.get(name, name) for name in names if name != "int" or "float" not in names])


def _either(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _types_at(type: Any, path: str) -> list[inspect.Type]:
    """Return what may stand at a path such as `.jobs[3].work`."""
    found = [] if type is None else list(_members(inspect.type_info(type)))
    for name in re.findall(r"\.([^.\[]+)|\[[^\]]*\]", path):
        found = [one for above in found for below in _below(above, name) for one in _members(below)]
    return found


def _members(one: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(one, inspect.Metadata):
        yield from _members(one.type)
    elif isinstance(one, inspect.UnionType):
        for each in one.types:
            yield from _members(each)
    else:
        yield one


def _below(one: inspect.Type, name: str) -> list[inspect.Type]:
    """Return the types of a field, or (no *name*) those of the items."""
    if isinstance(one, inspect.StructType):
        return [field.type for field in one.fields if field.encode_name == name]
    if isinstance(one, inspect.DictType):
        return [one.value_type]
    return [one.item_type] if isinstance(one, inspect.CollectionType) else []


def _values(one: inspect.Type) -> list[Any]:
    """Return what a choice consists of; any other type is none."""
    if isinstance(one, inspect.EnumType):
        return [each.value for each in one.cls]
    if isinstance(one, inspect.NoneType):
        return [None]
    return list(one.values) if isinstance(one, inspect.LiteralType) else []
