"""The roles of HTTP: what each is granted."""

from __future__ import annotations

import pytest

from cep_common.security.access import GRANTS, AccessRole, Permission, Principal, is_granted, speaks_for

MATRIX = {
    #                            sender viewer operator editor admin
    Permission.OPEN:             "x      x      x        x      x",
    Permission.SEE:              "x      x      x        x      x",
    Permission.SEE_SYSTEM:       "       x      x        x      x",
    Permission.DRAFT:            "       x      x        x      x",
    Permission.SEND:             "x             x        x      x",
    Permission.OPERATE:          "              x        x      x",
    Permission.EDIT:             "                       x      x",
    Permission.ADMINISTER:       "                              x",
}  # fmt: skip
COLUMNS = dict(zip(AccessRole, (0, 7, 14, 23, 30), strict=True))


@pytest.mark.parametrize("role", AccessRole)
def test_each_role_is_granted_what_the_matrix_says(role: AccessRole) -> None:
    assert {one for one, row in MATRIX.items() if row[COLUMNS[role] :][:1] == "x"} == GRANTS[role]


def test_who_belongs_to_a_tenant_sees_nothing_of_others() -> None:
    for role in AccessRole:
        principal = Principal("p", role, tenant=7)
        assert not is_granted(principal, Permission.SEE_SYSTEM)
        assert not is_granted(principal, Permission.ADMINISTER)
        assert speaks_for(principal, 7)
        assert not speaks_for(principal, 8)
    assert speaks_for(Principal("p", AccessRole.VIEWER), 8)
