"""The other end of the wire: an HTTP server that answers as it is told and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Semaphore, Thread
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class Reply(NamedTuple):
    """An answer to give. `drop`: close the connection instead. `close`: close it afterwards, unannounced."""

    status: int = 200
    body: bytes = b"{}"
    kind: str = "application/json"
    headers: Mapping[str, str] = {}
    drop: bool = False
    close: bool = False
    silent: bool = False


def reply(value: Any, status: int = 200, **headers: str) -> Reply:
    """Return an answer in JSON."""
    return Reply(status, json.dumps(value).encode(), headers=headers)


def problem(status: int, code: str, detail: str = "no", field: str | None = None, **headers: str) -> Reply:
    """Return an answer in problem+json."""
    body = {"type": "about:blank", "status": status, "code": code, "detail": detail, "field": field}
    return Reply(status, json.dumps(body).encode(), "application/problem+json", headers)


class Peer:
    """Gives its replies one after the other, the last one for ever."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.replies: list[Reply] = [Reply()]
        self.url = ""
        self.released = Event()
        self.closed = Semaphore(0)  # released once per connection that is closed
        self._lock = Lock()

    def says(self, *replies: Reply) -> None:
        """Answer like this from now on."""
        self.replies = list(replies)

    def next_reply(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@contextmanager
def running_peer() -> Iterator[Peer]:
    """Run a peer on a free port."""
    peer = Peer()

    class Serve(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            given = peer.next_reply(Asked(self.command, self.path, headers, body))
            if given.silent:
                peer.released.wait(10)
            if given.drop or given.silent:
                self.close_connection = True
                return
            self.send_response(given.status)
            for name, value in {"content-type": given.kind, **given.headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body)
            self.close_connection = self.close_connection or given.close

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def shutdown_request(self, request: Any) -> None:
            super().shutdown_request(request)
            peer.closed.release()

    server = Server(("127.0.0.1", 0), Serve)
    server.daemon_threads = True
    server.block_on_close = False
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    peer.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield peer
    finally:
        peer.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
