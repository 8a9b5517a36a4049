"""Access control of HTTP calls: the roles of users and programs, and the permissions of each role. Pure.

    role      sees plans  sees the system, validates  sends events  operates  edits  administers
    sender        x                                        x
    viewer        x                  x
    operator      x                  x                     x           x
    editor        x                  x                     x           x        x
    admin         x                  x                     x           x        x         x

Every server has its own table of the permissions that its calls require (`Calls`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Permission(StrEnum):
    """The permission that a call requires. `OPEN` requires nothing, not even a token."""

    OPEN = "open"
    SEE = "see plans"
    SEE_SYSTEM = "see the system, with what belongs to all tenants"
    DRAFT = "validate and preview plans"
    SEND = "send events"
    OPERATE = "operate plans: restart, rebalance, trace, take events or not"
    EDIT = "edit plans: deploy, rename, undeploy"
    ADMINISTER = "administer the system"


class AccessRole(StrEnum):
    """The role of a user or program in the system."""

    SENDER = "sender"
    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"


_SEE = frozenset({Permission.OPEN, Permission.SEE})
_VIEW = _SEE | {Permission.SEE_SYSTEM, Permission.DRAFT}
_OPERATE = _VIEW | {Permission.SEND, Permission.OPERATE}

GRANTS: dict[AccessRole, frozenset[Permission]] = {
    AccessRole.SENDER: _SEE | {Permission.SEND},
    AccessRole.VIEWER: _VIEW,
    AccessRole.OPERATOR: _OPERATE,
    AccessRole.EDITOR: _OPERATE | {Permission.EDIT},
    AccessRole.ADMIN: frozenset(Permission),
}

OF_ALL_TENANTS = frozenset({Permission.SEE_SYSTEM, Permission.ADMINISTER})
"""Permissions that users of a single tenant never have."""

Calls = Mapping[str, Permission]
"""The permission that each call of a server requires, by its endpoint in Flask.

Calls with an `action` in their address are named `endpoint:action`. A call that is missing requires ADMINISTER.
"""


class Principal(msgspec.Struct, frozen=True):
    """An authenticated user or program. With a `tenant` it may act for that tenant only."""

    name: str
    role: AccessRole
    tenant: int | None = None


def is_granted(principal: Principal, permission: Permission) -> bool:
    """Return whether the principal has `permission`."""
    if principal.tenant is not None and permission in OF_ALL_TENANTS:
        return False
    return permission in GRANTS[principal.role]


def speaks_for(principal: Principal, tenant: int) -> bool:
    """Return whether the principal may act for `tenant`."""
    return principal.tenant in (None, tenant)
