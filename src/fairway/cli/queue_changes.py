"""`fairway queues history`, `revert` and `apply`: settings as a whole, and how they came to be."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from fairway.cli.calling import current, path, talks
from fairway.cli.files import read_document
from fairway.cli.moments import second
from fairway.cli.output import clean, count_of, remark, say, show_json, show_table
from fairway.errors import WorldError


@click.command()
@click.argument("queue", required=False)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, help="At most so many.")
@talks
def history(queue: str | None, limit: int) -> None:
    """Show who changed a queue's settings, when, and what; without QUEUE, those of all."""
    where = "/queues/-/history" if queue is None else f"/queues/{path(queue)}/-/history"
    transport = current().transport()
    answer = transport.call("GET", where, params={"limit": limit})
    if queue is not None and not answer["changes"]:
        with suppress(WorldError):  # only the leader knows which queues there are
            transport.call("GET", f"/queues/{path(queue)}")
    if current().json:
        show_json(answer)
        return
    rows = [_row(change) for change in answer["changes"]]
    headings = ("number", "queue", "when", "who", "what")
    show_table(headings, rows, "no changes yet", gives_way=["who", "what", "queue"], folded="what")


def _row(change: dict[str, Any]) -> tuple[object, ...]:
    what = difference(change["old"], change["new"])
    return change["number"], change["path"], second(change["at"]), change["by"], what


def difference(old: dict[str, Any] | None, new: dict[str, Any] | None) -> str:
    """Write what is other: `limit 3 → 10, paused none → true`."""
    if new is None:
        return "deleted"
    before = old or {}
    names = sorted({*before, *new})
    told = [
        f"{name} {_show(before.get(name))} → {_show(new.get(name))}"
        for name in names
        if before.get(name) != new.get(name)
    ]
    return ", ".join(["made", *told] if old is None else told) or "nothing"


def _show(value: object) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


@click.command()
@click.argument("queue")
@click.argument("number", type=click.IntRange(1), required=False)
@talks
def revert(queue: str, number: int | None) -> None:
    """Set a queue as it was after change NUMBER of its history; without, undo the last change."""
    answer = current().transport().call("POST", f"/queues/{path(queue)}/-/revert", body={"to": number})
    if current().json:
        show_json(answer)
        return
    as_it_was = "before its last change" if number is None else f"after change {number}"
    say(clean(f"queue {queue} is set as it was {as_it_was}"))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@talks
def apply(file: Path, dry_run: bool) -> None:
    """Give the queues of a YAML or JSON file exactly the settings that stand there: all, or none.

    The file holds `queues:` with a queue's path and its settings on each line; others stay as they are.
    """
    wanted = read_queues(file)
    body = {"queues": wanted, "dry_run": dry_run}
    answer = current().transport().call("POST", "/queues/-/apply", body=body)
    if current().json:
        show_json(answer)
        return
    for change in answer["changes"]:
        say(clean(f"{change['path']}: {difference(change['old'], change['new'])}"))
    changed, same = len(answer["changes"]), len(wanted) - len(answer["changes"])
    verb = "would change" if dry_run else "changed"
    remark(f"{count_of(changed, 'queue')} {verb}, {same} as it should be")


def read_queues(file: Path) -> dict[str, dict[str, Any]]:
    """Read `queues: {path: {setting: value}}`."""
    found = read_document(file)
    queues = found.get("queues") if isinstance(found, dict) else None
    if not isinstance(queues, dict) or set(found) != {"queues"}:
        raise click.UsageError(f"{file} must hold `queues:` with paths and their settings, and nothing else")
    for name, settings in queues.items():
        if not isinstance(name, str) or not isinstance(settings, dict | None):
            raise click.UsageError(f"{file}: {name!r} is no queue with its settings")
    return {name: settings or {} for name, settings in queues.items()}
