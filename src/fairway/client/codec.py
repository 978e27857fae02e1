"""How a task's arguments and its value travel: JSON, brought back to their types by the task's own hints.

A payload is `{"args": [...], "kwargs": {...}}`. What JSON has itself (text, numbers, lists...) is taken as
it comes; everything else (datetime, UUID, Decimal, Enum, dataclass, Struct...) is converted by
`msgspec.convert`, parameter by parameter. The plan for that is made once, at the first job and not at
registration, so that a hint may name a class that is defined further down.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from fairway.errors import PermanentFailure

Convert = Callable[[Any], Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

EMPTY = b'{"args":[],"kwargs":{}}'

encode = msgspec.json.Encoder().encode


class Payload(msgspec.Struct):
    """A payload as it is read; fields it does not know are ignored."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}


_read = msgspec.json.Decoder(Payload).decode


class Plan(NamedTuple):
    """Which arguments need converting, by position and by name; None where JSON's own value will do."""

    positional: tuple[Convert | None, ...]
    rest: Convert | None
    named: Mapping[str, Convert]
    other: Convert | None

    @property
    def is_empty(self) -> bool:
        """Say whether every argument is taken as it comes."""
        return not any((*self.positional, self.rest, self.named, self.other))


def load(payload: bytes, plan: Plan | None) -> Arguments:
    """Read a payload; *plan* is None when nothing needs converting."""
    try:
        found = _read(payload)
        if plan is None:
            return tuple(found.args), found.kwargs
        return _positional(plan, found.args), _named(plan, found.kwargs)
    except ValueError as error:  # what does not fit now never will: another try would be wasted
        raise PermanentFailure(str(error)) from error


def plan_for(function: Callable[..., Any], signature: inspect.Signature) -> Plan | None:
    """Make the plan by which a task's arguments are converted, or None if none needs it."""
    positional: list[Convert | None] = []
    named: dict[str, Convert] = {}
    rest = other = None
    for parameter in signature.parameters.values():
        convert = converter(hint_of(function, parameter.name), f"argument {parameter.name!r}")
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = convert
        elif parameter.kind is parameter.VAR_KEYWORD:
            other = convert
        else:
            if parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append(convert)
            if convert is not None:
                named[parameter.name] = convert
    plan = Plan(tuple(positional), rest, named, other)
    return None if plan.is_empty else plan


def converter(hint: Any, what: str) -> Convert | None:
    """Return a function from JSON's value to *hint*'s type, or None if they are the same."""
    if is_native(hint):
        return None
    _refuse_unknown(hint, what)

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, hint, str_keys=True)
        except msgspec.ValidationError as error:
            raise ValueError(f"{what} does not fit {_name(hint)}: {error}") from error

    return convert


def hint_of(function: Callable[..., Any], name: str) -> Any:
    """Return the hint of a parameter (or "return"), its text resolved; Any when there is none."""
    function = inspect.unwrap(function)
    hint = getattr(function, "__annotations__", {}).get(name, Any)
    if not _has_text(hint):
        return hint
    holder = type("Hint", (), {"__annotations__": {name: hint}})
    try:
        spaces = getattr(function, "__globals__", {})
        return typing.get_type_hints(holder, spaces, _closure(function), include_extras=True)[name]
    except NameError as error:
        raise TypeError(
            f"{function.__qualname__}: the hint {hint!r} of {name!r} has no meaning when it runs ({error});"
            " import it outside of `if TYPE_CHECKING`"
        ) from error


def is_native(hint: Any) -> bool:
    """Say whether JSON gives a value of this type as it is."""
    if hint in (Any, None, type(None), object, bool, int, float, str, list, dict, inspect.Parameter.empty):
        return True
    if isinstance(hint, typing.TypeVar):
        return True
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is list or _is_union(origin):
        return all(is_native(part) for part in parts)
    if origin is dict:
        return parts[0] in (str, Any) and is_native(parts[1])
    return origin is typing.Literal and all(isinstance(part, str | int | None) for part in parts)


def _positional(plan: Plan, values: list[Any]) -> tuple[Any, ...]:
    known = plan.positional
    return tuple(
        value if (convert := known[index] if index < len(known) else plan.rest) is None else convert(value)
        for index, value in enumerate(values)
    )


def _named(plan: Plan, values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        convert = plan.named.get(name, plan.other)
        if convert is not None:
            values[name] = convert(value)
    return values


def _refuse_unknown(hint: Any, what: str) -> None:
    # Known now rather than at the first value, so that the error names the hint and not the value.
    try:
        msgspec.inspect.type_info(hint)
    except TypeError as error:
        raise TypeError(f"{what}: JSON cannot carry {_name(hint)}: {error}") from error
    if isinstance(msgspec.inspect.type_info(hint), msgspec.inspect.CustomType):
        raise TypeError(f"{what}: JSON cannot carry {_name(hint)}; use a dataclass, a Struct or plain values")


def _is_union(origin: Any) -> bool:
    return origin is typing.Union or getattr(origin, "__name__", "") == "UnionType"


def _has_text(hint: Any) -> bool:
    if isinstance(hint, str | typing.ForwardRef):
        return True
    return any(_has_text(part) for part in typing.get_args(hint) if not isinstance(part, int | bool))


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of the enclosing function that *function* holds on to: a hint may be one of them."""
    try:
        found = inspect.getclosurevars(function)
    except TypeError:
        return {}
    return dict(found.nonlocals)


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", None) or repr(hint)
