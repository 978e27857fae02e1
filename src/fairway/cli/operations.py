"""`fairway operations`: what is being done to many jobs at once, and moves of queues."""

from __future__ import annotations

from typing import Any

import click

from fairway.cli.calling import current, part, talks
from fairway.cli.moments import exact, relative
from fairway.cli.output import clean, remark, say, show_facts, show_json, show_table
from fairway.cli.sweeping import words


@click.group()
@talks
def operations() -> None:
    """Show and abort what is being done to many jobs at once."""


@operations.command("list")
@talks
def list_operations() -> None:
    """List the actions of the leader, the newest first, and moves of queues under way."""
    answer = current().transport().call("GET", "/operations")
    if current().json:
        show_json(answer)
        return
    headings = ("id", "does", "state", "how far", "by", "began", "on")
    show_table(headings, map(_row, answer["operations"]), "no operations", gives_way=["on", "how far", "by"])


def _row(operation: dict[str, Any]) -> tuple[object, ...]:
    return (
        operation["id"],
        operation.get("action") or operation["kind"],
        operation["state"],
        _how_far(operation),
        operation["by"],
        relative(operation["started_at"]),
        _on(operation),
    )


def _how_far(operation: dict[str, Any]) -> str:
    return words(operation) if operation["kind"] == "jobs" else f"{operation['left']} jobs left"


def _on(operation: dict[str, Any]) -> str:
    if operation["kind"] == "jobs":
        return operation["q"] or "all jobs"
    return f"{operation['from']} → {operation['to']}"


@operations.command()
@click.argument("operation_id", metavar="ID")
@talks
def show(operation_id: str) -> None:
    """Show how far one operation is, and what was refused."""
    answer = current().transport().call("GET", f"/operations/{part(operation_id)}")
    if current().json:
        show_json(answer)
        return
    facts = [
        ("id", answer["id"]),
        ("does", answer.get("action") or answer["kind"]),
        ("on", _on(answer)),
        ("state", answer["state"]),
        ("reason", answer.get("reason")),
        ("how far", _how_far(answer)),
        ("by", answer["by"]),
        ("began", exact(answer["started_at"])),
        ("ended", exact(answer["ended_at"])),
    ]
    show_facts(facts)
    for refusal in answer.get("refusals") or []:
        say(clean(f"refused {refusal['id']}: {refusal['detail']}"))


@operations.command()
@click.argument("operation_id", metavar="ID")
@talks
def abort(operation_id: str) -> None:
    """Let an operation stop after the jobs under way; what is done stays done."""
    answer = current().transport().call("DELETE", f"/operations/{part(operation_id)}")
    if current().json:
        show_json(answer)
        return
    if answer["state"] != "aborting":
        remark(f"it was over already: {clean(answer['state'])}")
    say(clean(f"{answer['id']}  {answer['state']}, {words(answer)}"))
