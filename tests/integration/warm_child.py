"""A warm child in plain Python, as somebody would write one by the page docs/reference/warm.md alone."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

READ = os.fdopen(int(os.environ["FAIRWAY_READ_FD"]), encoding="utf-8")
WRITE = os.fdopen(int(os.environ["FAIRWAY_WRITE_FD"]), "w", encoding="utf-8", buffering=1)
cancelled = threading.Event()
now: dict[str, Any] = {}


class Cancelled(Exception):
    """The attempt was asked to end."""


class Permanent(Exception):
    """No new attempt will help."""


class Later(Exception):
    """A new attempt, in so many seconds."""


def add(one: int, other: int) -> int:
    return one + other


def fail(message: str) -> None:
    raise ValueError(message)


def refuse(message: str) -> None:
    raise Permanent(message)


def later(seconds: float) -> None:
    raise Later(seconds)


def sleep(seconds: float) -> str:
    print("sleeping")
    if cancelled.wait(seconds):
        raise Cancelled(now["reason"])
    return "rested"


def spin(seconds: float) -> None:
    """Resist: neither `cancel` nor SIGTERM ends it."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("spinning")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def shout(text: str) -> None:
    print(text)
    print(text.upper(), file=sys.stderr)
    print("no end", end="")


def count(to: int) -> int:
    start = now["run"]["checkpoint"] or 0
    for number in range(start, to):
        say("progress", fraction=(number + 1) / to, text=f"{number + 1} of {to}")
        say("checkpoint", value=number + 1)
    say("log", text="counted")
    return start


def die(code: int) -> None:
    print("dying", file=sys.stderr)
    os._exit(code)


def large(length: int) -> str:
    return "x" * length


def where() -> dict[str, Any]:
    return {"pid": os.getpid(), "queue": now["run"]["queue"], "generation": now["run"]["generation"]}


TASKS: dict[str, Callable[..., Any]] = {
    task.__name__: task for task in (add, fail, refuse, later, sleep, spin, shout, count, die, large, where)
}


def write(message: dict[str, Any]) -> None:
    WRITE.write(json.dumps(message) + "\n")


def say(kind: str, **more: Any) -> None:
    write({kind: {"job": now["run"]["job"], "attempt": now["run"]["attempt"], **more}})


def describe(error: BaseException) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": traceback.format_exc(),
        "permanent": isinstance(error, Permanent),
    }
    if isinstance(error, Later):
        body["retry_after"] = error.args[0]
    return body


def run(order: dict[str, Any]) -> None:
    try:
        value = TASKS[order["task"]](*order["args"], **order["kwargs"])
        more: dict[str, Any] = {"ok": True, "value": value}
    except Exception as error:
        more = {"ok": False, "error": describe(error)}
    sys.stdout.flush()
    say("result", **more)


def listen(orders: Any) -> None:
    job = None  # a cancel may come before the main thread has begun the job it is meant for
    for line in READ:
        message = json.loads(line)
        if "cancel" in message and message["cancel"]["job"] == job:
            now["reason"] = message["cancel"]["reason"]
            cancelled.set()
        elif "run" in message:
            job = message["run"]["job"]
            cancelled.clear()
            orders.put(message["run"])
        elif "exit" in message:
            break
    orders.put(None)


def main() -> None:
    import queue

    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    tasks = [{"name": name, "signature": "(...)", "new": 1} for name in TASKS]
    write({"ready": {"protocol": 1, "tasks": tasks, "version": "python", "concurrency": 1}})
    while (order := orders.get()) is not None:
        now["run"] = order
        run(order)


if __name__ == "__main__":
    main()
