"""`fairway queues`: the tree with its live numbers, and its settings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import click

from fairway.cli.calling import current, part, path, talks
from fairway.cli.describing import what
from fairway.cli.moments import exact, show_seconds, whole_seconds
from fairway.cli.moving import follow, rename
from fairway.cli.output import clean, say, show_facts, show_json, show_table
from fairway.cli.parsing import read_json
from fairway.cli.queue_changes import apply, history, revert
from fairway.errors import Conflict, InvalidRequest, NoAdvice, WorldError

NEXT_SHOWN = 10
MOST_PAGES = 1000
#: Of which `none` says that nothing shall bound them, also below a queue that does.
MAY_HAVE_NO_BOUND = ("max_attempts", "max_crashes", "timeout")
NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?", re.ASCII)
#: What can be set on a queue.
SETTINGS = (
    "limit", "assured", "lend", "priority", "weight", "rate", "burst", "paused", "discipline", "unique",
    "on_lease_lost", "quantum", "charge", "flow_weights", "depth", "capacity", "divisor", "perturb",
    "overflow", "max_attempts", "max_crashes", "timeout", "backoff", "grace", "retention",
)  # fmt: skip
#: Those that are seconds.
DURATIONS = ("timeout", "grace", "retention", "perturb")
#: Those that are shown only where they are not as they come.
USUAL = {"lend": True, "priority": 0, "weight": 1, "paused": False}


@click.group()
@talks
def queues() -> None:
    """List queues, set their limits, pause and resume them.

    A queue is named by its path, such as acme/emails. What is set there holds for all below it.
    """


@queues.command("list")
@talks
def list_queues() -> None:
    """List the tree, parents before children."""
    answer = _all_pages()
    if current().json:
        show_json(answer)
        return
    headings = (
        "queue", "waiting", "scheduled", "running", "limit", "oldest wait", "in/s", "out/s", "wait p90",
        "run p50", "errors", "settings", "held up by",
    )  # fmt: skip
    empty = "no queues yet; one exists from its first job on"
    show_table(headings, map(_row, answer["queues"]), empty, gives_way=["held up by", "settings"])


def _all_pages() -> dict[str, Any]:
    """Read the whole tree, page by page."""
    transport, queues, after = current().transport(), list[Any](), ""
    for _ in range(MOST_PAGES):
        answer = transport.call("GET", "/queues", params={"after": after} if after else None)
        queues += answer["queues"]
        after = answer.get("next")
        if not after:
            break
    return {"queues": queues, "next": after or None}


def _row(queue: dict[str, Any]) -> tuple[object, ...]:
    settings = dict(queue.get("settings") or {})
    limit = settings.pop("limit", None)
    *above, name = queue["path"].split("/")
    rates = queue.get("rates") or {}
    return (
        "  " * len(above) + name,
        queue.get("waiting", 0),
        queue.get("scheduled", 0),
        queue.get("running", 0),
        limit,
        show_seconds(queue.get("oldest_wait")),
        _rate(rates.get("in")),
        _rate(rates.get("out")),
        show_seconds((queue.get("wait") or {}).get("p90")),
        show_seconds((queue.get("run") or {}).get("p50")),
        _share(queue.get("errors")),
        _settings(settings),
        _held_up_by(queue),
    )


def _rate(rate: float | None) -> str | None:
    return f"{rate:.3g}" if rate else None


def _share(share: float | None) -> str | None:
    return f"{share:.1%}" if share else None


def _percentiles(found: dict[str, float] | None) -> str | None:
    """Write percentiles on one line: `p50 12 ms, p90 1.2 s, p99 5 s`."""
    return ", ".join(f"{name} {show_seconds(seconds)}" for name, seconds in (found or {}).items()) or None


def _held_up_by(queue: dict[str, Any]) -> str | None:
    """Say which queue's setting lets nothing more begin: `acme: paused`."""
    limited_by: str | None = queue.get("limited_by")
    found = re.fullmatch(r"(\w+) of '(.+)'", limited_by or "")
    if found is None:
        return limited_by
    return f"{found[2]}: {'limit is full' if found[1] == 'limit' else found[1]}"


def _settings(settings: dict[str, Any]) -> str:
    words = []
    for name, value in settings.items():
        if value is None or value == USUAL.get(name):
            continue
        if name == "flow_weights":
            words.append(f"flow weights: {len(value)}")
        elif isinstance(value, bool):
            words.append(name if value else f"{name}=false")
        else:
            words.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
    return " ".join(words)


@queues.command()
@click.argument("queue")
@talks
def show(queue: str) -> None:
    """Show one queue, its numbers and flows, and which jobs begin next there and below."""
    transport = current().transport()
    found = transport.call("GET", f"/queues/{path(queue)}")
    if current().json:
        show_json(found)
        return
    _show(found)
    for number, job in enumerate(_next_jobs(queue), start=1):
        say(clean(f"next {number:>2}      {job['id']}  {what(job)}"))
    if found.get("flows"):
        say()
        headings = (
            "flow", "waiting", "running", "oldest wait", "in/s", "out/s", "wait p90", "run p50", "errors",
            "share", "weight", "slot-seconds",
        )  # fmt: skip
        show_table(headings, map(_flow_row, found["flows"]), gives_way=["flow"])


def _next_jobs(queue: str) -> list[dict[str, Any]]:
    """Return which jobs begin next, none if the node cannot tell."""
    try:
        coming = current().transport().call("GET", f"/queues/{path(queue)}/-/next", params={"n": NEXT_SHOWN})
    except WorldError as error:
        if error.code != NoAdvice.code:
            raise
        say(clean(f"next         {error}"))
        return []
    found: list[dict[str, Any]] = coming["jobs"]
    return found


def _flow_row(flow: dict[str, Any]) -> tuple[object, ...]:
    return (
        "(none)" if flow.get("flow") is None else flow["flow"],
        flow.get("waiting"),
        flow.get("running"),
        show_seconds(flow.get("oldest_wait")),
        _rate((flow.get("rates") or {}).get("in")),
        _rate((flow.get("rates") or {}).get("out")),
        show_seconds((flow.get("wait") or {}).get("p90")),
        show_seconds((flow.get("run") or {}).get("p50")),
        _share(flow.get("errors")),
        _share(flow.get("share")),
        flow.get("weight"),
        flow.get("slot_seconds"),
    )


def _show(queue: dict[str, Any]) -> None:
    settings = dict(queue.get("settings") or {})
    show_facts(
        [
            ("queue", queue["path"]),
            ("waiting", queue.get("waiting")),
            ("scheduled", queue.get("scheduled")),
            ("running", queue.get("running")),
            ("limit", "none" if settings.get("limit") is None else settings["limit"]),
            ("paused", "yes" if settings.get("paused") else "no"),
            *_unusual(settings),
            ("oldest wait", show_seconds(queue.get("oldest_wait"))),
            *_numbers(queue),
            ("held up by", _held_up_by(queue)),
            ("moving to", queue.get("moving_to")),
            ("changed", _changed(queue.get("changed"))),
        ]
    )


def _changed(last: dict[str, Any] | None) -> str | None:
    return None if last is None else f"by {last['by']} {exact(last['at'])}"


def _numbers(queue: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what was counted: how fast, how long, how much."""
    rates = queue.get("rates") or {}
    yield "rates", ", ".join(f"{name} {rate:.3g}/s" for name, rate in rates.items() if rate)
    yield "wait", _percentiles(queue.get("wait"))
    yield "run", _percentiles(queue.get("run"))
    yield "errors", _share(queue.get("errors"))
    if queue.get("slot_seconds"):
        yield "slot-seconds", f"{queue['slot_seconds']:.1f} in {queue.get('begun') or 0} attempts"


def _unusual(settings: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the settings that are not as they come, but for those that are always shown."""
    for name in SETTINGS:
        value = settings.get(name)
        if name not in ("limit", "paused") and value is not None and value != USUAL.get(name):
            yield name.replace("_", " "), _in_words(name, value)


def _in_words(name: str, value: Any) -> object:
    if name == "backoff":
        return ", ".join(f"{bound} {whole_seconds(seconds)}" for bound, seconds in value.items())
    if name in DURATIONS:
        return whole_seconds(value)
    return json.dumps(value) if isinstance(value, dict) else value


@queues.command("set")
@click.argument("queue")
@click.argument("changes", metavar="KEY=VALUE...", nargs=-1, required=True)
@talks
def set_queue(queue: str, changes: tuple[str, ...]) -> None:
    """Change settings, live: limit=3, limit=none, weight=2.5, rate=100/min, discipline=sfq."""
    read = [read_change(change) for change in changes]
    names = [name for name, _ in read]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"{name} is given twice")
    _patch(queue, json.dumps(dict(read)).encode())  # numbers of any size, which the client would not send


def read_change(text: str) -> tuple[str, Any]:
    """Read `key=value`: null, true, false, a number, an object in JSON, or a text.

    `none` is null, too, but where it means that there shall be no bound, whatever holds above.
    """
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[a-z_]+", key):
        raise click.UsageError(f"{text!r} is no setting; write KEY=VALUE, such as limit=3")
    if key not in SETTINGS:
        raise click.UsageError(f"there is no setting {key!r}; there are {', '.join(SETTINGS)}")
    words: dict[str, Any] = {"none": None, "null": None, "true": True, "false": False}
    words |= {"none": "none"} if key in MAY_HAVE_NO_BOUND else {}
    if value.lower() in words:
        return key, words[value.lower()]
    if value.startswith("{"):
        try:
            return key, read_json(value.encode())
        except InvalidRequest as error:
            raise click.UsageError(f"{key} {error}") from None
    if not value.strip():
        raise click.UsageError(f"{key} is empty; {_instead_of_nothing(key)}")
    return key, _number(key, value) if NUMBER.fullmatch(value) else value


def _number(key: str, text: str) -> int | float:
    """Read a number, whatever its size: the node knows the bounds. `1e3` is a whole one, `2.0` is not."""
    if text.lstrip("-").isdecimal():
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise click.UsageError(f"{key} is a number that is not finite: {text[:60]}")
    return int(number) if "." not in text and number.is_integer() else number


def _instead_of_nothing(key: str) -> str:
    if key in ("lend", "paused"):
        return f"write {key}=true or {key}=false"
    clears = "null" if key in MAY_HAVE_NO_BOUND else "none"
    return f"write a value, or {key}={clears} to clear the setting"


@queues.command()
@click.argument("queue")
@talks
def pause(queue: str) -> None:
    """Let nothing begin in a queue and below it; what runs goes on."""
    _patch(queue, {"paused": True})


@queues.command()
@click.argument("queue")
@talks
def resume(queue: str) -> None:
    """Let a paused queue go on."""
    _patch(queue, {"paused": False})


def _patch(queue: str, changes: dict[str, Any] | bytes) -> None:
    answer = current().transport().call("PATCH", f"/queues/{path(queue)}", body=changes)
    if current().json:
        show_json(answer)
    else:
        _show(answer)


@queues.command()
@click.argument("queue")
@click.option("--move-to", metavar="QUEUE", help="Move what waits there, and below it, to this queue first.")
@talks
def delete(queue: str, move_to: str | None) -> None:
    """Forget an empty queue and its settings, or one whose jobs are moved elsewhere."""
    try:
        answer = current().transport().call("DELETE", f"/queues/{path(queue)}", params={"move_to": move_to})
    except Conflict as error:
        if error.code != "not_empty":
            raise
        said = f"{error.detail}; --move-to QUEUE moves what is there to another one first"
        raise click.ClickException(said) from None
    if move_to is not None:
        answer = follow(answer)
    if current().json:
        show_json({"deleted": queue} if answer is None else answer)
    else:
        say(clean(f"queue {queue} is forgotten"))


@queues.command()
@click.argument("queue", metavar="QUEUE|GLOB")
@click.argument("worker")
@talks
def attach(queue: str, worker: str) -> None:
    """Let a worker take jobs of a queue."""
    globs = _globs(worker)
    _attach(worker, globs if queue in globs else [*globs, queue])


@queues.command()
@click.argument("queue", metavar="QUEUE|GLOB")
@click.argument("worker")
@talks
def detach(queue: str, worker: str) -> None:
    """Let a worker take no more jobs of a queue; what runs goes on."""
    globs = _globs(worker)
    if queue not in globs:
        attached = ", ".join(globs) or "nothing"
        raise click.ClickException(f"{worker} is not attached to {queue!r} by that name, but to: {attached}")
    _attach(worker, [glob for glob in globs if glob != queue])


def _globs(worker: str) -> list[str]:
    found = current().transport().call("GET", f"/workers/{part(worker)}")
    if found.get("queues") is None:  # what was added to nothing would take from it all that it serves
        raise click.ClickException(f"what {worker} serves is not known before it connects again; try later")
    return list(found["queues"])


def _attach(worker: str, globs: list[str]) -> None:
    answer = current().transport().call("PATCH", f"/workers/{part(worker)}", body={"queues": globs})
    if current().json:
        show_json(answer)
    else:
        say(clean(f"{worker} takes jobs of: {', '.join(answer.get('queues') or globs) or 'nothing'}"))


for command in (history, revert, apply, rename):
    queues.add_command(command)
