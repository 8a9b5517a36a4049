"""Names that cross process borders."""

from __future__ import annotations

import pytest

from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey, instance_name, is_plan_name


def test_a_topology_bears_the_name_of_its_plan_and_tenant() -> None:
    assert PlanKey(SUPER_TENANT, "KnockOnDelays").topology() == "KnockOnDelays[-1234]"
    assert Endpoint("127.0.0.1", 8904).url() == "tcp://127.0.0.1:8904"
    assert instance_name("filtering", 1) == "filtering#1"


@pytest.mark.parametrize("name", ["a", "Plan_1-b", "x" * 128])
def test_letters_digits_underscore_and_dash_make_a_plan_name(name: str) -> None:
    assert is_plan_name(name)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "ä", "x" * 129, "a\n", "../a"])
def test_anything_else_is_no_plan_name(name: str) -> None:
    assert not is_plan_name(name)
