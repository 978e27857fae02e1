"""What fault runs stand on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import TempPostgres


@pytest.fixture
def server() -> Iterator[TempPostgres]:
    """A PostgreSQL for one test, with durable settings: it will be killed."""
    server = TempPostgres(durable=True)
    try:
        yield server.start()
    finally:
        server.stop()
