"""The served OpenAPI document is true: what it describes is what a node does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.conftest import start_node
from tests.api.from_outside import SECONDS

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
#: Streams do not end by themselves, and stepping down would only test how long an election takes.
LEFT_OUT = ["/v1/events", "/v1/cluster/step-down"]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The document of a node that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    node = asyncio.run_coroutine_threadsafe(start_node(tmp_path_factory.mktemp("described")), loop).result(
        SECONDS
    )
    try:
        yield schemathesis.openapi.from_url(f"{node.url}/v1/openapi.json").exclude(path=LEFT_OUT)
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result(SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_the_document_says_is_true(case: Any) -> None:
    case.call_and_validate(checks=CHECKS, timeout=SECONDS)
