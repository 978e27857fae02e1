"""The documents of the API are complete and up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.api.app import operations
from fairway.api.openapi import document
from fairway.api.reference import page
from fairway.api.tally import METHODS, Tally
from fairway.query import EVENT_FIELDS, JOB_FIELDS

DOCS = Path(__file__).parents[2] / "docs" / "reference"
TABLE = operations(Tally())
EVENT_KIND = re.compile(r'(?<!field=)"((?:job|queue|worker|schedule|failure|notify|operation)\.[a-z]+)"')


@pytest.fixture(scope="module")
def spec() -> Any:
    return json.loads(msgspec.json.encode(document(TABLE)))


def test_the_reference_page_is_what_the_table_says() -> None:
    assert (DOCS / "http.md").read_text() == page(), (
        "run: python -m fairway.api.reference > docs/reference/http.md"
    )


def test_the_grammar_page_names_every_field() -> None:
    text = (DOCS / "query.md").read_text()
    assert [field for field in (*JOB_FIELDS, *EVENT_FIELDS) if f"`{field}`" not in text] == []


def test_the_page_of_events_names_every_kind() -> None:
    sources = (Path(__file__).parents[2] / "src" / "fairway").rglob("*.py")
    kinds = {kind for source in sources for kind in EVENT_KIND.findall(source.read_text())}
    assert len(kinds) > 15
    text = (DOCS / "events.md").read_text()
    assert sorted(kind for kind in kinds if f"| `{kind}` |" not in text) == []


def test_every_call_is_documented_once(spec: Any) -> None:
    calls = [(path, method) for path, methods in spec["paths"].items() for method in methods]
    assert len(calls) == len(TABLE) == len(set(calls))
    names = [spec["paths"][path][method]["operationId"] for path, method in calls]
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere(spec: Any) -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [ref for item in value.values() for ref in references(item)]
        return [ref for item in value for ref in references(item)] if isinstance(value, list) else []

    known = {f"#/components/schemas/{name}" for name in spec["components"]["schemas"]}
    found = set(references(spec))
    assert found and found <= known


def test_every_path_parameter_is_declared(spec: Any) -> None:
    for path, methods in spec["paths"].items():
        for described in methods.values():
            declared = {one["name"] for one in described.get("parameters", []) if one["in"] == "path"}
            assert declared == {part.split("}")[0] for part in path.split("{")[1:]}


def test_every_method_is_counted_under_its_name() -> None:
    assert {operation.method for operation in TABLE} <= METHODS
