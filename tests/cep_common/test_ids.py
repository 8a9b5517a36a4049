"""Names that cross process borders."""

from __future__ import annotations

import pytest

from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey, instance_name, parse_endpoint


def test_a_topology_bears_the_name_of_its_plan_and_tenant() -> None:
    assert PlanKey(SUPER_TENANT, "KnockOnDelays").topology() == "KnockOnDelays[-1234]"
    assert Endpoint("127.0.0.1", 8904).url() == "tcp://127.0.0.1:8904"
    assert instance_name("filtering", 1) == "filtering#1"


def test_an_address_is_read_as_host_and_port() -> None:
    assert parse_endpoint("node-1.example:8904") == Endpoint("node-1.example", 8904)


@pytest.mark.parametrize(
    "text", ["", "node", "node:", ":1", "node:0", "node:65536", "a b:1", "tcp://node:1", "node:1\n"]
)
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_endpoint(text)
