"""The served OpenAPI document is true: what it describes is what a node does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fairway.api.app import operations
from fairway.api.openapi import document
from fairway.api.tally import Tally
from tests.api.conftest import start_node
from tests.api.from_outside import SECONDS

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
#: Streams do not end by themselves, and stepping down would only test how long an election takes.
LEFT_OUT = ["/v1/events", "/v1/cluster/pulse", "/v1/cluster/step-down"]

DOCUMENT = json.loads(msgspec.json.encode(document(operations(Tally()))))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT).exclude(path=LEFT_OUT)
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)}
#: What takes no parameter and no body cannot be called wrongly.
MODES = [
    (name, mode)
    for name, operation in sorted(OPERATIONS.items())
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or {"parameters", "requestBody"} & set(operation.definition.raw)
]


@pytest.fixture(scope="module")
def node_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node that runs on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    starting = start_node(tmp_path_factory.mktemp("described"))
    node = asyncio.run_coroutine_threadsafe(starting, loop).result(SECONDS)
    try:
        yield node.url
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result(SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


def test_the_document_that_is_served_is_the_one_that_is_tested(node_url: str) -> None:
    assert httpx.get(f"{node_url}/v1/openapi.json", timeout=SECONDS).json() == DOCUMENT


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_what_the_document_says_is_true(node_url: str, name: str, mode: GenerationMode) -> None:
    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(OPERATIONS[name].as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(base_url=node_url, checks=CHECKS, timeout=SECONDS)

    check()
