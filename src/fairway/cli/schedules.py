"""`fairway schedules`: what is submitted by the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairway.cli.calling import current, talks
from fairway.cli.files import read_document
from fairway.cli.moments import exact, relative
from fairway.cli.output import clean, say, show_facts, show_json, show_table
from fairway.errors import CallerError, InvalidRequest
from fairway.names import check_schedule


@click.group()
@talks
def schedules() -> None:
    """Apply, list, pause, run and delete schedules: jobs that are submitted by the clock."""


@schedules.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only check them, and show when they would fire.")
@talks
def apply(file: Path, dry_run: bool) -> None:
    """Make or replace the schedules of a YAML or JSON file: if one is refused, none; others stay."""
    bodies = read_schedules(file)
    answers = _put(bodies, dry=True)  # one that is refused is to be known before any is made
    if not dry_run:
        answers = _put(bodies, dry=False)
    if current().json:
        show_json({"schedules": answers})
        return
    for answer in answers:
        say(clean(f"{answer['name']} fires next {_next(answer)}"))


def _put(bodies: list[tuple[str, dict[str, Any]]], *, dry: bool) -> list[dict[str, Any]]:
    """Make the schedules, or let the leader say what they would be."""
    transport, params = current().transport(), {"dry_run": "true"} if dry else None
    answers = []
    for name, body in bodies:
        try:
            answers.append(transport.call("PUT", f"/schedules/{_checked(name)}", params=params, body=body))
        except CallerError as error:
            said = f"schedule {name}: {error.detail}"
            raise type(error)(said, code=error.code, field=error.field, status=error.status) from None
    return answers


def read_schedules(file: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read one schedule, a list of them, or `schedules: [...]`; each has a name."""
    found = read_document(file)
    if isinstance(found, dict) and "schedules" in found:
        found = found["schedules"]
    several = found if isinstance(found, list) else [found]
    for one in several:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise click.UsageError(f"{file} holds something that is no schedule with a name")
    names = [_checked(one["name"]) for one in several]
    if len(set(names)) != len(names):
        raise click.UsageError(f"{file} names a schedule twice")
    return [(one["name"], {key: one[key] for key in one if key != "name"}) for one in several]


def _checked(name: str) -> str:
    """Refuse a name that is none before anything is asked: a slash in it would lead elsewhere."""
    try:
        return check_schedule(name)
    except InvalidRequest as error:
        raise InvalidRequest(f"schedule {error.detail}", field=error.field) from None


@schedules.command("list")
@talks
def list_schedules() -> None:
    """List all schedules."""
    answer = current().transport().call("GET", "/schedules")
    if current().json:
        show_json(answer)
        return
    headings = ("schedule", "when", "zone", "next", "last", "overlap", "missed", "job")
    empty = "no schedules; see `fairway schedules apply --help`"
    show_table(headings, map(_row, answer["schedules"]), empty, gives_way=["job", "zone", "when"])


def _row(schedule: dict[str, Any]) -> tuple[object, ...]:
    last = schedule.get("last")
    return (
        schedule["name"],
        _when(schedule),
        schedule.get("zone"),
        _next(schedule),
        last and f"{last['what']} {relative(last['at'])}",
        schedule["overlap"],
        schedule["missed"],
        _job(schedule),
    )


def _when(schedule: dict[str, Any]) -> str:
    return str(schedule["cron"]) if schedule.get("cron") else f"every {schedule['every']}"


def _next(schedule: dict[str, Any]) -> str:
    if schedule["paused"]:
        return "paused"
    return relative(schedule["next"][0]) or "never" if schedule["next"] else "never"


def _job(schedule: dict[str, Any]) -> str:
    job = schedule["job"]
    return str(job.get("task") or (job.get("work") or {}).get("adapter"))


@schedules.command()
@click.argument("name")
@talks
def show(name: str) -> None:
    """Show one schedule and its next fires."""
    answer = current().transport().call("GET", f"/schedules/{_checked(name)}")
    if current().json:
        show_json(answer)
        return
    last = answer.get("last")
    show_facts(
        [
            ("schedule", answer["name"]),
            ("when", _when(answer)),
            ("zone", answer.get("zone")),
            ("job", f"{_job(answer)} in {answer['job'].get('queue', 'default')}"),
            ("missed", answer["missed"]),
            ("overlap", f"{answer['overlap']}, {answer['pending']} waiting"),
            ("jitter", answer["jitter"]),
            ("last", last and f"{last['what']} {exact(last['at'])}, job {last['job'] or 'none'}"),
            *(("next", exact(fire)) for fire in answer["next"]),
            *([("next", "paused")] if answer["paused"] else []),
        ]
    )


@schedules.command()
@click.argument("name")
@talks
def pause(name: str) -> None:
    """Let a schedule fire no more until it is resumed."""
    _steer(name, paused=True)


@schedules.command()
@click.argument("name")
@talks
def resume(name: str) -> None:
    """Let a paused schedule fire again, from now on."""
    _steer(name, paused=False)


def _steer(name: str, *, paused: bool) -> None:
    answer = current().transport().call("PATCH", f"/schedules/{_checked(name)}", body={"paused": paused})
    if current().json:
        show_json(answer)
    else:
        say(clean(f"{name} is paused" if paused else f"{name} fires next {_next(answer)}"))


@schedules.command()
@click.argument("name")
@talks
def run(name: str) -> None:
    """Submit a schedule's job now; prints the job's id."""
    job = current().transport().call("POST", f"/schedules/{_checked(name)}/run")
    if current().json:
        show_json(job)
    else:
        say(clean(job["id"]))


@schedules.command()
@click.argument("name")
@talks
def delete(name: str) -> None:
    """Forget a schedule; the jobs it submitted stay."""
    current().transport().call("DELETE", f"/schedules/{_checked(name)}")
    if current().json:
        show_json({"deleted": name})
    else:
        say(clean(f"{name} is gone; its jobs stay"))
