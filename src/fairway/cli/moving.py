"""`fairway queues rename`, and waiting until a branch has moved."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from fairway.cli.calling import current, path, talks
from fairway.cli.looking import looks
from fairway.cli.output import clean, count_of, remark, say, show_json

TELL_SECONDS = 5.0


@click.command()
@click.argument("old")
@click.argument("new")
@talks
def rename(old: str, new: str) -> None:
    """Give a queue, and all below it, another path; settings, what waits and what runs go along."""
    begun = current().transport().call("POST", f"/queues/{path(old)}/-/rename", body={"to": new})
    over = follow(begun)
    if current().json:
        show_json(over)
    else:
        say(clean(f"queue {old} is {new} now"))


def follow(operation: dict[str, Any]) -> dict[str, Any]:
    """Show how a move goes on until it is over; Ctrl-C ends the showing, not the move."""
    for warning in operation["warnings"]:
        remark(clean(f"note: {warning}"))
    last = operation
    try:
        for last in _progress(operation):
            if last["state"] == "done":
                break
    except KeyboardInterrupt:
        remark(f"the move goes on without you: operation {clean(operation['id'])}")
        raise
    return last | {"warnings": operation["warnings"]}


def _progress(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield how far it is, and draw it: a bar on a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():
        told = time.monotonic()
        for now in looks(operation):
            if now["state"] != "done" and time.monotonic() > told + TELL_SECONDS:
                told = time.monotonic()
                remark(_words(now))
            yield now
        return
    label = f"{operation['kind']} {clean(operation['from'])}"
    with click.progressbar(length=max(operation["jobs"], 1), label=label, file=sys.stderr) as bar:
        for now in looks(operation):
            done = max(now["jobs"] - now["left"], 0) if now["state"] != "done" else bar.length or 0
            bar.update(max(done - bar.pos, 0))
            yield now


def _words(now: dict[str, Any]) -> str:
    running = f", {count_of(now['running'], 'attempt')} yet to end" if now["running"] else ""
    return f"{count_of(now['left'], 'job')} of {now['jobs']} left{running}"
