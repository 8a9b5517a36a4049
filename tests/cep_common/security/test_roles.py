"""Tests of roles: the tables cover every socket and every message to the manager, and say what the design says."""

from __future__ import annotations

import pytest

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.drivers import RegisterDriver
from cep_common.protocol.message_types import message_types
from cep_common.protocol.registry import ListPlans, RegisterEndpoint, RegisterWorker, RequestEndpoint
from cep_common.protocol.tasks import RefreshTasks, RegisterTask
from cep_common.security.roles import (
    CONTROL_SENDERS,
    INSPECTION_SOCKETS,
    SOCKET_RULES,
    Role,
    SocketKind,
    may_connect,
    may_send,
)

KEY = PlanKey(-1234, "P")
WHERE = Endpoint("127.0.0.1", 1)
BY_ROLE = {
    Role.DRIVER: [RegisterDriver("d", "h", 1, "local", 1, 1)],
    Role.STAGE: [
        RegisterTask(KEY, 1, 0, "h", 1),
        RefreshTasks("host-1", 1),
        RegisterEndpoint("receiver", KEY, 1, "r#0", WHERE),
        RequestEndpoint("worker", KEY, 1, "p#0", "h"),
    ],
    Role.WORKER: [
        RegisterWorker("w", "h", 1, 0),
        ListPlans(),
        RegisterEndpoint("worker", KEY, 1, "w", WHERE),
        RequestEndpoint("receiver", KEY, 1, "w", "h", "In"),
    ],
}


def test_every_door_has_an_owner_and_visitors() -> None:
    assert SOCKET_RULES.keys() == set(SocketKind)
    assert all(rule.visitors for rule in SOCKET_RULES.values())


def test_a_client_enters_workers_ingress_and_egress_and_nothing_else() -> None:
    assert {door for door in SocketKind if may_connect(Role.CLIENT, door)} == {SocketKind.INGRESS, SocketKind.EGRESS}


def test_a_manager_listens_to_results_at_workers_looks_into_every_process_and_enters_nothing_else() -> None:
    assert {door for door in SocketKind if may_connect(Role.MANAGER, door)} == {
        SocketKind.EGRESS,
        *INSPECTION_SOCKETS.values(),
    }


def test_every_process_has_a_door_of_its_own_for_managers_alone() -> None:
    doors = {role: SOCKET_RULES[door] for role, door in INSPECTION_SOCKETS.items()}
    assert {role: rule.owner for role, rule in doors.items()} == {role: role for role in Role if role != Role.CLIENT}
    assert {rule.visitors for rule in doors.values()} == {frozenset({Role.MANAGER})}


@pytest.mark.parametrize("role", Role)
def test_each_role_sends_its_own_messages_to_the_manager_and_no_others(role: Role) -> None:
    for sender, messages in BY_ROLE.items():
        for message in messages:
            assert may_send(role, message) == (role is sender), f"{role} {message.TYPE}"


def test_every_request_to_the_manager_has_a_sender() -> None:
    """What registers, lists or asks at the control plane is in a table; a new message is refused until it is."""
    asked = {name for name in message_types() if name.startswith("register-")} | {ListPlans.TYPE, RefreshTasks.TYPE}
    assert asked == {*CONTROL_SENDERS, RegisterEndpoint.TYPE}
    assert {message.TYPE for messages in BY_ROLE.values() for message in messages} == {*asked, RequestEndpoint.TYPE}
