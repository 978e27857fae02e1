"""`fairway failures`: what failed alike, looked at, muted and forgotten together."""

from __future__ import annotations

from typing import Any

import click

from fairway.cli.calling import current, part, talks
from fairway.cli.moments import exact, relative
from fairway.cli.output import clean, count_of, remark, say, show_facts, show_json, show_table
from fairway.cli.parsing import duration


@click.group()
@talks
def failures() -> None:
    """List, show, mute and delete failures by cause."""


@failures.command("list")
@click.argument("query", required=False, default="")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="The most shown.")
@click.option("--muted", is_flag=True, help="The muted ones instead.")
@talks
def list_failures(query: str, limit: int, muted: bool) -> None:
    """List causes, those seen last first: `fairway failures list task:mail.* timeout`."""
    q = f"{query} muted:true".strip() if muted else query
    answer = current().transport().call("GET", "/failures", params={"q": q, "limit": limit})
    if current().json:
        show_json(answer)
        return
    headings = ("cause", "failures", "jobs", "last", "task", "type", "message")
    show_table(headings, map(_row, answer["failures"]), "no failures", gives_way=["message", "type", "task"])
    if answer["next"]:
        remark("there are more; narrow it down or raise --limit")


def _row(failure: dict[str, Any]) -> tuple[object, ...]:
    return (
        failure["id"],
        failure["failures"],
        _jobs(failure),
        relative(failure["last_at"]),
        failure["task"],
        failure["type"],
        failure["message"],
    )


def _jobs(failure: dict[str, Any]) -> str:
    return "more than 10000" if failure["jobs"] is None else str(failure["jobs"])


@failures.command()
@click.argument("cause")
@talks
def show(cause: str) -> None:
    """Show one cause with some of its jobs."""
    answer = current().transport().call("GET", f"/failures/{part(cause)}")
    if current().json:
        show_json(answer)
        return
    show_facts(
        [
            ("cause", answer["id"]),
            ("task", answer["task"]),
            ("type", answer["type"]),
            ("message", answer["message"]),
            ("frame", answer["frame"]),
            ("first", exact(answer["first_at"])),
            ("last", exact(answer["last_at"])),
            ("failures", answer["failures"]),
            ("jobs", f"{_jobs(answer)} kept: `fairway jobs list cause:{answer['id']}`"),
            *(("job", job) for job in answer["samples"]),
            ("muted", _muted(answer)),
        ]
    )


def _muted(failure: dict[str, Any]) -> str | None:
    if not failure["muted"]:
        return None
    return f"until {failure['muted_until']}" if failure["muted_until"] else "for good"


@failures.command()
@click.argument("cause")
@click.option("--for", "seconds", callback=duration, metavar="DURATION", help="So long.  [for good]")
@talks
def mute(cause: str, seconds: float | None) -> None:
    """Hide a cause from the list, for good or for a while; its jobs fail as before."""
    _change(cause, True if seconds is None else f"{seconds:g}s")


@failures.command()
@click.argument("cause")
@talks
def unmute(cause: str) -> None:
    """Show a muted cause again."""
    _change(cause, False)


def _change(cause: str, muted: bool | str) -> None:
    answer = current().transport().call("PATCH", f"/failures/{part(cause)}", body={"muted": muted})
    if current().json:
        show_json(answer)
    else:
        said = _muted(answer)
        say(clean(f"{cause} is muted {said}" if said else f"{cause} is not muted"))


@failures.command()
@click.argument("cause")
@talks
def delete(cause: str) -> None:
    """Forget a cause and all its failed jobs."""
    transport, deleted = current().transport(), 0
    while True:
        answer = transport.call("DELETE", f"/failures/{part(cause)}")
        deleted += answer["deleted"]
        if answer["left"] == 0 or not answer["deleted"]:
            break
    if current().json:
        show_json({"deleted": deleted, "left": answer["left"]})
    else:
        say(clean(f"{cause} is gone with {count_of(deleted, 'failed job')}"))
