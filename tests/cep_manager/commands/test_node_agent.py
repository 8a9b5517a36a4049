"""Orders to nodes, and the restart of both, as their agents follow them."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cep_common.clock import ManualClock
from cep_common.ids import Endpoint
from cep_common.nodes.config import ManagerNode
from cep_common.nodes.files import MIRROR_FILE, ROLE_FILE, FileView, MirrorReport, NodeOrder, NodeRole, write_file
from cep_common.nodes.orders import ORDER_VALID_S, StoredOrder, is_valid
from cep_manager.nodes.agent import LEAVES_MS, NodeAgent
from cep_manager.nodes.rolling import ROLLING_MS
from cep_manager.persistence.node_store import StoredNode

PEER = StoredNode("b", "g", Endpoint("b", 1), Endpoint("b", 2), "http://b", in_sync=True, changed_ms=1)


class Store:
    name = "a"

    def __init__(self) -> None:
        self.given: list[tuple[str, NodeOrder]] = []
        self.waits: NodeOrder = ""
        self.free = False
        self.recorded: list[bool] = []

    def give_order(self, name: str, order: NodeOrder) -> None:
        self.given.append((name, order))

    def nodes(self) -> tuple[StoredNode, ...]:
        return (PEER,)

    def orders(self) -> dict[str, NodeOrder]:
        return {"a": self.waits} if self.waits else {}

    def record(self, token: int, *, in_sync: bool, now_ms: int) -> bool:
        self.recorded.append(in_sync)
        return True

    def free_lease(self) -> tuple[int, int] | None:
        return (7, 3) if self.free else None

    def take_order(self) -> NodeOrder:
        order, self.waits = self.waits, ""
        return order


class Leadership:
    def __init__(self) -> None:
        self.held, self.until_ms = 7, 10**9
        self.instances = ["a-1", "b-1"]
        self.said: list[str] = []

    def hand_over(self) -> None:
        self.said.append("hand over")

    def claim_free(self, token: int, beat: int) -> None:
        self.said.append(f"claim the lease that was held under {token} and confirmed {beat} times")

    def peer_gone(self) -> None:
        self.said.append("peer gone")

    def tenure(self) -> tuple[int, int]:
        return self.held, self.until_ms if self.held else 0

    def token(self) -> int:
        return self.held

    @property
    def election_status(self) -> SimpleNamespace:
        managers = (SimpleNamespace(manager=SimpleNamespace(instance=one)) for one in self.instances)
        return SimpleNamespace(sights=tuple(managers))


class Active:
    """The agent of node a, which is active."""

    def __init__(self, folder: Path) -> None:
        self.store, self.leadership, self.folder, self.clock = Store(), Leadership(), folder, ManualClock(1_000)
        config = ManagerNode(str(folder), "a", "g", "a:1", "a:2")
        self.agent = NodeAgent(config, self.store, self.leadership, self.clock)  # type: ignore[arg-type]
        self.agent.nodes = (PEER,)

    def turn_after_the_other_is_back(self) -> NodeOrder:
        self.leadership.instances[1] = "b-2"
        self.agent.nodes, self.agent.orders = (PEER,), {}
        write_file(self.folder / MIRROR_FILE, MirrorReport("protected", token=7, since_ms=2_000))
        self.agent._turn()
        return self.agent.order


@pytest.fixture
def active(tmp_path: Path) -> Active:
    return Active(tmp_path)


def test_the_active_node_follows_when_the_other_one_is_back(active: Active) -> None:
    active.agent.restart_all("b")
    assert active.store.given == [("b", "restart")]
    assert active.turn_after_the_other_is_back() == "restart"


def test_an_earlier_end_of_the_lease_is_written_before_the_database_learns_of_it(active: Active) -> None:
    active.agent._turn()
    made_before = active.agent.role
    assert made_before is not None
    active.leadership.until_ms = 5_000
    active.agent.write_deadline()
    assert FileView(active.folder / ROLE_FILE, NodeRole).read() == msgspec.structs.replace(made_before, until_ms=5_000)
    active.agent._write_role(made_before)
    assert active.agent.role == msgspec.structs.replace(made_before, until_ms=5_000), "a slow writer brought it back"


@pytest.mark.parametrize("token", [0, 8])
def test_a_node_that_was_passive_meanwhile_does_not_restart(token: int, active: Active) -> None:
    active.agent.restart_all("b")
    active.leadership.held = token
    active.agent._turn()
    active.leadership.held = 7
    assert active.turn_after_the_other_is_back() == ""
    assert active.agent.under_way() == {}


def test_another_order_takes_the_place_of_the_restart_of_both(active: Active) -> None:
    """Otherwise the active node would restart when the other one is started, days later perhaps."""
    active.agent.restart_all("b")
    active.agent.give_order("b", "stop")
    assert active.turn_after_the_other_is_back() == ""


def test_the_active_node_does_not_restart_when_the_other_one_comes_back_days_later(active: Active) -> None:
    active.agent.restart_all("b")
    active.clock.advance(ROLLING_MS)
    assert active.turn_after_the_other_is_back() == ""
    assert active.agent.under_way() == {}


@pytest.mark.parametrize("order", ["restart", "stop"])
def test_a_node_that_was_stopped_does_not_carry_out_its_order_afterwards(order: NodeOrder, active: Active) -> None:
    active.store.waits = order
    active.agent._read()
    active.agent._turn()
    role = active.agent.role
    assert role is not None
    now_ms = active.clock.monotonic_ms()
    assert role.order_at(now_ms) == order
    assert role.order_at(now_ms + ORDER_VALID_S * 1_000) == ""
    active.clock.advance(ORDER_VALID_S * 1_000 + LEAVES_MS)
    active.agent._turn()
    assert active.agent.under_way() == {}


def test_an_order_is_valid_for_a_while_and_under_the_active_node_that_gave_it() -> None:
    order = StoredOrder("stop", given_s=1_000, token=7)
    assert is_valid(order, 7, 1_000 + ORDER_VALID_S)
    assert not is_valid(order, 7, 1_001 + ORDER_VALID_S)
    assert not is_valid(order, 7, 999 - ORDER_VALID_S), "the clock of the database has gone back"
    assert not is_valid(order, 8, 1_000), "the other node has become active: it may have all events alone"


def test_the_lease_is_given_back_as_soon_as_the_worker_has_left_for_an_order(active: Active) -> None:
    write_file(active.folder / MIRROR_FILE, MirrorReport("left", token=7))
    active.agent._turn()
    assert active.leadership.said == [], "the worker was ended by somebody else: it is started again"
    active.agent.give_order("a", "restart")
    for _ in range(3):
        active.agent._turn()
    assert active.leadership.said == ["hand over"]
    assert active.agent.role is not None
    assert active.agent.role.token == 0, "though the lease is not given back yet"


def test_a_passive_node_notices_within_moments_that_the_lease_is_free(active: Active) -> None:
    active.leadership.held, active.store.free = 0, True
    active.agent._look_for_a_free_lease()
    assert active.leadership.said == [], "the other node has events that this one lacks"
    me = msgspec.structs.replace(PEER, name="a")
    active.agent.nodes = (me, PEER)
    active.agent._watch_the_active_one()
    active.agent._database.shutdown()
    assert active.leadership.said == ["claim the lease that was held under 7 and confirmed 3 times"]


def test_a_passive_node_notices_within_moments_that_the_active_one_has_ended(active: Active) -> None:
    active.leadership.held = 0
    with socket.create_server(("127.0.0.1", 0)) as guard:
        port = guard.getsockname()[1]
        active.agent.nodes = (msgspec.structs.replace(PEER, guard=Endpoint("127.0.0.1", port)),)
        active.agent._watch_the_active_one()
        guard.accept()[0].close()
        active.agent._watch_the_active_one()
        assert active.leadership.said == []
    while not active.leadership.said:
        active.agent._watched_at = 0.0
        active.agent._watch_the_active_one()
    assert set(active.leadership.said) == {"peer gone"}


def test_a_node_that_has_taken_over_does_not_record_again_what_its_claim_has_recorded(active: Active) -> None:
    def asks(number: int, *, in_sync: bool) -> int:
        report = MirrorReport("leaving", token=7, process=4, request=number, wants_in_sync=in_sync)
        write_file(active.folder / MIRROR_FILE, report)
        active.agent._turn()
        while active.agent._asked:
            pass
        active.agent._turn()
        role = active.agent.role
        assert role is not None
        return role.answered

    assert (asks(1, in_sync=False), active.store.recorded) == (1, [])
    assert (asks(2, in_sync=True), active.store.recorded) == (2, [True])
    assert (asks(3, in_sync=False), active.store.recorded) == (3, [True, False])
    active.leadership.held = 8
    report = MirrorReport("leaving", token=8, process=5, request=1)
    write_file(active.folder / MIRROR_FILE, report)
    active.agent._turn()
    assert (active.agent._handled, active.store.recorded) == ((8, 5, 1), [True, False])


def test_a_lease_that_the_file_did_not_say_is_over_is_given_back_with_the_next_turn(
    active: Active, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(active.folder / MIRROR_FILE, MirrorReport("left", token=7))
    active.agent.give_order("a", "restart")

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as disk:
        disk.setattr("cep_manager.nodes.agent.write_file", full)
        with pytest.raises(OSError, match="no space"):
            active.agent._turn()
    assert active.leadership.said == []
    active.agent._turn()
    assert active.leadership.said == ["hand over"]


def test_the_lease_is_not_contested_after_a_claim_whatever_was_read_of_the_nodes_before(active: Active) -> None:
    assert PEER in active.agent.nodes
    assert PEER.in_sync
    assert not active.agent.is_contested(), "the transaction of the claim has recorded that the other node is behind"


def test_the_lease_is_contested_while_the_other_node_has_every_event_or_is_about_to_be_said_to(active: Active) -> None:
    active.agent._in_sync_under = 7
    assert active.agent.is_contested()
    active.agent.nodes = ()
    assert active.agent.is_contested(), "nothing is known yet"
    active.agent.nodes = (msgspec.structs.replace(PEER, in_sync=False),)
    assert not active.agent.is_contested()
    active.agent._asked = True
    assert active.agent.is_contested()
