"""The messages between a driver and its stage hosts: processes that run the tasks of many plans of one tenant.

`stage_hosts.md` describes each, and a test compares the two.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Message

HostedState = Literal["waiting", "starting", "running", "ended"]


class HostedTask(msgspec.Struct, frozen=True):
    """A task in a stage host: `attempt` of the plan's `epoch`.

    A host starts one task at a time: `waiting` ones have their turn later.
    For one that has `ended`, `code`, `reason`, `traceback` and `instance` say why (an empty `code`: it was ordered to
    stop); `unfit`: another try is useless.
    """

    key: PlanKey
    epoch: int
    attempt: int
    state: HostedState
    code: str = ""
    reason: str = ""
    traceback: str = ""
    instance: str = ""
    unfit: bool = False


class Blame(msgspec.Struct, frozen=True):
    """The plan that was at work when the stage host `host` died, or that made it end; `reason` tells how."""

    host: str
    key: PlanKey
    reason: str


class ReportHost(Message, frozen=True):
    """A stage host is alive. `number` counts these messages; `blames` names plans that ended hosts on this machine.

    The message `listed` has all `tasks`; when that is an earlier one, they are as they were and are left out.
    """

    TYPE = "report-host"
    host: str
    address: str
    process_id: int
    number: int
    tasks: tuple[HostedTask, ...] = ()
    blames: tuple[Blame, ...] = ()
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    cpu_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    listed: Annotated[int, msgspec.Meta(ge=0)] = 0


class HostHeard(Message, frozen=True):
    """The driver has taken in a registration, and has the list of tasks of the one that it `knows`.

    Tasks that had ended by that list need not be reported again.
    """

    TYPE = "host-heard"
    heartbeat_ms: int
    lease_ms: int
    knows: int = 0


class RunTask(Message, frozen=True):
    """Driver to stage host: run the task that `assignment` describes (JSON). One that runs already is left alone."""

    TYPE = "run-task"
    key: PlanKey
    epoch: int
    attempt: int
    assignment: bytes


class EndTask(Message, frozen=True):
    """Driver to stage host: end that task; its next registration says when it has ended."""

    TYPE = "end-task"
    key: PlanKey
    epoch: int
    attempt: int
