"""`fairway cluster`: who leads, which nodes there are."""

from __future__ import annotations

from typing import Any

import click

from fairway.cli.calling import current, talks
from fairway.cli.moments import relative
from fairway.cli.output import say, show_facts, show_json, show_table


@click.group(invoke_without_command=True)
@talks
@click.pass_context
def cluster(context: click.Context) -> None:
    """Say who leads and which nodes there are."""
    if context.invoked_subcommand is None:
        show(current().transport().call("GET", "/cluster"))


def show(answer: dict[str, Any]) -> None:
    """Write the cluster as a person reads it, or as it came."""
    if current().json:
        show_json(answer)
        return
    show_facts([("leader", answer.get("leader") or "nobody leads just now"), ("term", answer.get("term"))])
    say()
    headings = ("node", "url", "version", "started", "seen")
    show_table(headings, map(_row, answer.get("nodes") or []), "no nodes")


def _row(node: dict[str, Any]) -> tuple[object, ...]:
    return (
        node.get("name"),
        node.get("url"),
        node.get("version"),
        relative(node.get("started_at")),
        relative(node.get("seen_at")),
    )


@cluster.command("step-down")
@talks
def step_down() -> None:
    """Make the leader resign; another node, or the same one again, takes over at once."""
    answer = current().transport().call("POST", "/cluster/step-down", body={})
    if current().json:
        show_json(answer)
    else:
        say("the leader resigned; `fairway cluster` says who leads now")
