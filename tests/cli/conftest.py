"""Fixtures of the command line's tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from tests.cli.stand_in import Handler, StandIn


@pytest.fixture
def node() -> Iterator[StandIn]:
    """A stand-in on a free port."""
    handler = type("BoundHandler", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        stand_in = StandIn(f"http://127.0.0.1:{server.server_port}")
        handler.stand_in = stand_in  # type: ignore[attr-defined]
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield stand_in
        server.shutdown()
        thread.join(5)
