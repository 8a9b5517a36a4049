"""Roles of processes: the sockets that each role may connect to, and the messages that it may send to managers. Pure.

Every process has a role, and proves it with the role's key (`keys`). A socket accepts certain roles only; on the
control plane, which several roles use, each may send its own messages only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cep_common.protocol.drivers import RegisterDriver
from cep_common.protocol.registry import ListPlans, Message, RegisterEndpoint, RegisterWorker, RequestEndpoint
from cep_common.protocol.tasks import RefreshTasks, RegisterTask


class Role(StrEnum):
    """The role of a process. A stage is a task of a topology; a client sends events to workers or listens to them."""

    MANAGER = "manager"
    DRIVER = "driver"
    STAGE = "stage"
    WORKER = "worker"
    CLIENT = "client"


class SocketKind(StrEnum):
    """The purpose of a listening socket."""

    CONTROL = "the control plane"
    COORDINATOR = "checkpoints of tasks"
    HOSTS = "stage hosts"
    RECEIVER = "events of workers"
    EXCHANGE = "other tasks of the topology"
    STATE = "tasks that take over its state"
    OUTFLOW = "results of topologies"
    INGRESS = "events of clients"
    EGRESS = "listeners"
    MIRROR = "events of the active node"
    INSIGHT_MANAGER = "inspection of managers"
    INSIGHT_DRIVER = "inspection of drivers"
    INSIGHT_STAGE = "inspection of stages"
    INSIGHT_WORKER = "inspection of workers"


@dataclass(frozen=True, slots=True)
class SocketRule:
    """Processes of the role `owner` listen, those of `visitors` may connect."""

    owner: Role
    visitors: frozenset[Role]


def _rule(owner: Role, *visitors: Role) -> SocketRule:
    return SocketRule(owner, frozenset(visitors))


SOCKET_RULES = {
    SocketKind.CONTROL: _rule(Role.MANAGER, Role.DRIVER, Role.STAGE, Role.WORKER),
    SocketKind.COORDINATOR: _rule(Role.DRIVER, Role.STAGE),
    SocketKind.HOSTS: _rule(Role.DRIVER, Role.STAGE),
    SocketKind.RECEIVER: _rule(Role.STAGE, Role.WORKER),
    SocketKind.EXCHANGE: _rule(Role.STAGE, Role.STAGE),
    SocketKind.STATE: _rule(Role.STAGE, Role.STAGE),
    SocketKind.OUTFLOW: _rule(Role.WORKER, Role.STAGE),
    SocketKind.INGRESS: _rule(Role.WORKER, Role.CLIENT, Role.WORKER),
    SocketKind.EGRESS: _rule(Role.WORKER, Role.CLIENT, Role.WORKER, Role.MANAGER),
    SocketKind.MIRROR: _rule(Role.WORKER, Role.WORKER),
}

INSPECTION_SOCKETS = {
    Role.MANAGER: SocketKind.INSIGHT_MANAGER,
    Role.DRIVER: SocketKind.INSIGHT_DRIVER,
    Role.STAGE: SocketKind.INSIGHT_STAGE,
    Role.WORKER: SocketKind.INSIGHT_WORKER,
}
"""The socket at which a process of each role answers managers about its log and its configuration."""

SOCKET_RULES |= {kind: _rule(owner, Role.MANAGER) for owner, kind in INSPECTION_SOCKETS.items()}

CONTROL_SENDERS: dict[str, Role] = {
    RegisterDriver.TYPE: Role.DRIVER,
    RegisterTask.TYPE: Role.STAGE,
    RefreshTasks.TYPE: Role.STAGE,
    RegisterWorker.TYPE: Role.WORKER,
    ListPlans.TYPE: Role.WORKER,
}
"""The roles that may send each request to the manager, except requests about endpoints."""

ENDPOINT_OWNERS = {"receiver": Role.STAGE, "worker": Role.WORKER}
"""The role that registers endpoints of each kind; the other role requests them."""

ENDPOINT_SEEKERS = {"receiver": Role.WORKER, "worker": Role.STAGE}


def may_connect(role: Role, kind: SocketKind) -> bool:
    """Return whether a process of `role` may connect to this kind of socket."""
    return role in SOCKET_RULES[kind].visitors


def may_send(role: Role, message: Message) -> bool:
    """Return whether a process of `role` may send `message` to the manager."""
    match message:
        case RegisterEndpoint(role=kind):
            return ENDPOINT_OWNERS[kind] is role
        case RequestEndpoint(role=kind):
            return ENDPOINT_SEEKERS[kind] is role
        case _:
            return CONTROL_SENDERS.get(message.TYPE) is role
