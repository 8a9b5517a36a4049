"""The API's description in OpenAPI 3.1, made from what its calls declare. Pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cep_common.errors import CepError
from cep_common.security.access import Permission
from cep_manager.errors import BadRequestError, ManagerUnavailableError, MediaTypeError, NotLeaderError
from cep_manager.web.access import CALLS
from cep_manager.web.api.calls import JSON, Media, RestCall
from cep_manager.web.api.failures import Failure, status_of
from cep_manager.web.login.login_sessions import COOKIE
from cep_manager.web.login.page_context import CSRF_HEADER

PART = re.compile(r"<(?:path:)?(\w+)>")
REFERENCE = "#/components/schemas/{name}"

SECURITY: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token: `cep token create`"},
    "basic": {"type": "http", "scheme": "basic", "description": "A user and their password, or any name and a token"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "Session of a user who has logged in to the console. Changes also need the page's "
        f"token, in header {CSRF_HEADER}",
    },
}

TENANT = {
    "name": "tenant",
    "in": "query",
    "description": "Tenant of the plans; may also be sent as a header. Default: the super tenant, -1234",
    "schema": {"type": "integer", "minimum": -999_999_999, "maximum": 999_999_999},
}

EVERYWHERE = {
    307: "`not-leader`: another manager leads; repeat the request at `Location`",
    401: "`not-authenticated`: no token, or an unknown one",
    403: (
        "`not-authorised`, `password-must-change`: the caller lacks the permission; "
        "`unknown-host`, `cross-site`, `csrf`: the request came from a place that is not allowed"
    ),
    429: "`too-many-requests`: the client makes more requests a second than it may",
    500: "`internal`: a defect; the manager's log says more",
}
"""What every call but the open ones may answer, beside its own."""

WITH_BODY = {413: "`body-too-large`: the body is longer than `http.body_bytes`"}

Table = dict[str, Any]


def describe_api(calls: Iterable[RestCall]) -> Table:
    """Return the OpenAPI document of `calls`."""
    known = tuple(calls)
    schemas = _Schemas(known)
    paths: dict[str, Table] = {}
    for call in known:
        paths.setdefault(PART.sub(r"{\1}", call.path), {})[call.method.lower()] = _operation(call, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "CEP on Spark: REST API of the manager",
            "version": "1",
            "description": "Complex event processing in SiddhiQL: plans, events, checkpoints, the system.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{name: []} for name in SECURITY],
        "tags": [{"name": area} for area in dict.fromkeys(call.area for call in known)],
        "paths": paths,
        "components": {"securitySchemes": SECURITY, "parameters": {"tenant": TENANT}, "schemas": schemas.components},
    }


class _Schemas:
    """The schemas of everything that `calls` take and give: `of` each, and those that they share."""

    def __init__(self, calls: Iterable[RestCall]) -> None:
        kinds: list[Any] = [Failure]
        for call in calls:
            kinds += [kind for kind in call.answers.values() if kind is not None and not isinstance(kind, Media)]
            kinds += [call.body.type] if call.body is not None else []
        # Types are compared as they are: `Any` and unions are none that could be hashed with all others.
        self._kinds = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
        schemas, self.components = msgspec.json.schema_components(self._kinds, ref_template=REFERENCE)
        self._schemas = schemas

    def of(self, kind: Any) -> Table:
        return self._schemas[self._kinds.index(kind)]


def _operation(call: RestCall, schemas: _Schemas) -> Table:
    permission = CALLS.get(f"api.{call.name}", Permission.ADMINISTER)
    operation: Table = {
        "operationId": call.name,
        "summary": call.summary,
        "tags": [call.area],
        "parameters": _parameters(call),
        "responses": _responses(call, permission, schemas),
        "x-permission": permission.value,
    }
    if permission is Permission.OPEN:
        operation["security"] = []
    if call.body is not None:
        content = {media: {"schema": schemas.of(call.body.type)} for media in call.body.media}
        operation["requestBody"] = {"required": call.body.required, "content": content}
    return operation


def _parameters(call: RestCall) -> list[Table]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in PART.findall(call.path)
    ]
    in_query = [_parameter(field) for field in msgspec.structs.fields(call.query)] if call.query is not None else []
    return [*in_path, *in_query, *([{"$ref": "#/components/parameters/tenant"}] if call.of_tenant else [])]


def _parameter(field: msgspec.structs.FieldInfo) -> Table:
    schema = dict(msgspec.json.schema(field.type))
    description = schema.pop("description", "")
    if field.default is not msgspec.NODEFAULT:
        schema["default"] = msgspec.to_builtins(field.default)
    return {
        "name": field.encode_name,
        "in": "query",
        "description": description,
        "required": field.required,
        "schema": schema,
    }


def _responses(call: RestCall, permission: Permission, schemas: _Schemas) -> Table:
    answers = {
        str(status): {"description": _words(kind), **_content(kind, schemas)} for status, kind in call.answers.items()
    }
    failures = {**_failures(call), **(WITH_BODY if call.body is not None else {})}
    if permission is not Permission.OPEN:
        failures = {**EVERYWHERE, **failures} | {403: "; ".join(filter(None, (EVERYWHERE[403], failures.get(403))))}
    if call.method == "GET" and not isinstance(call.answers.get(200), Media):
        answers["304"] = {"description": "Not modified since the `ETag` in `If-None-Match`"}
    body = {"content": {JSON: {"schema": schemas.of(Failure)}}}
    return answers | {
        str(status): {"description": text, **body}
        for status, text in sorted(failures.items())
        if status not in call.answers
    }


def _failures(call: RestCall) -> Mapping[int, str]:
    """By status: the codes of the call's own failures, and of those that follow from what it takes."""
    kinds: list[type[CepError]] = [*call.fails, NotLeaderError, ManagerUnavailableError]
    if call.of_tenant or call.query is not None or call.body is not None:
        kinds.insert(0, BadRequestError)
    if call.body is not None:
        kinds.append(MediaTypeError)
    texts: dict[int, str] = {}
    for kind in dict.fromkeys(kinds):
        words = f"`{kind.code}`: {_first_line(kind)}"
        status = status_of(kind)
        texts[status] = f"{texts[status]}; {words}" if status in texts else words
    return texts


def _words(kind: Any) -> str:
    if kind is None:
        return "Done or started; the response has no body"
    return kind.words if isinstance(kind, Media) else _first_line(kind)


def _content(kind: Any, schemas: _Schemas) -> Table:
    if kind is None:
        return {}
    if isinstance(kind, Media):
        return {"content": {kind.type: {}}}
    return {"content": {JSON: {"schema": schemas.of(kind)}}}


def _first_line(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or kind.__name__).partition("\n\n")[0].split())
