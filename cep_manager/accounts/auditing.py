"""Every request that changes something is written down, with who made it and what came of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

import msgspec
from flask import Response, g, request

from cep_common.security.access import Principal
from cep_common.security.web import called
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.checks import SAFE_METHODS
from cep_manager.accounts.model import AuditEntry

CHANGES_NOTHING = frozenset({"api.validate_plan", "api.preview_plan", "console.query_plan_fragment"})
"""What is sent to be looked at only."""

LOGIN = "accounts.log_in"
TARGET_LENGTH = 200
SEE_OTHER, NOT_AUTHENTICATED = 303, 401
LONGEST_ANSWER = 10_000
_PLAN_PAGE = re.compile(r"/plans/([^/?]+)")


def write_down(accounts: Accounts) -> Callable[[Response], Response]:
    """For every answer. What nobody has tried who is known is not written down, but for logins: it would be noise."""

    def write(answer: Response) -> Response:
        call = called()
        if request.method in SAFE_METHODS or not request.endpoint or call in CHANGES_NOTHING:
            return answer
        if call != LOGIN and answer.status_code == NOT_AUTHENTICATED:
            return answer
        principal: Principal | None = g.get("principal")
        now_ms = accounts.clock.now_ms()
        entry = AuditEntry(
            at_ms=now_ms,
            last_ms=now_ms,
            times=1,
            who=g.get("tried") or (principal.name if principal else ""),
            shown=g.get("shown") or "",
            address=(request.remote_addr or "")[:64],
            call=call[:64],
            target=_target(answer)[:TARGET_LENGTH],
            status=answer.status_code,
        )
        accounts.audit.write(entry)
        return answer

    return write


def about(what: str) -> None:
    """The present request is about that, which its address does not say."""
    g.about = what


def _target(answer: Response) -> str:
    parts = {name: str(value) for name, value in (request.view_args or {}).items() if name != "action"}
    if "name" not in parts:
        parts["name"] = g.get("about") or _plan_of(answer)
    tenant = request.args.get("tenant") or request.headers.get("tenant")
    if tenant:
        parts["tenant"] = tenant
    return " ".join(f"{name}={value}" for name, value in parts.items() if value)


def _plan_of(answer: Response) -> str:
    """The plan that a deployment was about: its name is in the plan's text, and in the answer."""
    if answer.status_code == SEE_OTHER:
        found = _PLAN_PAGE.match(answer.headers.get("Location", ""))
        return unquote(found[1]) if found else ""
    if answer.status_code >= 300 or not answer.is_json or (answer.content_length or 0) > LONGEST_ANSWER:
        return ""
    try:
        return msgspec.json.decode(answer.get_data(), type=_OfPlan).plan
    except msgspec.DecodeError:
        return ""


class _OfPlan(msgspec.Struct, frozen=True):
    plan: str = ""
