"""An event loop whose clock leaps: nobody sleeps, and a minute of timers is over as soon as it is worked off.

The loop is asyncio's own. Only its selector is another: where it would wait for the next timer, it sets the
clock to that moment. Fairway's clock is read from the same place, so leases, terms and patience agree with
the loop. If nothing is ready and no timer is set, everybody waits for ever: the test fails with `Stuck`.

For code without threads, processes and sockets only: to these, time does not leap.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from unittest import mock

from fairway import clock

P = ParamSpec("P")
T = TypeVar("T")

#: What one turn of the loop costs: something, so that who looks again and again sees time pass.
TURN_SECONDS = 0.00002
WALL_OFFSET = 1_900_000_000 * 10**9


class Stuck(AssertionError):
    """Every task waits for another."""


class VirtualClock:
    """Stands where the module `time` does."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic_ns(self) -> int:
        """Return the time that passed, in the loop as in Fairway."""
        return int(self.seconds * 1e9)

    def time_ns(self) -> int:
        """Return a wall time that nobody sets."""
        return self.monotonic_ns() + WALL_OFFSET


class LeapingSelector(selectors.SelectSelector):
    """Never waits: lets the time pass instead."""

    def __init__(self, ticking: VirtualClock) -> None:
        super().__init__()
        self._clock = ticking

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Stuck("every task waits, and no timer is set")
            self._clock.seconds += max(timeout, TURN_SECONDS)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a clock of ours."""

    def __init__(self, ticking: VirtualClock) -> None:
        super().__init__(LeapingSelector(ticking))
        self._ticking = ticking
        # What a failed test leaves behind is told in a line: a traceback written by the collector while
        # Python parses (3.11 does so to write tracebacks) breaks its parser.
        self.set_exception_handler(lambda loop, context: print("left behind:", context["message"]))

    def time(self) -> float:
        return self._ticking.seconds


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time."""
    ticking = VirtualClock()
    with (
        mock.patch.object(clock, "time", ticking),
        mock.patch.object(clock, "_ahead", 0),
        asyncio.Runner(loop_factory=lambda: VirtualLoop(ticking)) as runner,
    ):
        return runner.run(coroutine)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a plain test of an async one."""

    @wraps(test)
    def plain(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return plain


async def in_time(awaitable: Awaitable[T], seconds: float = 60.0) -> T:
    """Return what is awaited, or fail: nothing may hang."""
    async with asyncio.timeout(seconds):
        return await awaitable


async def until(fact: Callable[[], object], seconds: float = 60.0, every: float = 0.001) -> None:
    """Return as soon as *fact* holds, or fail."""
    async with asyncio.timeout(seconds):
        while not fact():  # noqa: ASYNC110 - facts of any kind, and time costs nothing
            await asyncio.sleep(every)
