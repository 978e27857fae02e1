"""`fairway workers`: who executes, how busy they are; drain and resume."""

from __future__ import annotations

from typing import Any

import click

from fairway.cli.calling import current, part, talks
from fairway.cli.machine_facts import machine_of
from fairway.cli.moments import exact, relative, show_seconds
from fairway.cli.output import clean, say, show_facts, show_json, show_table


@click.group()
@talks
def workers() -> None:
    """List workers; drain them before you stop them, resume them after."""


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
    show_table(headings, map(_row, answer["workers"]), empty)


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
    return f"{worker.get('busy') or 0:.1f}".removesuffix(".0")


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
            ("slots", f"{_busy(worker)} of {worker['slots']} busy, {worker.get('running', 0)} attempts"),
            ("queues", _joined(worker.get("queues")) or "none"),
            ("tags", _joined(worker.get("tags"))),
            ("adapters", _joined(_adapters(worker))),
            ("versions", _joined(_versions(worker))),
            ("joined", exact(worker.get("joined_at"))),
            ("last beat", f"{show_seconds(worker.get('last_beat_seconds') or 0.0)} ago"),
            ("incarnation", worker.get("incarnation")),
            *((words, value) for words, value in machine_of(worker.get("facts") or {}) if value),
            *(("task" if not index else "", line) for index, line in enumerate(_tasks(worker))),
        ]
    )


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
@talks
def drain(name: str) -> None:
    """Give a worker no more jobs; what runs there goes on to its end."""
    _steer(name, draining=True)


@workers.command()
@click.argument("name")
@talks
def resume(name: str) -> None:
    """Give a drained worker jobs again."""
    _steer(name, draining=False)


def _steer(name: str, *, draining: bool) -> None:
    answer = current().transport().call("PATCH", f"/workers/{part(name)}", body={"draining": draining})
    if current().json:
        show_json(answer)
    elif draining:
        say(clean(f"{name} takes no more jobs; {answer.get('running', 0)} still run there"))
    else:
        say(clean(f"{name} takes jobs again"))
