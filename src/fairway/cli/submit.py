"""`fairway submit`: hand in a job, and wait for it if asked.

Without --wait the only line on stdout is the job's id. With --wait stdout and stderr are the job's own,
so that `fairway submit --wait -- date` can stand where `date` stood; what Fairway itself has to say goes
to stderr, and the exit code is 0 if the job succeeded, else 1.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import click

from fairway.cli.calling import current, talks
from fairway.cli.describing import how, value_of
from fairway.cli.files import read_document
from fairway.cli.following import follow_log, wait_for_one
from fairway.cli.output import clean, remark, say, show_json
from fairway.cli.parsing import deadline, duration, json_list, json_object, moment
from fairway.cli.reasons import leaving_alone, telling_why

#: The status of an answer that names a job which has the unique key already.
EXISTING = 200


@click.command()
@click.option("--queue", metavar="QUEUE", help="Where it waits, such as acme/emails.  [default]")
@click.option("--flow", metavar="FLOW", help="Whose it is: flows of one queue take turns.")
@click.option("--priority", type=int, help="Higher goes first.  [0]")
@click.option("--delay", callback=duration, metavar="DURATION", help="Not before so long: 90s, 5m, 2h, 1d.")
@click.option("--at", "run_at", callback=moment, metavar="TIME", help="Not before this RFC 3339 time.")
@click.option(
    "--attempts", "max_attempts", type=click.IntRange(1), help="The most tries.  [the queue's, else 10]"
)
@click.option("--timeout", callback=duration, metavar="DURATION", help="The longest one attempt may run.")
@click.option("--grace", callback=duration, metavar="DURATION", help="From asking it to end to the kill.")
@click.option(
    "--deadline", callback=deadline, metavar="TIME|DURATION", help="Fails unless it has begun by then."
)
@click.option("--tag", "tags", metavar="GLOB", multiple=True, help="A tag the worker must have.")
@click.option("--unique", metavar="KEY", help="While a job with this key waits or runs, you get that one.")
@click.option("--unique-payload", is_flag=True, help="The same, with what the job does as its key.")
@click.option("--unique-for", callback=duration, metavar="DURATION", help="The key stays taken for so long.")
@click.option("--replace", is_flag=True, help="Take the key from the job that has it; drop that if it waits.")
@click.option("--delivery", type=click.Choice(["at_least_once", "at_most_once"]), help="After a lost worker.")
@click.option("--concurrency", type=click.IntRange(1), help="Sets the queue's limit.")
@click.option("--after", metavar="JOB", multiple=True, help="A job that must have ended before it begins.")
@click.option("--if-failed", type=click.Choice(["fail", "run"]), help="What it does if one of those failed.")
@click.option("--group", metavar="NAME", help="What it belongs to, to be found by group:NAME.")
@click.option("--worker", metavar="WORKER", help="The only worker that may take it.")
@click.option("--notify", metavar="URL", help="Called when the job has ended.")
@click.option("--task", metavar="NAME", help="A Python task, instead of a command.")
@click.option("--args", callback=json_list, metavar="JSON", help="The task's arguments, a JSON list.")
@click.option("--kwargs", callback=json_object, metavar="JSON", help="Its named arguments, a JSON object.")
@click.option(
    "--file", "file", type=click.Path(path_type=Path), help="A job, or its work alone, in YAML or JSON."
)
@click.option("--wait", is_flag=True, help="Wait until it ended; print its output.")
@click.argument("argv", metavar="[-- COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
@talks
def submit(wait: bool, **given: Any) -> int:
    """Hand in a job: a command, a Python task, or a file.

    \b
    fairway submit --wait -- echo hello
    fairway submit --queue acme/emails --concurrency 1 -- ./send.sh a@example.org
    fairway submit --task shop.mail.send --args '["a@example.org"]'
    fairway submit --file work.yaml
    """
    body = spec(**given)
    # The key lets the node recognise this very call if it has to be sent twice.
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    status, job = current().transport().ask("POST", "/jobs", body=body, headers=headers)
    if wait:
        return _wait(job, is_new=status != EXISTING)
    if current().json:
        show_json(job)
    else:
        say(clean(job["id"]))
    return 0


def spec(
    *,
    argv: tuple[str, ...],
    task: str | None,
    args: list[Any] | None,
    kwargs: dict[str, Any] | None,
    file: Path | None,
    unique_payload: bool,
    replace: bool,
    **options: Any,
) -> dict[str, Any]:
    """Return the body of the call: the file's fields, overruled by options."""
    _check_one_kind(argv, task, file)
    if unique_payload:
        if options["unique"] is not None:
            raise click.UsageError("--unique and --unique-payload exclude each other")
        options["unique"] = True
    if replace:
        options["replace"] = True
    if options["delay"] is not None and options["run_at"] is not None:
        raise click.UsageError("--delay and --at exclude each other")
    if task is None and (args is not None or kwargs is not None):
        raise click.UsageError("--args and --kwargs belong to --task")
    body = _read_file(file) if file else {}
    if argv:
        body["work"] = {"adapter": "command", "run": [list(argv)]}
    lists = {name: list(options[name]) or None for name in ("tags", "after")}
    chosen = {**options, "task": task, "args": args, "kwargs": kwargs, **lists}
    return {**body, **{name: value for name, value in chosen.items() if value is not None}}


def _check_one_kind(argv: tuple[str, ...], task: str | None, file: Path | None) -> None:
    kinds = [bool(argv), task is not None, file is not None]
    if sum(kinds) != 1:
        raise click.UsageError("give one of: -- COMMAND [ARG]..., --task NAME, --file FILE")


def _read_file(file: Path) -> dict[str, Any]:
    body = read_document(file)
    if not isinstance(body, dict):
        raise click.UsageError(f'{file} holds no job; write an object such as {{"work": {{...}}}}')
    # A file may be the work alone.
    return {"work": body} if "adapter" in body and "work" not in body else body


def _wait(job: dict[str, Any], is_new: bool) -> int:
    """Print the job's output, then how it ended; control characters too, unless it may be somebody else's."""
    transport, raw = current().transport(patient=True), not job.get("unique")
    remark(clean(f"job {job['id']}" + ("" if is_new else ", which was there already: it has the same key")))
    with leaving_alone([job["id"]]), telling_why(transport, job["id"]):
        if job.get("work") and not current().json:
            follow_log(transport, job["id"], raw=raw)
        ended = wait_for_one(transport, job["id"])
    if current().json:
        show_json(ended)
    elif ended["state"] == "succeeded" and ended.get("task"):
        show_json(value_of(ended))
    remark(clean(how(ended)))
    return 0 if ended["state"] == "succeeded" else 1
