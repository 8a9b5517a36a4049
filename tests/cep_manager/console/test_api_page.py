"""The page that describes the REST API, from the same document as programs get."""

from __future__ import annotations

from typing import Any

import pytest
from manager_world import FakeView, World

from cep_manager.web.app import create_app
from cep_manager.web.console.texts.api import shape

APP = create_app(FakeView(World()), 10_000)


def test_every_call_and_every_form_is_on_the_page() -> None:
    document = APP.test_client().get("/api/v1/openapi.json").get_json()
    page = APP.test_client().get("/api").get_data(as_text=True)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f'id="{operation["operationId"].replace("_", "-")}"' in page
            assert f'{method.upper()}</span> <code>{path}</code> <span class="said">' in page
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in page
    assert '<a href="#schema-PlanList">PlanList</a>' in page


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/components/schemas/PlanList"}, "PlanList"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Failure"}}, "list of Failure"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}], "items": False}, "[text, text]"),
        ({"type": "integer", "minimum": 1, "maximum": 500}, "whole number, 1 to 500"),
        ({"type": "number", "minimum": 0}, "number, at least 0"),
        ({"enum": ["off", "basic"]}, "off | basic"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "null or true | false"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "table of text"),
        ({}, "anything"),
    ],
)
def test_types_are_told_in_words(schema: dict[str, Any], words: str) -> None:
    assert shape(schema) == words
