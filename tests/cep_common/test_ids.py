"""Names that cross process borders."""

from __future__ import annotations

import msgspec
import pytest

from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey, instance_name, parse_endpoint


def test_a_topology_bears_the_name_of_its_plan_and_tenant() -> None:
    assert PlanKey(SUPER_TENANT, "KnockOnDelays").topology() == "KnockOnDelays[-1234]"
    assert Endpoint("127.0.0.1", 8904).url() == "tcp://127.0.0.1:8904"
    assert instance_name("filtering", 1) == "filtering#1"


def test_keys_of_one_plan_are_equal_under_every_name_that_it_had() -> None:
    first, renamed, other = PlanKey(7, "Storms"), PlanKey(7, "Gales", "Storms"), PlanKey(7, "Storms", "Storms~2")
    assert first == renamed
    assert not first != renamed  # noqa: SIM202 - a struct has an inequality of its own
    assert {first: 1}[renamed] == 1
    assert {first, renamed, other} == {renamed, other}
    assert first != other
    assert first != PlanKey(8, "Storms")
    assert (first.identity, renamed.identity, other.identity) == ("Storms", "Storms", "Storms~2")


def test_keys_are_ordered_by_name_and_say_no_id_where_it_is_the_name() -> None:
    keys = [PlanKey(7, "Storms"), PlanKey(7, "Gales", "Waves"), PlanKey(-1, "Zephyrs")]
    assert [key.plan for key in sorted(keys)] == ["Zephyrs", "Gales", "Storms"]
    assert msgspec.json.encode(keys[:2]) == b'[{"tenant":7,"plan":"Storms"},{"tenant":7,"plan":"Gales","id":"Waves"}]'


def test_an_address_is_read_as_host_and_port() -> None:
    assert parse_endpoint("node-1.example:8904") == Endpoint("node-1.example", 8904)


@pytest.mark.parametrize(
    "text", ["", "node", "node:", ":1", "node:0", "node:65536", "a b:1", "tcp://node:1", "node:1\n"]
)
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_endpoint(text)
