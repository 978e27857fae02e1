"""`fairway demand`: slots wanted, shape by shape."""

from __future__ import annotations

from typing import Any

import click

from fairway.cli.calling import current, talks
from fairway.cli.moments import show_seconds
from fairway.cli.output import count_of, remark, say, show_json, show_table


@click.command()
@talks
def demand() -> None:
    """Say which slots are wanted and which there are, shape by shape."""
    answer = current().transport().call("GET", "/demand")
    if current().json:
        show_json(answer)
        return
    say(f"{answer['slots']} slots, {answer['free']:g} free")
    headings = ("adapter", "task", "tags", "jobs", "slots wanted", "run", "running", "slots there", "free")
    empty = "nothing waits for a slot, and nothing runs"
    show_table(headings, map(_row, answer["shapes"]), empty, gives_way=["tags", "task"])
    if answer.get("more"):
        remark(f"and {count_of(answer['more'], 'shape')} more")


def _row(shape: dict[str, Any]) -> tuple[object, ...]:
    return (
        shape["adapter"],
        shape["task"],
        ", ".join(shape["tags"]),
        shape["jobs"],
        f"{shape['slots']:g}",
        show_seconds(shape["seconds"]),
        shape["running"],
        shape["slots_there"],
        f"{shape['slots_free']:g}",
    )
