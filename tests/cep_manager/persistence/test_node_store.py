"""Which of two nodes may claim the lease, on real databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import KINDS, LEASE_MS, manager, open_database, url_of

from cep_common.errors import ConfigError
from cep_common.nodes.config import ManagerNode
from cep_manager.election.lease_store import LeaseStore
from cep_manager.election.messages import ClaimLease, LeaseState, ReadLease
from cep_manager.persistence.database import Database
from cep_manager.persistence.node_store import NodeStore
from cep_manager.persistence.schema import NODE_ORDERS


def member(name: str, group: str = "g") -> ManagerNode:
    return ManagerNode("folder", name, group, f"10.0.0.{ord(name)}:9893", f"10.0.0.{ord(name)}:9894")


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = open_database(url_of(request.param, request, tmp_path))
    yield database
    database.close()


class Member:
    """A node of the group."""

    def __init__(self, database: Database, name: str, group: str = "g") -> None:
        self.store = NodeStore(database, member(name, group), f"http://{name}")
        self.leases = LeaseStore(database, manager(name), lambda: 1, self.store)
        self.store.register(1)

    def claim(self) -> LeaseState:
        seen = self.leases.carry_out(ReadLease())
        return self.leases.carry_out(ClaimLease(seen.lease.token, seen.lease.beat, LEASE_MS))

    def in_sync(self) -> set[str]:
        return {node.name for node in self.store.nodes() if node.in_sync}


def test_the_first_node_may_claim_and_the_second_must_catch_up_first(database: Database) -> None:
    a, b = Member(database, "a"), Member(database, "b")
    assert a.store.free_lease() == (0, 0)
    refused = b.claim()
    assert not refused.done
    assert "b lacks events that were acknowledged: a has all of them" in refused.barred
    assert a.claim().done
    assert a.store.free_lease() is None
    assert a.in_sync() == {"a"}


def test_a_node_that_claims_leaves_the_other_one_behind(database: Database) -> None:
    a, b = Member(database, "a"), Member(database, "b")
    token = a.claim().lease.token
    assert a.store.record(token, in_sync=True, now_ms=2)
    assert a.in_sync() == {"a", "b"}
    assert b.claim().done
    assert b.in_sync() == {"b"}
    assert a.claim().barred


def test_a_node_that_lost_the_lease_records_nothing(database: Database) -> None:
    a, b = Member(database, "a"), Member(database, "b")
    token = a.claim().lease.token
    a.store.record(token, in_sync=True, now_ms=2)
    b.claim()
    assert not a.store.record(token, in_sync=True, now_ms=3)
    assert b.in_sync() == {"b"}


def test_an_operator_may_accept_the_loss(database: Database) -> None:
    a, b = Member(database, "a"), Member(database, "b")
    a.claim()
    b.store.accept_loss(2)
    assert b.claim().done
    assert b.in_sync() == {"b"}


def test_a_third_node_and_one_of_another_group_are_refused(database: Database) -> None:
    Member(database, "a")
    with pytest.raises(ConfigError, match=r"cluster\.config\.groupId: .* both nodes of a group have the same groupId"):
        Member(database, "x", "h")
    b = Member(database, "b")
    Member(database, "b")
    with pytest.raises(ConfigError, match="more than two nodes"):
        Member(database, "c")
    assert b.store.remove("a")
    Member(database, "c")


def test_a_node_takes_an_order_once_and_begins_without_one(database: Database) -> None:
    a, b = Member(database, "a"), Member(database, "b")
    a.store.give_order("b", "stop")
    a.store.give_order("b", "restart")
    assert b.store.orders() == {"b": "restart"}
    assert a.store.take_order() == ""
    assert b.store.take_order() == "restart"
    assert (b.store.take_order(), a.store.orders()) == ("", {})


def test_an_order_that_waited_for_days_or_under_another_active_node_is_void(database: Database) -> None:
    a, b = Member(database, "a"), Member(database, "b")
    a.claim()
    a.store.give_order("b", "stop")
    with database.transaction() as connection:
        connection.execute(NODE_ORDERS.update().values(given_s=NODE_ORDERS.c.given_s - 2 * 86_400))
    assert (a.store.orders(), b.store.take_order()) == ({}, "")
    a.store.give_order("b", "stop")
    assert b.store.orders() == {"b": "stop"}
    b.store.accept_loss(1)
    assert b.claim().done
    assert (b.store.orders(), b.store.take_order()) == ({}, "")
