"""`fairway jobs`: find, watch and steer jobs."""

from __future__ import annotations

from typing import Any

import click

from fairway.cli import actions, describing, moments
from fairway.cli.calling import current, part, talks
from fairway.cli.following import follow_log, print_log, read_lines, wait_for
from fairway.cli.output import clean, count_of, remark, say, show_facts, show_json, show_table
from fairway.cli.parsing import duration, moment
from fairway.ids import find_id

#: The most jobs that are asked for in one call; more are fetched page by page.
PAGE = 200
MOST = 10_000
#: So many values a term of a query takes.
MOST_NAMED = 50


@click.group()
@talks
def jobs() -> None:
    """Find, watch and steer jobs.

    A QUERY is made of terms such as `state:failed queue:acme/* task:send age:>10m`; all must hold.
    """


@jobs.command("list")
@click.argument("query", nargs=-1)
@click.option("--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="The most jobs.")
@click.option("--sort", metavar="[-]FIELD", help="Order, such as -created_at (the default) or priority.")
@talks
def list_jobs(query: tuple[str, ...], limit: int, sort: str | None) -> None:
    """List the jobs that match QUERY, newest first."""
    answer = fetch(" ".join(query), limit, sort)
    if current().json:
        show_json(answer)
        return
    headings = ("id", "state", "queue", "does", "attempt", "created", "note")
    show_table(headings, map(_row, answer["jobs"]), "no jobs", gives_way=["note", "does", "queue"])
    if answer.get("next"):
        remark(_more(len(answer["jobs"]), answer.get("total")))


def _more(shown: int, total: int | None) -> str:
    count = f"{shown} of {total} jobs shown" if total else f"{count_of(shown, 'job')} shown, there are more"
    return f"{count}; --limit N shows more, a QUERY narrows it down"


def fetch(query: str, limit: int, sort: str | None) -> dict[str, Any]:
    """Return up to *limit* jobs as one answer, fetched page by page."""
    transport = current().transport()
    params: dict[str, Any] = {"q": query or None, "sort": sort, "limit": min(limit, PAGE)}
    answer: dict[str, Any] = transport.call("GET", "/jobs", params=params)
    while answer.get("next") and len(answer["jobs"]) < limit:
        params |= {"cursor": answer["next"], "limit": min(limit - len(answer["jobs"]), PAGE)}
        page = transport.call("GET", "/jobs", params=params)
        answer["jobs"] += page["jobs"]
        answer["next"] = page.get("next")
    return answer


def _row(job: describing.Job) -> tuple[object, ...]:
    note = describing.why(job) or (job.get("worker") if job["state"] == "running" else None)
    if job["state"] in {"failed", "cancelled", "unknown"}:
        note = describing.how(job).removeprefix(job["state"]).lstrip()  # which stands in its own column
    created = moments.relative(job.get("created_at"))
    return (
        job["id"],
        job["state"],
        job["queue"],
        _short(describing.what(job)),
        job.get("attempt", 0),
        created,
        _short(note or "", 80),
    )


def _short(text: str, width: int = 50) -> str:
    text = text.partition("\n")[0]
    return text if len(text) <= width else text[: width - 1] + "…"


@jobs.command()
@click.argument("job_id", metavar="ID")
@talks
def show(job_id: str) -> None:
    """Show one job; of a waiting one, why it waits comes first."""
    job = current().transport().call("GET", f"/jobs/{part(job_id)}")
    if current().json:
        show_json(job)
        return
    reason = describing.why(job)
    if reason:
        say(f"waits: {clean(reason)}")
    show_facts(describing.facts(job))
    if job["state"] == "unknown":
        say("\n" + clean(describing.what_to_do(job)))
    traceback = describing.traceback_of(job)
    if traceback:
        say("\n" + clean(traceback, keep="\n\t").rstrip())


@jobs.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--timeout", callback=duration, metavar="duration", help="Give up after so long.")
@talks
def wait(job_ids: tuple[str, ...], timeout: float | None) -> int:
    """Wait until all these jobs ended; the exit code is 0 if all of them succeeded."""
    ended = wait_for(current().transport(patient=True), job_ids, timeout)
    if current().json:
        show_json(ended[0] if len(job_ids) == 1 else {"jobs": ended})
    else:
        for job in ended:
            say(clean(f"{job['id']}  {describing.how(job)}"))
    return 0 if all(job["state"] == "succeeded" for job in ended) else 1


@jobs.command()
@click.argument("job_id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ended.")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt; default: the latest with output.")
@click.option("--raw", is_flag=True, help="As it was written, control characters too.")
@talks
def log(job_id: str, follow: bool, attempt: int | None, raw: bool) -> None:
    """Print what a job wrote; when following, its stdout to stdout and its stderr to stderr."""
    transport = current().transport(patient=follow)
    if attempt is not None:
        _check_attempt(transport.call("GET", f"/jobs/{part(job_id)}"), attempt, follow)
    if current().json:
        if follow:
            wait_for(transport, [job_id], None)
        show_json({"id": job_id, "lines": read_lines(transport, job_id, attempt)})
        return
    write_log = follow_log if follow else print_log
    write_log(transport, job_id, attempt, raw)


def _check_attempt(job: describing.Job, attempt: int, follow: bool) -> None:
    """Refuse an attempt that there is not; one that may still come can be followed."""
    if attempt > job["attempt"] and not (follow and job["state"] not in describing.ENDED):
        had = count_of(job["attempt"], "attempt")
        raise click.ClickException(f"job {job['id']} has no attempt {attempt}: it had {had} so far")


@jobs.command()
@click.argument("job_id", metavar="ID")
@talks
def stack(job_id: str) -> None:
    """Print where a running job is just now: the stack of its code, or the processes of a command."""
    text = current().transport().call("GET", f"/jobs/{part(job_id)}/stack")
    if current().json:
        show_json({"id": job_id, "stack": text})
    else:
        say(clean(str(text), keep="\n\t").rstrip())


@jobs.command()
@actions.selects
@click.option("--force", is_flag=True, help="Kill what runs at once instead of asking it first.")
@talks
def cancel(targets: tuple[str, ...], all_matching: bool, yes: bool, detach: bool, force: bool) -> int:
    """Cancel jobs: those that wait never begin, those that run are stopped."""
    action = actions.KILLING if force else actions.CANCELLING
    return actions.act(action, targets, all_matching=all_matching, yes=yes, detach=detach)


@jobs.command()
@actions.selects
@talks
def kill(targets: tuple[str, ...], all_matching: bool, yes: bool, detach: bool) -> int:
    """Cancel jobs by force: what runs is killed at once, what waits never begins."""
    return actions.act(actions.KILLING, targets, all_matching=all_matching, yes=yes, detach=detach)


@jobs.command()
@actions.selects
@click.option("--queue", metavar="QUEUE", help="Where they shall wait.")
@click.option("--flow", metavar="FLOW", help="Whose they shall be.")
@click.option("--priority", type=int, help="Higher goes first.")
@click.option("--delay", callback=duration, metavar="DURATION", help="Not before so long from now.")
@click.option("--at", "run_at", callback=moment, metavar="TIME", help="Not before this RFC 3339 time.")
@click.option("--worker", metavar="WORKER", help="The only worker that may take them.")
@talks
def move(targets: tuple[str, ...], all_matching: bool, yes: bool, detach: bool, **changes: Any) -> int:
    """Move waiting jobs: to another queue, flow, priority, time or worker.

    \b
    fairway jobs move ID acme/later
    fairway jobs move 'queue:acme task:report' --queue acme/later --all-matching
    """
    if changes["queue"] is None and not all_matching and len(targets) > 1 and find_id(targets[-1]) is None:
        *ids, changes["queue"] = targets
        targets = tuple(ids)
    if changes["delay"] is not None and changes["run_at"] is not None:
        raise click.UsageError("--delay and --at exclude each other")
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        raise click.UsageError("say where to: --queue, --flow, --priority, --delay, --at or --worker")
    return actions.act(actions.moving(changes), targets, all_matching=all_matching, yes=yes, detach=detach)


@jobs.command()
@actions.selects
@click.option("--to", metavar="WORKER", help="The worker that shall take them.")
@click.option("--away", is_flag=True, help="Any worker but the one where they are, or ran last.")
@talks
def relocate(
    targets: tuple[str, ...], all_matching: bool, yes: bool, detach: bool, to: str | None, away: bool
) -> int:
    """Send jobs to another worker: what runs is stopped there and begins again, at no cost in tries."""
    if (to is None) == (not away):
        raise click.UsageError("say where to: --to WORKER or --away")
    return actions.act(actions.relocating(to), targets, all_matching=all_matching, yes=yes, detach=detach)


@jobs.command()
@actions.selects
@talks
def prefer(targets: tuple[str, ...], all_matching: bool, yes: bool, detach: bool) -> int:
    """Put waiting jobs in front of their line, due from now on."""
    return actions.act(actions.PREFERRING, targets, all_matching=all_matching, yes=yes, detach=detach)


@jobs.command()
@actions.selects
@talks
def requeue(targets: tuple[str, ...], all_matching: bool, yes: bool, detach: bool) -> int:
    """Put jobs at the end of their line: what runs is stopped and handed back, at no cost in tries."""
    return actions.act(actions.REQUEUEING, targets, all_matching=all_matching, yes=yes, detach=detach)


@jobs.command()
@actions.selects
@click.option("--canary", metavar="N|N%", help="With a QUERY: so many first, the rest if they succeed.")
@click.option(
    "--canary-pass", type=click.FloatRange(0, 1, min_open=True), help="The share that must succeed."
)
@click.option("--canary-timeout", callback=duration, metavar="DURATION", help="How long to wait for them.")
@talks
def retry(
    targets: tuple[str, ...],
    all_matching: bool,
    yes: bool,
    detach: bool,
    canary: str | None,
    canary_pass: float | None,
    canary_timeout: float | None,
) -> int:
    """Try ended jobs again, with all their tries.

    \b
    fairway jobs retry ID
    fairway jobs retry 'state:failed task:send' --all-matching --canary 5
    """
    if canary is None and (canary_pass is not None or canary_timeout is not None):
        raise click.UsageError("--canary-pass and --canary-timeout belong to --canary")
    if canary is not None and not all_matching:
        raise click.UsageError("--canary belongs to --all-matching")
    action = actions.retrying(canary, canary_pass, canary_timeout)
    return actions.act(action, targets, all_matching=all_matching, yes=yes, detach=detach)


@jobs.command()
@click.argument("job_id", metavar="ID")
@click.option("--succeeded/--failed", default=None, help="How it went, as you found out.")
@talks
def resolve(job_id: str, succeeded: bool | None) -> None:
    """Say how a job went whose state is unknown: its worker was lost while it ran, at most once."""
    if succeeded is None:
        raise click.UsageError("say how it went: --succeeded or --failed")
    job = current().transport().call("POST", f"/jobs/{part(job_id)}/resolve", body={"succeeded": succeeded})
    if current().json:
        show_json(job)
    else:
        say(clean(f"{job['id']}  {job['state']}"))


@jobs.command()
@actions.selects
@talks
def delete(targets: tuple[str, ...], all_matching: bool, yes: bool, detach: bool) -> int:
    """Forget ended jobs with their logs, before their time."""
    if all_matching:
        return actions.act(actions.DELETING, targets, all_matching=True, yes=yes, detach=detach)
    actions.check_ids(targets)
    if len(targets) > MOST_NAMED:
        raise click.UsageError(f"name at most {MOST_NAMED} jobs, or give a QUERY with --all-matching")
    return actions.delete_named(targets, detach=detach)
