"""Every request that changes something is recorded, with its user and its outcome."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

import msgspec
from flask import Response, g, request

from cep_common.ids import parse_tenant
from cep_common.security.access import Principal
from cep_common.security.web import called
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.audit_log import TOO_MANY
from cep_manager.accounts.model import AuditEntry
from cep_manager.web.login.request_checks import SAFE_METHODS

CHANGES_NOTHING = frozenset(
    {
        "api.validate_plan",
        "api.preview_plan",
        "api.query_state",
        "console.query_plan_state",
        "console.query_plan_fragment",
    }
)
"""Calls that change nothing although their method is POST."""

LOGIN = "accounts.log_in"
SEE_OTHER, NOT_AUTHENTICATED, FORBIDDEN = 303, 401, 403
OF_LOGINS = frozenset({SEE_OTHER, NOT_AUTHENTICATED, TOO_MANY})
"""Statuses of logins. A form that is refused before it is read (too large, or cross-site) is no login."""

WHO_LENGTH, SHOWN_LENGTH, ADDRESS_LENGTH, CALL_LENGTH, TARGET_LENGTH = 64, 16, 64, 64, 200
"""What the table takes: an entry that it does not take would be lost."""

LONGEST_ANSWER = 10_000
_PLAN_PAGE = re.compile(r"/plans/([^/?]+)")


def write_down(accounts: Accounts) -> Callable[[Response], Response]:
    """Return a hook that records every answer in the audit log.

    Calls of unknown callers are not recorded, except logins: otherwise they could push out the entries of known users.
    """

    def write(answer: Response) -> Response:
        call = called()
        if request.method in SAFE_METHODS or not request.endpoint or call in CHANGES_NOTHING:
            return answer
        principal: Principal | None = g.get("principal")
        if not _counts(call, principal, answer.status_code):
            return answer
        now_ms = accounts.clock.now_ms()
        entry = AuditEntry(
            at_ms=now_ms,
            last_ms=now_ms,
            times=1,
            who=(g.get("tried") or (principal.name if principal else ""))[:WHO_LENGTH],
            shown=(g.get("shown") or "")[:SHOWN_LENGTH],
            address=(request.remote_addr or "")[:ADDRESS_LENGTH],
            call=call[:CALL_LENGTH],
            target=_target(call, answer)[:TARGET_LENGTH],
            status=answer.status_code,
        )
        accounts.audit.write(entry)
        return answer

    return write


def about(what: str) -> None:
    """Note what the present request is about, when its address does not say so."""
    g.about = what


def _counts(call: str, principal: Principal | None, status: int) -> bool:
    """Return whether the call is recorded: every login, and calls of known callers or open to anybody."""
    if "anybody" not in g:  # refused at the gate, which did not ask who it was
        return False
    if call == LOGIN:
        return status in OF_LOGINS
    return principal is not None or bool(g.anybody)


def _target(call: str, answer: Response) -> str:
    """Return what the call was about.

    Empty for forbidden calls: otherwise callers without rights could make up any number of names, each an entry.
    """
    if call == LOGIN or answer.status_code == FORBIDDEN:
        return ""
    parts = {name: str(value) for name, value in (request.view_args or {}).items() if name != "action"}
    if "name" not in parts:
        parts["name"] = g.get("about") or _plan_of(answer)
    parts["tenant"] = _tenant()
    text = " ".join(f"{name}={value}" for name, value in parts.items() if value)
    # PostgreSQL keeps no NUL, and no database a half of a surrogate pair.
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _tenant() -> str:
    """Return the tenant that the request names; empty when it names none."""
    try:
        return str(parse_tenant(request.args.get("tenant") or request.headers.get("tenant") or ""))
    except ValueError:
        return ""


def _plan_of(answer: Response) -> str:
    """Return the plan that a deployment was about: its name is in the plan's text, and in the answer."""
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
