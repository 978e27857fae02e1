"""A task: a function that can also be asked for as a job, typed like the function itself."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from fairway.client import codec
from fairway.client.options import JobOptions, checked, merged
from fairway.client.request import JobRequest
from fairway.errors import InvalidRequest

if TYPE_CHECKING:
    from fairway.client.app import App
    from fairway.client.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A registered function. Calling it runs it here; `submit` asks for a job that runs it on a worker."""

    __name__: str

    def __init__(self, app: App, function: Callable[..., Any], name: str, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.app, self.function, self.name = app, function, name
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect.signature(function)
        self.signature = str(self._signature)  # as people are shown it
        self._options = options
        self._least, self._most = _simple_count(self._signature)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now; no job is made."""
        result: R = self.function(*args, **kwargs)
        return result

    @overload
    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def submit(self, *args: Any, connection: Any, **kwargs: Any) -> Handle[R]: ...
    def submit(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """Ask for a job with these arguments; returns once it is durable.

        With `connection=` (docs/guide/transactions.md says which) the job is written in that connection's
        own transaction: it exists when, and only if, the caller commits.
        """
        connection = self._take_connection(kwargs)
        return self.app.submit(self._job(args, kwargs), connection=connection)

    @overload
    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    async def asubmit(self, *args: Any, connection: Any, **kwargs: Any) -> Handle[R]: ...
    async def asubmit(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """Do the same without blocking the event loop."""
        connection = self._take_connection(kwargs)
        return await self.app.asubmit(self._job(args, kwargs), connection=connection)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> JobRequest[R]:
        """Return the job these arguments would make, for `app.submit_many`."""
        return self._job(args, kwargs)

    def options(self, **options: Unpack[JobOptions]) -> Task[P, R]:
        """Return a copy of this task whose jobs have these options; the task itself stays as it is."""
        other = copy.copy(self)
        other._options = merged(self._options, checked(options, JobOptions))
        return other

    def load(self, payload: bytes) -> codec.Arguments:
        """Read a job's payload into the arguments to call the function with."""
        if payload == codec.EMPTY:  # many jobs have no arguments: no parser at all, 0.1 µs
            return (), {}
        return codec.load(payload, self._plan)

    def dump(self, value: Any) -> bytes:
        """Encode what the function returned."""
        try:
            return codec.encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{self.name} returned what JSON cannot carry: {error}") from error

    @functools.cached_property
    def convert_value(self) -> codec.Convert | None:
        """How the value of a job comes back to the function's return type; None: as it is."""
        hint = codec.hint_of(self.function, "return")
        return codec.converter(hint, f"the value of {self.name}")

    @functools.cached_property
    def _plan(self) -> codec.Plan | None:
        return codec.plan_for(self.function, self._signature)

    def _job(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JobRequest[R]:
        if kwargs or not self._least <= len(args) <= self._most:
            self._bind(args, kwargs)
        try:
            return JobRequest(self, codec.encode(args), codec.encode(kwargs), self._options)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"an argument of {self.name} is not what JSON can carry: {error}") from error

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Refused here, where the mistake is, and not by a worker some tries later.
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.signature}: {error}") from None

    def _take_connection(self, kwargs: dict[str, Any]) -> Any:
        # A task with a parameter of that name keeps it; app.submit(task.job(...), connection=) serves it.
        return None if "connection" in self._signature.parameters else kwargs.pop("connection", None)

    def __repr__(self) -> str:
        return f"<Task {self.name}{self.signature}>"


class AsyncTask(Task[P, R]):
    """A task that is an `async def`: calling it gives a coroutine, its jobs give the awaited value."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        """Return the function's coroutine; no job is made."""
        result: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return result


def name_of(function: Callable[..., Any]) -> str:
    """Return the name a task has unless it is given one: module.function."""
    qualified = function.__qualname__.replace("<locals>.", "")
    if "<" in qualified:
        raise InvalidRequest("a lambda has no name of its own; give name=", field="name")
    return f"{_module_name(function.__module__)}.{qualified}"


def _module_name(module: str) -> str:
    # A script calls itself __main__, the worker that imports it calls it by its file: they must agree.
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    stem = Path(getattr(main, "__file__", None) or "").stem
    return stem if stem[:1].isalpha() else module


def _simple_count(signature: inspect.Signature) -> tuple[float, float]:
    """Return how many positional arguments surely bind; (inf, 0) when only binding can tell."""
    least = most = 0
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            least += parameter.default is parameter.empty
            most += 1
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            return float("inf"), 0
    return least, most
