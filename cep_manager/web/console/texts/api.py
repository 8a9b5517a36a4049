"""The REST API in texts, from its OpenAPI document. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Table = Mapping[str, Any]


class ApiPart(msgspec.Struct, frozen=True):
    """A parameter, or what may be in a body: its name, its type and what it is for."""

    name: str
    type: str
    text: str
    required: bool = False


class ApiAnswer(msgspec.Struct, frozen=True):
    """What is answered with a status."""

    status: str
    text: str
    shape: str
    good: bool


class ApiCall(msgspec.Struct, frozen=True):
    """A call of the API as the page shows it. `id` names it in the page's address."""

    id: str
    method: str
    path: str
    summary: str
    permission: str
    parameters: tuple[ApiPart, ...]
    bodies: tuple[ApiPart, ...]
    answers: tuple[ApiAnswer, ...]


class ApiArea(msgspec.Struct, frozen=True):
    """Calls that belong together."""

    name: str
    calls: tuple[ApiCall, ...]


class ApiSchema(msgspec.Struct, frozen=True):
    """A form in which things go over the API."""

    name: str
    text: str
    fields: tuple[ApiPart, ...]


def present_areas(document: Table) -> tuple[ApiArea, ...]:
    """Return all calls, by area."""
    calls = [
        (operation["tags"][0], _call(method, path, operation, document))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return tuple(
        ApiArea(tag["name"], tuple(call for area, call in calls if area == tag["name"])) for tag in document["tags"]
    )


def present_schemas(document: Table) -> tuple[ApiSchema, ...]:
    """Return all forms that calls take or give, in order of name."""
    return tuple(
        ApiSchema(name, schema.get("description", ""), _fields(schema))
        for name, schema in sorted(document["components"]["schemas"].items())
    )


def _fields(schema: Table) -> tuple[ApiPart, ...]:
    required = schema.get("required", ())
    return tuple(
        ApiPart(name, shape(part), part.get("description", ""), name in required)
        for name, part in schema.get("properties", {}).items()
    )


def _call(method: str, path: str, operation: Table, document: Table) -> ApiCall:
    shared = document["components"]["parameters"]
    parameters = [shared[one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one for one in operation["parameters"]]
    body = operation.get("requestBody", {})
    return ApiCall(
        id=operation["operationId"].replace("_", "-"),
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        permission=operation["x-permission"],
        parameters=tuple(
            ApiPart(one["name"], shape(one["schema"]), one.get("description", ""), one.get("required", False))
            for one in parameters
        ),
        bodies=tuple(
            ApiPart(media, shape(content.get("schema", {})), "", body["required"])
            for media, content in body.get("content", {}).items()
        ),
        answers=tuple(_answer(status, answer) for status, answer in operation["responses"].items()),
    )


def _answer(status: str, answer: Table) -> ApiAnswer:
    shapes = [shape(content.get("schema", {})) or media for media, content in answer.get("content", {}).items()]
    return ApiAnswer(status, answer["description"], ", ".join(shapes), status.startswith("2"))


def shape(schema: Table) -> str:
    """Return a schema in some words: `text`, `list of PlanSummary`, `whole number, 0 to 5000`, `a | b`."""
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(shape(one) for one in schema["anyOf"])
    match schema.get("type"):
        case "array":
            return _list(schema)
        case "object":
            inner = schema.get("additionalProperties")
            return f"table of {shape(inner)}" if isinstance(inner, Mapping) and inner else "table"
        case "integer" | "number" as kind:
            return _number("whole number" if kind == "integer" else "number", schema)
        case "string":
            return "text"
        case "boolean":
            return "true | false"
        case "null":
            return "null"
    return "anything" if schema == {} else ""


def _list(schema: Table) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(shape(one) for one in schema['prefixItems'])}]"
    items = schema.get("items")
    return f"list of {shape(items)}" if isinstance(items, Mapping) and items else "list"


def _number(kind: str, schema: Table) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{kind}, {least} to {most}"
    if least is not None:
        return f"{kind}, at least {least}"
    return kind
