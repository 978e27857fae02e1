"""A job in words: what it does, why it waits, how it ended."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from fairway.cli.moments import between, exact, relative, show_seconds
from fairway.cli.progress import progress_line, usage_line

Job = Mapping[str, Any]

ENDED = frozenset({"succeeded", "failed", "cancelled", "unknown"})


def what(job: Job) -> str:
    """Say what a job does: its command line, or its task with its arguments."""
    work = job.get("work")
    if isinstance(work, Mapping):
        return _what_work(work)
    return _what_call(job.get("task"), job)


def _what_call(task: Any, call: Mapping[str, Any]) -> str:
    given = [json.dumps(value) for value in call.get("args") or []]
    given += [f"{name}={json.dumps(value)}" for name, value in (call.get("kwargs") or {}).items()]
    return f"{task}({', '.join(given)})"


def _what_work(work: Mapping[str, Any]) -> str:
    if work.get("adapter") == "http":
        return f"{work.get('method', 'GET')} {work.get('url')}"
    if task := work.get("task") or work.get("job") or work.get("call"):
        return f"{work.get('adapter')}: {_what_call(task, work)}"
    steps = work.get("run")
    if isinstance(steps, list):
        lines = [step.get("argv") if isinstance(step, Mapping) else step for step in steps]
        written = [shlex.join(str(part) for part in line) for line in lines if isinstance(line, list)]
        if len(written) == len(lines):
            return " ; ".join(written)
    return json.dumps(work)


def why(job: Job) -> str | None:
    """Say why a waiting job waits, or None if it does not or nobody knows."""
    waiting = job.get("waiting")
    if not isinstance(waiting, Mapping):
        return None
    return str(waiting.get("detail") or waiting.get("reason"))


def failed_try(job: Job) -> str | None:
    """Say how the last try of a job failed, if that was not its end; None if nobody knows of one."""
    tries, bound, error = job.get("tries"), job.get("max_attempts"), _last_error(job)
    if not tries or error is None:
        return None
    is_timed = why(job) is not None and job["waiting"].get("reason") == "not_due"
    following = f"; the next is {why(job)}" if is_timed else ""
    return f"try {tries}{f' of {bound}' if bound else ''} failed: {error}{following}"


def how(job: Job) -> str:
    """Say how a job ended, in a few words: `succeeded in 2 s`, `failed (timeout): ...`."""
    state, outcome = job["state"], job.get("outcome") or {}
    took = between(job.get("started_at"), job.get("ended_at"))
    text = f"{state} in {took}" if took else str(state)
    if state == "succeeded" or not outcome:
        return text
    reason, error = outcome.get("reason"), outcome.get("error") or {}
    said = ": ".join(str(part) for part in (error.get("type"), error.get("message")) if part)
    said = said.removeprefix(f"{str(state).capitalize()}: ")
    return text + (f" ({reason})" if reason and reason != state else "") + (f": {said}" if said else "")


def what_to_do(job: Job) -> str:
    """Say what people do about a job of which nobody knows how it went."""
    name = job["id"]
    return (
        "its worker was lost, so nobody knows whether it did its work; find out, then: "
        f"fairway jobs resolve {name} --succeeded (or --failed), or again: fairway jobs retry {name}"
    )


def value_of(job: Job) -> Any:
    """Return what a job returned."""
    return (job.get("outcome") or {}).get("value")


def traceback_of(job: Job) -> str | None:
    """Return the last traceback of a job, if it left one."""
    error = (job.get("outcome") or {}).get("error") or job.get("last_error")
    return error.get("traceback") or None if isinstance(error, Mapping) else None


def facts(job: Job) -> list[tuple[str, Any]]:
    """Return what there is to know of a job, most important first."""
    return [
        ("job", job["id"]),
        ("state", job["state"]),
        ("cancelling", "asked to stop" if job.get("cancelling") else None),
        ("does", what(job)),
        ("queue", job["queue"]),
        ("position", _position(job)),
        ("starts", _starts(job)),
        ("flow", job.get("flow")),
        ("priority", job.get("priority") or None),
        ("tags", ", ".join(job.get("tags") or [])),
        ("unique", job.get("unique")),
        ("group", job.get("group")),
        ("after", _after(job)),
        ("delivery", str(job.get("delivery", "")).replace("_", " ")),
        ("attempt", _attempts(job)),
        ("timeout", show_seconds(job.get("timeout"))),
        ("grace", show_seconds(job.get("grace"))),
        ("worker", job.get("worker")),
        ("pinned to", job.get("pinned_to")),
        ("kept from", ", ".join(job.get("away") or ())),
        ("progress", progress_line(job)),
        ("used", usage_line(job)),
        ("checkpoint", exact(job.get("checkpoint_at"))),
        ("created", exact(job.get("created_at"))),
        ("due", exact(job.get("run_at")) if job["state"] == "scheduled" else None),
        ("deadline", exact(job.get("deadline"))),
        ("started", exact(job.get("started_at"))),
        ("ended", exact(job.get("ended_at"))),
        ("outcome", how(job) if job["state"] in ENDED else None),
        ("last error", _last_error(job)),
        ("value", json.dumps(value_of(job)) if job["state"] == "succeeded" else None),
    ]


def _after(job: Job) -> str | None:
    """Name the jobs it waits for, or has waited for."""
    after = job.get("after") or []
    if not after:
        return None
    named = ", ".join(after[:5]) + (f" and {len(after) - 5:,} more" if len(after) > 5 else "")
    return named + (", however they end" if job.get("if_failed") == "run" else "")


def _position(job: Job) -> str | None:
    ahead = job.get("position")
    if ahead is None:
        return None
    if ahead == 0:
        return "next in its line"
    return f"{ahead} due {'job' if ahead == 1 else 'jobs'} ahead of it"


def _starts(job: Job) -> str | None:
    """Say when a waiting job is expected to start: `in 5 min (9 in 10: in 3 min to in 8 min)`."""
    eta = job.get("eta")
    if not isinstance(eta, Mapping):
        return None
    earliest, latest = (relative(at) for at in eta["p90"])
    return f"{relative(eta['starts_at'])} (9 in 10: {earliest} to {latest}), {eta['basis']}"


def _last_error(job: Job) -> str | None:
    error = job.get("last_error")
    if not isinstance(error, Mapping):
        return None
    return ": ".join(str(error[key]) for key in ("type", "message") if error.get(key)) or None


def _attempts(job: Job) -> str:
    text = str(job.get("attempt", 0))
    bound, crashes, generation = job.get("max_attempts"), job.get("crashes"), job.get("generation")
    text += f", {job.get('tries', 0)} of {bound} tries used" if bound else ""
    text += f", {crashes} crashed" if crashes else ""
    return text + (f", retried {generation} times by hand" if generation else "")
