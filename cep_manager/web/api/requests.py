"""What requests say: tenant, parameters, bodies."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from flask import Request, g

from cep_common.ids import parse_tenant
from cep_common.security.web import callers_tenant
from cep_manager.errors import BadRequestError, MediaTypeError

Body = TypeVar("Body", bound=msgspec.Struct)

_PLACE = re.compile(r" - at `\$\.([^`]*)`$")
"""The position that msgspec reports for an invalid body."""

_FLAGS = {"": True, "true": True, "1": True, "false": False, "0": False}


def read_tenant(request: Request) -> int:
    """Return the tenant in the query parameter or header `tenant`.

    Without either that of the caller, which is the super tenant for those who may act for all. Raises BadRequestError.
    """
    written = request.args.get("tenant", request.headers.get("tenant"))
    if written is None:
        return callers_tenant()
    try:
        return parse_tenant(written)
    except ValueError as error:
        raise BadRequestError(str(error), {"parameter": "tenant"}) from error


def shown_to_workers(request: Request) -> str:
    """Return the header with which workers authenticate the user.

    Empty for users: workers know the tokens of the file only, and what users show to managers is not for them.
    """
    return "" if g.get("account") is not None else request.headers.get("Authorization", "")


def read_flag(request: Request, name: str) -> bool:
    """Return the query parameter `name` as a flag, False if absent. Raises BadRequestError."""
    written = request.args.get(name)
    if written is None:
        return False
    flag = _FLAGS.get(written.lower())
    if flag is None:
        raise BadRequestError(f"{name} must be true or false, not {written[:40]!r}")
    return flag


def read_query(request: Request, kind: type[Body]) -> Body:
    """Return the query parameters as the fields of `kind`; a flag that is named alone is true.

    Raises BadRequestError, which lists the valid values.
    """
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        written = request.args.get(field.encode_name)
        if written is None:
            continue
        said = _FLAGS.get(written.lower(), written) if _is_flag(field.type) else written
        try:
            values[field.name] = msgspec.convert(said, field.type, strict=False)
        except msgspec.ValidationError as error:
            wanted = msgspec.json.schema(field.type)
            raise BadRequestError(
                f"{field.encode_name} must be {_words(wanted)}, not {written[:40]!r}",
                {"parameter": field.encode_name, "allowed": wanted},
            ) from error
    try:
        return kind(**values)
    except TypeError as error:
        raise BadRequestError(f"a parameter is missing: {error}", {"allowed": msgspec.json.schema(kind)}) from error


def _is_flag(kind: Any) -> bool:
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind) is bool


def _words(schema: dict[str, Any]) -> str:
    """Describe the values that a parameter accepts."""
    if "enum" in schema:
        return " or ".join(str(value) for value in schema["enum"])
    kind = {"boolean": "true or false", "integer": "a whole number", "number": "a number"}.get(
        schema.get("type", ""), "text"
    )
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{kind} from {least:,} to {most:,}"
    return f"{kind} of at least {least:,}" if least is not None else kind


def read_number(written: str, name: str) -> int:
    """Return the text `written` for the parameter `name` as a whole number. Raises BadRequestError."""
    if not re.fullmatch(r"[0-9]{1,9}", written.strip(), re.ASCII):
        raise BadRequestError(f"{name} must be a whole number, not {written[:40]!r}")
    return int(written)


def read_text(request: Request) -> str:
    """Return the body as text, whatever its type says (curl calls it a form).

    Raises BadRequestError when it is not UTF-8.
    """
    if request.mimetype == "multipart/form-data":
        raise MediaTypeError(
            "send the plan as text: curl -H 'Content-Type: text/plain' --data-binary @FILE", {"allowed": ["text/plain"]}
        )
    try:
        return request.get_data().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequestError(f"the plan is not UTF-8 text (byte {error.start})") from error


def read_json(request: Request, kind: type[Body]) -> Body:
    """Return the body as JSON of the form `kind`. Raises BadRequestError, which names what is wrong with it."""
    if request.mimetype == "multipart/form-data":
        raise MediaTypeError("send the body as JSON", {"allowed": ["application/json"]})
    try:
        return msgspec.json.decode(request.get_data(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        allowed = [field.encode_name for field in msgspec.structs.fields(kind)]
        example = ", ".join(f'"{name}": …' for name in allowed)
        place = _PLACE.search(str(error))
        raise BadRequestError(
            f"the body must be JSON, {{{example}}}: {error}",
            {"body": allowed, "at": place[1] if place is not None else ""},
        ) from error
