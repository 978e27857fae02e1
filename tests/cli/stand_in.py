"""A stand-in for a node: a real HTTP server that answers as told and notes what it was asked."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from click.testing import CliRunner, Result

from fairway.cli.main import main


class Asked(NamedTuple):
    """One call the stand-in got."""

    method: str
    path: str
    params: dict[str, str]
    body: Any


class StandIn:
    """Answers by method and path; a list of answers is given one after the other, the last one for ever."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        self.asked: list[Asked] = []

    def answer(self, call: str, *bodies: Any, status: int = 200) -> None:
        """Answer `GET /v1/jobs` and the like with *bodies*."""
        self.answers[call] = [(status, body) for body in bodies]

    def take(self, asked: Asked) -> tuple[int, Any]:
        """Note a call and return its answer."""
        self.asked.append(asked)
        found = self.answers.get(f"{asked.method} {asked.path}")
        if not found:
            return 404, {"code": "not_found", "detail": f"nothing at {asked.path}", "status": 404}
        return found.pop(0) if len(found) > 1 else found[0]

    def run(self, *arguments: str, input: str | None = None) -> Result:
        """Run `fairway` against the stand-in."""
        return CliRunner().invoke(main, list(arguments), input=input, env={"FAIRWAY_URL": self.url})


class Handler(BaseHTTPRequestHandler):
    """Turns HTTP into calls of the stand-in."""

    protocol_version = "HTTP/1.1"
    stand_in: StandIn

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        params = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        status, answer = self.stand_in.take(Asked(self.command, parts.path, params, body))
        sse = isinstance(answer, bytes)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if sse else "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


def job(**changes: Any) -> dict[str, Any]:
    """A job as the API shows it."""
    return {
        "id": "06abcdefghjkm",
        "queue": "acme/emails",
        "flow": None,
        "priority": 0,
        "state": "queued",
        "delivery": "at_least_once",
        "task": None,
        "args": None,
        "kwargs": None,
        "work": {"adapter": "command", "run": [["echo", "hello world"]]},
        "tags": [],
        "unique": None,
        "run_at": "2026-01-01T00:00:00.000000Z",
        "attempt": 0,
        "tries": 0,
        "max_attempts": 10,
        "crashes": 0,
        "max_crashes": 3,
        "generation": 0,
        "timeout": None,
        "backoff": {"first": 1.0, "max": 3600.0},
        "worker": None,
        "cancelling": False,
        "created_at": "2026-01-01T00:00:00.000000Z",
        "started_at": None,
        "ended_at": None,
        "outcome": None,
        "last_error": None,
        "waiting": None,
        "position": None,
        "eta": None,
        **changes,
    }


def operation(**changes: Any) -> dict[str, Any]:
    """An action on many jobs as the API shows it."""
    return {
        "id": "06abcdefghjkz",
        "kind": "jobs",
        "action": "retry",
        "q": "queue:acme",
        "by": "ann@here",
        "state": "running",
        "started_at": "2026-01-01T00:00:00.000000Z",
        "ended_at": None,
        "found": 312,
        "done": 0,
        "refused": 0,
        "refusals": [],
        "canary": None,
        "reason": None,
        **changes,
    }
