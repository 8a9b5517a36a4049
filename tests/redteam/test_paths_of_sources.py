"""An editor takes paths at which events of others come in."""

from __future__ import annotations

import pytest

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.registry import Connector, StreamBinding
from query_plan.connectors.http_paths import path_faults, refuse_path

IMPORTED = (StreamBinding("In", "In:1.0.0", ()),)


def source(url: str = "") -> Connector:
    return Connector("In", "http", {"receiver.url": url} if url else {}, "", {})


def faults(key: PlanKey, mine: Connector, other: PlanKey, theirs: Connector) -> list[str]:
    return [reason for _, reason in path_faults(key, (mine,), IMPORTED, [(other, (theirs,))], {"127.0.0.1:8006"})]


@pytest.mark.parametrize(
    "path",
    ["/t/8/x", "/t/7", "/t/7/../8/x", "/t/%38/x", "//t/8/x", "/x", "/t/7x/y", "/T/7/x", "/events/In",
     "/t/7/./../../P/In"],
)  # fmt: skip
def test_a_tenants_path_begins_with_the_tenant(path: str) -> None:
    assert refuse_path(path, 7)


@pytest.mark.parametrize("path", ["/t/7/x", "/t", "/t/", "/events/x", "/%74/7/x", "/./t/7/x"])
def test_the_super_tenant_takes_none_of_a_tenants(path: str) -> None:
    assert refuse_path(path, SUPER_TENANT)


def test_own_paths_are_free() -> None:
    assert refuse_path("/t/7/x", 7) == ""
    assert refuse_path("/hooks/in", SUPER_TENANT) == ""


def test_who_holds_a_path_is_said_to_its_own_tenant_alone() -> None:
    first, second = PlanKey(SUPER_TENANT, "First"), PlanKey(SUPER_TENANT, "Second")
    url = "http://127.0.0.1:9000/in"
    assert faults(second, source(url), first, source(url)) == [
        "/in is taken by the plan First; choose another path, or leave receiver.url out"
    ]
    stranger = faults(
        PlanKey(7, "Mine"),
        source("http://0.0.0.0:9000/t/7/in"),
        PlanKey(8, "Secret"),
        source("http://0.0.0.0:9000/t/7/in"),
    )
    assert len(stranger) == 1
    assert "Secret" not in stranger[0]
    assert "8" not in stranger[0]


def test_the_default_path_of_another_plan_is_taken_at_any_spelling_of_the_server() -> None:
    first, second = PlanKey(SUPER_TENANT, "First"), PlanKey(SUPER_TENANT, "Second")
    assert faults(second, source("http://127.0.0.1:8006/First/In"), first, source())
    assert faults(second, source("http://127.0.0.1:9000/First/In"), first, source()) == []
    assert faults(second, source(), first, source()) == []
