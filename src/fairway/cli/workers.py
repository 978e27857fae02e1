"""`fairway workers`: who executes, how busy they are; drain, resume, slots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from fairway.cli.calling import current, part, talks
from fairway.cli.machine import COUNT
from fairway.cli.machine_facts import machine_of
from fairway.cli.moments import exact, relative, show_seconds
from fairway.cli.output import clean, count_of, remark, say, show_facts, show_json, show_table
from fairway.cli.parsing import duration
from fairway.errors import CallerError

POLL_SECONDS = 0.25
#: Of a worker that has not connected since another node leads: only what runs there is written down.
NOT_KNOWN = "-"


@click.group()
@talks
def workers() -> None:
    """List workers; drain them before you stop them, resume them after; change their slots."""


@workers.command("list")
@talks
def list_workers() -> None:
    """List the workers that are there."""
    answer = current().transport().call("GET", "/workers")
    if current().json:
        show_json(answer)
        return
    headings = ("worker", "state", "slots", "busy", "running", "queues", "tags", "joined", "last beat")
    empty = "no workers; start one with `fairway worker --join URL`"
    show_table(headings, map(_row, answer["workers"]), empty, gives_way=["tags", "queues"])


def _row(worker: dict[str, Any]) -> tuple[object, ...]:
    return (
        worker["name"],
        worker["state"],
        worker["slots"],
        _busy(worker),
        worker.get("running", 0),
        _joined(worker.get("queues")),
        _joined(worker.get("tags")),
        relative(worker.get("joined_at")),
        show_seconds(worker.get("last_beat_seconds")),
    )


def _busy(worker: dict[str, Any]) -> str:
    busy = worker.get("busy")
    return NOT_KNOWN if busy is None else f"{busy:.1f}".removesuffix(".0")


def _joined(names: Any) -> str:
    return ", ".join(str(name) for name in names or [])


@workers.command()
@click.argument("name")
@talks
def show(name: str) -> None:
    """Show one worker."""
    _show(current().transport().call("GET", f"/workers/{part(name)}"))


def _show(worker: dict[str, Any]) -> None:
    if current().json:
        show_json(worker)
        return
    show_facts(
        [
            ("worker", worker["name"]),
            ("state", worker["state"]),
            ("slots", f"{_busy(worker)} of {_slots(worker)} busy, {worker.get('running', 0)} attempts"),
            ("queues", NOT_KNOWN if worker["queues"] is None else _joined(worker["queues"]) or "none"),
            ("tags", _joined(worker.get("tags"))),
            ("adapters", _joined(_adapters(worker))),
            ("versions", _joined(_versions(worker))),
            ("joined", exact(worker.get("joined_at")) or NOT_KNOWN),
            ("last beat", _last_beat(worker)),
            ("incarnation", worker.get("incarnation")),
            *((words, value) for words, value in machine_of(worker.get("facts") or {}) if value),
            *(("task" if not index else "", line) for index, line in enumerate(_tasks(worker))),
        ]
    )


def _slots(worker: dict[str, Any]) -> str:
    return NOT_KNOWN if worker["slots"] is None else str(worker["slots"])


def _last_beat(worker: dict[str, Any]) -> str:
    said = show_seconds(worker.get("last_beat_seconds"))
    return NOT_KNOWN if said is None else f"{said} ago"


def _adapters(worker: dict[str, Any]) -> list[str]:
    """Name the adapters, with their versions where they have any."""
    versions = worker.get("versions") or {}
    named = [(name, versions.get(name)) for name in worker.get("adapters") or []]
    return [f"{name} ({version})" if version else str(name) for name, version in named]


def _versions(worker: dict[str, Any]) -> list[str]:
    versions = worker.get("versions") or {}
    others = [name for name in versions if name not in (worker.get("adapters") or ())]
    fairway = [] if "fairway" in others or not worker.get("version") else [f"fairway {worker['version']}"]
    return fairway + [f"{name} {versions[name]}" for name in others]


def _tasks(worker: dict[str, Any]) -> list[str]:
    """Write the tasks with their signatures: `async mail.send(to: str, times: int = 1)`."""
    return [
        f"{'async ' if task.get('async') else ''}{task['name']}{task.get('signature') or ''}"
        for task in worker.get("tasks") or []
    ]


@workers.command("tasks")
@click.argument("name")
@talks
def show_tasks(name: str) -> None:
    """List the tasks a worker knows, with their signatures."""
    worker = current().transport().call("GET", f"/workers/{part(name)}")
    if current().json:
        show_json(worker["tasks"])
        return
    for line in _tasks(worker):
        say(clean(line))


@workers.command()
@click.argument("name")
@click.option(
    "--deadline", callback=duration, metavar="DURATION", help="Then what still runs is stopped, handed back."
)
@click.option("--wait", is_flag=True, help="Return when nothing runs there any more.")
@talks
def drain(name: str, deadline: float | None, wait: bool) -> None:
    """Give a worker no more jobs; what runs there goes on to its end.

    With a deadline, what still runs then is stopped and handed back, at no cost in tries; a job that must
    not start twice (at most once) is left to finish.
    """
    answer = _change(name, {"draining": True} | ({} if deadline is None else {"deadline": deadline}))
    if wait:
        with _leaving_draining(name):
            answer = _until_empty(name, answer)
    if current().json:
        show_json(answer)
    elif wait:
        say(clean(f"{name} takes no more jobs; nothing runs there"))
    else:
        say(clean(f"{name} takes no more jobs; {answer.get('running', 0)} still run there"))


@workers.command()
@click.argument("name")
@talks
def resume(name: str) -> None:
    """Give a drained worker jobs again."""
    answer = _change(name, {"draining": False})
    if current().json:
        show_json(answer)
    else:
        say(clean(f"{name} takes jobs again"))


@workers.command()
@click.argument("name")
@click.argument("count", metavar="N", type=COUNT)
@talks
def slots(name: str, count: int) -> None:
    """Give a worker so many slots, until it is started anew.

    With fewer than are busy nothing is stopped: it takes no more until enough of them are free.
    """
    answer = _change(name, {"slots": count})
    if current().json:
        show_json(answer)
    else:
        say(clean(f"{name} has {count_of(count, 'slot')}, {_busy(answer)} of them busy"))


def _change(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = current().transport().call("PATCH", f"/workers/{part(name)}", body=changes)
    return answer


@contextmanager
def _leaving_draining(name: str) -> Iterator[None]:
    """Say at Ctrl-C that only the waiting ends."""
    try:
        yield
    except KeyboardInterrupt:
        remark(clean(f"{name} goes on draining; give it jobs again with: fairway workers resume {name}"))
        raise


def _until_empty(name: str, worker: dict[str, Any]) -> dict[str, Any]:
    """Ask until nothing runs on a worker, or it is gone; return what was last seen of it."""
    while worker.get("running"):
        time.sleep(POLL_SECONDS)
        try:
            worker = current().transport().call("GET", f"/workers/{part(name)}")
        except CallerError as error:
            if error.status != 404:
                raise
            return worker | {"running": 0}
    return worker
