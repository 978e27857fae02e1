"""Looking at an operation again and again, until whoever leads says that it is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fairway.cli.calling import current, part
from fairway.errors import WorldError

LOOK_SECONDS = 0.2
PATIENCE_SECONDS = 60.0  # with a cluster that answers nothing: it may be electing a leader


def looks(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the operation as it is, without end: who looks knows when to stop."""
    transport, now, heard = current().transport(), operation, time.monotonic()
    while True:
        yield now
        time.sleep(LOOK_SECONDS)
        try:
            now = transport.call("GET", f"/operations/{part(operation['id'])}")
            heard = time.monotonic()
        except WorldError:
            if time.monotonic() > heard + PATIENCE_SECONDS:
                raise
