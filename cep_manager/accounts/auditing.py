"""Every request that changes something is written down, with who made it and what came of it."""

from __future__ import annotations

from collections.abc import Callable

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
NOT_AUTHENTICATED = 401


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
            target=_target()[:TARGET_LENGTH],
            status=answer.status_code,
        )
        accounts.audit.write(entry)
        return answer

    return write


def _target() -> str:
    parts = {name: str(value) for name, value in (request.view_args or {}).items() if name != "action"}
    tenant = request.args.get("tenant") or request.headers.get("tenant")
    if tenant:
        parts["tenant"] = tenant
    return " ".join(f"{name}={value}" for name, value in parts.items())
