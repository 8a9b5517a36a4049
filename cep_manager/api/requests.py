"""What requests say: tenant, flags, text."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from flask import Request

from cep_common.ids import SUPER_TENANT, parse_tenant
from cep_manager.errors import BadRequestError

Body = TypeVar("Body", bound=msgspec.Struct)

_FLAGS = {"": True, "true": True, "1": True, "false": False, "0": False}


def read_tenant(request: Request) -> int:
    """The tenant in the query parameter or header `tenant`; without either the super tenant. Raises BadRequestError."""
    written = request.args.get("tenant") or request.headers.get("tenant")
    if written is None:
        return SUPER_TENANT
    try:
        return parse_tenant(written)
    except ValueError as error:
        raise BadRequestError(str(error)) from error


def read_flag(request: Request, name: str) -> bool:
    """The query parameter `name` as a flag; absent is False. Raises BadRequestError."""
    written = request.args.get(name)
    if written is None:
        return False
    flag = _FLAGS.get(written.lower())
    if flag is None:
        raise BadRequestError(f"{name} must be true or false, not {written[:40]!r}")
    return flag


def read_number(written: str, name: str) -> int:
    """What is `written` for `name` as a whole number. Raises BadRequestError."""
    if not re.fullmatch(r"[0-9]{1,9}", written.strip(), re.ASCII):
        raise BadRequestError(f"{name} must be a whole number, not {written[:40]!r}")
    return int(written)


def read_text(request: Request) -> str:
    """The body as text, whatever its type says (curl calls it a form). Raises BadRequestError when it is not UTF-8."""
    if request.mimetype == "multipart/form-data":
        raise BadRequestError("send the plan as text: curl -H 'Content-Type: text/plain' --data-binary @FILE")
    try:
        return request.get_data().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequestError(f"the plan is not UTF-8 text (byte {error.start})") from error


def read_json(request: Request, kind: type[Body]) -> Body:
    """The body as JSON of the form `kind`. Raises BadRequestError, which names what is wrong with it."""
    try:
        return msgspec.json.decode(request.get_data(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        example = ", ".join(f'"{field.name}": …' for field in msgspec.structs.fields(kind))
        raise BadRequestError(f"the body must be JSON, {{{example}}}: {error}") from error
