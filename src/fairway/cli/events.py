"""`fairway events`: what happens, as it happens."""

from __future__ import annotations

import json
from typing import Any

import click

from fairway.cli.calling import current, talks
from fairway.cli.output import clean, say

#: These stand in columns of their own, or say nothing to people.
SHOWN_APART = frozenset({"id", "at", "kind", "event", "type", "job", "queue"})


@click.command()
@click.argument("query", nargs=-1)
@click.option("--after", metavar="ID", help="Start behind this event instead of now.")
@talks
def events(query: tuple[str, ...], after: str | None) -> None:
    """Print events until you press Ctrl-C; with --json one document a line.

    A connection that breaks is opened again, and goes on where it was.
    """
    params = {"q": " ".join(query) or None, "after": after}
    for event in current().transport(patient=True).follow("/events", params):
        facts = event.json()
        if current().json:
            click.echo(json.dumps(facts))
        else:
            say(line(event.id, event.event, facts if isinstance(facts, dict) else {"data": facts}))


def line(event_id: str, kind: str, facts: dict[str, Any]) -> str:
    """Write one event as one line."""
    told = [f"{name}={_told(value)}" for name, value in facts.items() if _worth(name, value)]
    columns = [str(facts.get("at") or ""), event_id, kind.ljust(13), str(facts.get("job") or "").ljust(13)]
    return clean("  ".join([*columns, str(facts.get("queue") or ""), *told]).strip())


def _worth(name: str, value: object) -> bool:
    return name not in SHOWN_APART and value not in (None, "", [], {})


def _told(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
