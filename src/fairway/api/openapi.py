"""The OpenAPI 3.1 document, drawn from the route table and the types it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from fairway import __version__
from fairway.api.operation import Operation
from fairway.api.problems import Problem
from fairway.names import QUEUE_PATTERN, WORKER_PATTERN

REF = "#/components/schemas/{name}"
TITLES = {
    200: "Done", 201: "Accepted", 202: "Under way", 204: "Done", 308: "Elsewhere", 400: "Malformed",
    404: "No such thing", 409: "Conflict", 413: "Too large", 415: "Not JSON", 422: "Invalid", 429: "Too much",
    500: "An error of ours", 501: "Cannot be told", 503: "Not now", 504: "No answer from the worker",
}  # fmt: skip

PATH_PATTERNS = {
    "id": "^[0-7][0-9a-hj-km-np-tv-z]{12}$",
    "path": QUEUE_PATTERN,
    "name": WORKER_PATTERN,
}
_placeholder = re.compile(r"\{(\w+)(?::\w+)?\}")


def document(operations: Iterable[Operation], prefix: str = "") -> dict[str, Any]:
    """Draw the document of these calls; *prefix* is what stands before their paths."""
    operations = list(operations)
    schemas = Schemas(operations)
    paths: dict[str, Any] = {}
    for operation in operations:
        path = paths.setdefault(_placeholder.sub(r"{\1}", operation.path), {})
        path[operation.method.lower()] = _describe(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fairway", "version": __version__},
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


class Schemas:
    """The schemas of every type the table names."""

    def __init__(self, operations: list[Operation]) -> None:
        named: list[Any] = [Problem]
        for operation in operations:
            types = (operation.body, operation.answer, operation.other_answer)
            named += [operation.query, *(type for type in types if type is not None)]
        schemas, components = msgspec.json.schema_components(named, ref_template=REF)
        self._by_type = {repr(type): schema for type, schema in zip(named, schemas, strict=True)}
        queries = {operation.query.__name__ for operation in operations}
        self._queries = {name: components[name] for name in queries}
        self.components = {name: schema for name, schema in components.items() if name not in queries}

    def of(self, type: Any) -> dict[str, Any]:
        """Return a type's schema, or a reference to it."""
        return self._by_type[repr(type)]

    def parameters(self, query: type[msgspec.Struct]) -> Iterator[dict[str, Any]]:
        """Return the query parameters that a struct stands for."""
        for name, schema in self._queries[query.__name__].get("properties", {}).items():
            yield {"name": name, "in": "query", "required": False, "schema": schema}


def _describe(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    parameters = [*_path_parameters(operation), *schemas.parameters(operation.query), *_headers(operation)]
    described: dict[str, Any] = {
        "operationId": operation.act.__name__,
        "summary": operation.summary,
        "responses": _responses(operation, schemas),
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": schemas.of(operation.body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _path_parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for name in _placeholder.findall(operation.path):
        schema = {"type": "string", "pattern": PATH_PATTERNS[name]}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _headers(operation: Operation) -> Iterator[dict[str, Any]]:
    for name, meaning in operation.headers:
        schema = {"type": "string"}
        yield {"name": name, "in": "header", "required": False, "description": meaning, "schema": schema}


def _responses(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in (operation.status, *operation.others):
        responses[str(status)] = {"description": TITLES[status], **_content(operation, schemas, status)}
    refusals = {400, 422, 503, *operation.errors, *((413, 415) if operation.body is not None else ())}
    for status in sorted(refusals):
        responses[str(status)] = {"description": TITLES[status], **_problem(schemas)}
    if operation.path == "/readyz":
        responses["503"] = {"description": TITLES[503], **_content(operation, schemas, 503)}
    responses["default"] = {"description": "Refused", **_problem(schemas)}
    return responses


def _content(operation: Operation, schemas: Schemas, status: int) -> dict[str, Any]:
    if status in (204, 308):
        return {}
    other = operation.other_answer if status in operation.others else None
    answer = operation.answer if other is None else other
    schema = {"type": "string"} if answer is None else schemas.of(answer)
    return {"content": {operation.media: {"schema": schema}}}


def _problem(schemas: Schemas) -> dict[str, Any]:
    return {"content": {"application/problem+json": {"schema": schemas.of(Problem)}}}
