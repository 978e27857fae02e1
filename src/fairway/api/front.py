"""The front of a process that hosts several schedulers: one listener, each API under a prefix of its own.

`/night/v1/jobs` is `/v1/jobs` of the scheduler `night`. An API knows of its prefix only where it describes
itself; locations it answers with get theirs here, unless another node asked: that one adds its own. The pages
at the root are about all schedulers together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from fairway import __version__
from fairway.api.answers import TEXT, Answer, Message, Receive, Scope, Send, answer_json, send_answer
from fairway.api.app import Api
from fairway.api.guard import Guard
from fairway.api.health import METRICS, why_not_ready
from fairway.api.problems import Turned
from fairway.api.server import Server
from fairway.api.tally import Tally, number_lines
from fairway.desk import RELAYED

#: What stands at the root itself, and so names no scheduler that shares a listener.
ROOT_NAMES = frozenset({"v1", "healthz", "readyz", "metrics"})

_relayed = RELAYED.encode()


class Front:
    """Serves the APIs of several schedulers on one address; each comes and goes with its node."""

    def __init__(self, names: Sequence[str], token: str | None = None, hosts: Collection[str] = ()) -> None:
        self._apis: dict[str, Api | None] = dict.fromkeys(names)
        self._tally = Tally()
        self._root = Guard(self._serve_root, self._tally, token, hosts)
        self._pages = {
            "/": self._say_what_this_is,
            "/healthz": self._say_alive,
            "/readyz": self._say_ready,
            "/metrics": self._show_numbers,
        }
        self._server = Server(self)
        self.address = ("", 0)

    async def start(self, listen: str) -> None:
        """Listen; a scheduler answers once its door is open."""
        self.address = await self._server.start(listen)

    async def stop(self, grace: float) -> None:
        """Stop listening, and cut off what is left after the grace."""
        await self._server.stop(grace)

    def door(self, name: str, api: Api) -> Door:
        """Return what serves one scheduler's API here."""
        return Door(self, name, api)

    def put(self, name: str, api: Api | None) -> None:
        """Serve this API under *name* from now on; None: nothing."""
        self._apis[name] = api

    def close_streams(self) -> None:
        """End all streams."""
        for api in self._there().values():
            api.close_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = _first_segment(scope)
        api = self._apis.get(name)
        if api is None:
            await self._root(scope, receive, send)
            return
        prefix = f"/{name}"
        inner = {**scope, "path": scope["path"][len(prefix) :] or "/"}
        inner["raw_path"] = scope["raw_path"][len(prefix) :] or b"/"
        if scope["type"] == "http" and _relayed not in dict(scope["headers"]):
            send = _with_locations_below(prefix.encode(), send)
        await api(inner, receive, send)

    # --- the root ----------------------------------------------------------------------------------
    async def _serve_root(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = self._pages.get(scope["path"]) if scope["type"] == "http" else None
        if page is None:
            raise self._nothing_at(_first_segment(scope))
        scope["fairway.route"] = scope["path"]
        if scope["method"] != "GET":
            raise Turned(405, "method_not_allowed", "only GET can be done here", allow="GET")
        await send_answer(send, await page())

    def _nothing_at(self, name: str) -> Turned:
        if name in self._apis:
            detail = f"scheduler {name} is starting or stopping; try again in a moment"
            return Turned(503, "unavailable", detail, retry_after="1")
        prefixes = ", ".join(f"/{name}" for name in self._apis)
        return Turned(
            404,
            "not_found",
            f"several schedulers are served here: put one of {prefixes} before the path",
        )

    async def _say_what_this_is(self) -> Answer:
        apis = {name: f"/{name}/v1/openapi.json" for name in self._apis}
        return answer_json({"name": "fairway", "version": __version__, "apis": apis, "numbers": "/metrics"})

    async def _say_alive(self) -> Answer:
        return Answer(200, b"ok\n", TEXT)

    async def _say_ready(self) -> Answer:
        """Ready when every scheduler is: one line for each."""
        reasons = await asyncio.gather(*(self._why_not_ready(name) for name in self._apis))
        lines = [
            f"{name}: not ready: {reason}\n" if reason else f"{name}: ready\n"
            for name, reason in zip(self._apis, reasons, strict=True)
        ]
        return Answer(503 if any(reasons) else 200, "".join(lines).encode(), TEXT)

    async def _why_not_ready(self, name: str) -> str | None:
        api = self._apis[name]
        return "it is starting or stopping" if api is None else await why_not_ready(api.desk)

    async def _show_numbers(self) -> Answer:
        """Show the numbers of all schedulers on one page, each labelled with its scheduler's name."""
        numbers: dict[str, float] = dict(self._tally.numbers())
        for name, api in self._there().items():
            numbers |= _labelled({**api.desk.numbers(), **api.tally.numbers()}, name)
        return Answer(200, "\n".join([*number_lines(numbers), ""]).encode(), METRICS)

    def _there(self) -> dict[str, Api]:
        return {name: api for name, api in self._apis.items() if api is not None}


class Door:
    """One scheduler's part of a front: to its node it is a server like any other."""

    def __init__(self, front: Front, name: str, api: Api) -> None:
        self._front, self._name, self._api = front, name, api

    async def start(self, listen: str) -> tuple[str, int]:
        """Open, and return the front's address; it listens already."""
        self._front.put(self._name, self._api)
        return self._front.address

    async def stop(self, grace: float) -> None:
        """Close: whoever comes now is told to try again; calls under way end with the front's grace."""
        self._front.put(self._name, None)
        self._api.close_streams()


def _first_segment(scope: Scope) -> str:
    """Return the first part of the path as it was written: an escaped prefix is none."""
    parts: list[bytes] = scope["raw_path"].split(b"/", 2)
    return parts[1].decode("latin-1") if len(parts) > 1 else ""


def _with_locations_below(prefix: bytes, send: Send) -> Send:
    async def send_below(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            message["headers"] = [(k, prefix + v if k == b"location" else v) for k, v in headers]
        await send(message)

    return send_below


def _labelled(numbers: Mapping[str, float], scheduler: str) -> dict[str, float]:
    """Add a label to every name, behind those it has."""
    label = f'scheduler="{scheduler}"'
    return {
        f"{key[:-1]},{label}}}" if key.endswith("}") else f"{key}{{{label}}}": value
        for key, value in numbers.items()
    }
