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

    A host starts one task at a time; `waiting` ones start later. For a task that has `ended`, `code`, `reason`,
    `traceback` and `instance` say why (an empty `code`: it was ordered to stop); `unfit`: the task must not be retried.
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
    """The plan that was running when the stage host `host` died, or that caused it to end; `reason` says how."""

    host: str
    key: PlanKey
    reason: str


class ReportHost(Message, frozen=True):
    """The heartbeat of a stage host. `number` counts these; `blames` names plans that ended hosts on this machine.

    The message with the number `listed` has all `tasks`; later ones omit them while they are unchanged.
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
    """Answers `ReportHost`: the driver has the list of tasks of the report that it `knows`.

    Tasks that had ended by then need not be reported again.
    """

    TYPE = "host-heard"
    heartbeat_ms: int
    lease_ms: int
    knows: int = 0


class RunTask(Message, frozen=True):
    """Orders a stage host to run the task that `assignment` describes (JSON), unless it runs already."""

    TYPE = "run-task"
    key: PlanKey
    epoch: int
    attempt: int
    assignment: bytes


class EndTask(Message, frozen=True):
    """Orders a stage host to end the task; its next report says when it has ended."""

    TYPE = "end-task"
    key: PlanKey
    epoch: int
    attempt: int
