"""`fairway cluster`: who leads, which nodes there are."""

from __future__ import annotations

from typing import Any

import click

from fairway.cli.calling import current, talks
from fairway.cli.moments import relative
from fairway.cli.output import say, show_facts, show_json, show_table

LINKS = {"up": "up", "store only": "through the store only"}


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
    headings = ("node", "role", "link to the leader", "url", "version", "started", "seen")
    show_table(headings, map(_row, answer.get("nodes") or []), "no nodes", gives_way=["link to the leader"])
    if history := answer.get("history"):
        say()
        show_table(("term", "leader", "elected"), map(_past, history), "")


def _row(node: dict[str, Any]) -> tuple[object, ...]:
    return (
        node.get("name"),
        node.get("role") or "not known",
        LINKS.get(node.get("link") or "", ""),
        node.get("url"),
        node.get("version"),
        relative(node.get("started_at")),
        relative(node.get("seen_at")),
    )


def _past(leader: dict[str, Any]) -> tuple[object, ...]:
    return leader.get("term"), leader.get("name"), relative(leader.get("elected_at"))


@cluster.command("step-down")
@talks
def step_down() -> None:
    """Make the leader resign; another node, or the same one again, takes over at once."""
    answer = current().transport().call("POST", "/cluster/step-down", body={})
    if current().json:
        show_json(answer)
    else:
        say("the leader resigned; `fairway cluster` says who leads now")
