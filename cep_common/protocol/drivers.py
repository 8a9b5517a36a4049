"""The messages between drivers and managers: reports on topologies and checkpoints, and orders.

`drivers.md` describes each, and a test compares the two. Conventions are in `PROTOCOL.md`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from cep_common.ids import Endpoint, InspectionAddress, PlanKey
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.registry import CheckpointSpan, Message

RunState = Literal["waiting", "starting", "running", "restarting", "failed", "stopping"]
PlanHost = Literal["own", "shared"]
"""Whether a plan has Spark tasks of its own, or one task in a stage host that it shares with other plans."""
CheckpointState = Literal["taking", "complete", "failed", "abandoned"]
CheckpointTrigger = Literal["interval", "savepoint", "last"]
"""Why a checkpoint is taken: it was due, a savepoint was requested, or the topology is to end."""


class CheckpointReport(msgspec.Struct, frozen=True):
    """One checkpoint of a topology, begun at `began_ms` (time of day).

    `stored_bytes` of its `size_bytes` were new; `alignment_ms` is the longest time that an instance waited for markers.
    `name` is that of a savepoint, else empty. If a task or the store `failed`, or the checkpoint was `abandoned`
    because it timed out or its topology ended, `error` says why. `acknowledged` of `tasks` tasks have stored their
    state.
    """

    checkpoint: int
    state: CheckpointState
    began_ms: int
    duration_ms: int = 0
    size_bytes: int = 0
    stored_bytes: int = 0
    alignment_ms: int = 0
    name: str = ""
    error: str = ""
    trigger: CheckpointTrigger = "interval"
    tasks: int = 0
    acknowledged: int = 0


FORMER_SAVEPOINT = "former-"
"""Prefix of the names of savepoints that keep the newest checkpoint of another plan of the same name; its number
follows. Users cannot choose such a name."""
UNREADABLE_SAVEPOINT = "unreadable-"
"""Prefix of the names of savepoints that keep the newest checkpoint written by another version, after its plan was
started from other state; its number follows. Users cannot choose such a name."""


class SavepointReport(msgspec.Struct, frozen=True):
    """A savepoint that is kept, was requested, or `failed` for the reason `error`.

    For one that is kept, `error` says why it could not be deleted. `unreadable` says why no plan can begin from it:
    another version of the software wrote it.
    """

    key: PlanKey
    name: str
    state: Literal["taking", "stored", "failed"]
    checkpoint: int = 0
    taken_ms: int = 0
    size_bytes: int = 0
    error: str = ""
    unreadable: str = ""


class TopologyReport(msgspec.Struct, frozen=True):
    """The driver's view of one topology.

    `reason` says why it waits, restarts or failed. `restarts` is also the attempt that runs now, `spans` which
    results are final (of the newest attempts only), `checkpoints` the newest, oldest first. `begun_from` is the
    checkpoint that it started from, 0 when without state; `failed_checkpoints` counts those that failed. `failures` say
    how topologies of the plan under this driver ended. While it is `current`, its newest checkpoints hold all that
    there is in it, and no further ones are taken. `deployed_ms`: as in `submit-topology`. `unreadable` says that
    the plan cannot begin from its newest checkpoint, since another version of the software wrote it, and what to do;
    empty: it can, as far as is known.
    """

    key: PlanKey
    epoch: int
    state: RunState
    reason: str = ""
    restarts: int = 0
    spans: tuple[CheckpointSpan, ...] = ()
    checkpoints: tuple[CheckpointReport, ...] = ()
    begun_from: int = 0
    failed_checkpoints: int = 0
    failures: tuple[ErrorRecord, ...] = ()
    deployed_ms: int = 0
    unreadable: str = ""
    current: bool = False


class RunName(msgspec.Struct, frozen=True):
    """Names one topology: a plan, and the epoch under which it was submitted."""

    key: PlanKey
    epoch: int


class CheckpointSettings(msgspec.Struct, frozen=True):
    """How the driver takes checkpoints.

    It takes one every `interval_ms` (0: only on request), more often after a restart, `pause_ms` after the end of the
    last at the earliest, into the store at `location` (without passwords; empty: none are taken), which keeps the
    newest `retained` of each plan. One that takes `timeout_ms` is given up. `problem` says why the store cannot be
    used now; empty: no problem is known.
    """

    location: str
    interval_ms: int
    pause_ms: int
    timeout_ms: int
    retained: int
    problem: str = ""


class ExecutorReport(msgspec.Struct, frozen=True):
    """An executor of the driver's that can be used, there since the time of day `since_ms`."""

    executor: str
    host: str
    slots: int
    since_ms: int


class StageHostReport(msgspec.Struct, frozen=True):
    """A stage host of the driver's.

    It is process `process_id` at `address`, which runs `plans` plans of `tenant` and was started `up_ms` ago. It
    holds `memory_bytes` and has used `cpu_ms` of processor time.
    """

    host: str
    tenant: int
    state: Literal["starting", "up", "leaving"]
    plans: int
    address: str = ""
    process_id: int = 0
    memory_bytes: int = 0
    cpu_ms: int = 0
    up_ms: int = 0


class RegisterDriver(Message, frozen=True):
    """Registers a driver with the manager.

    Sent again (at once when a topology's state changes), it is the heartbeat. `started_ms` is the time of day at
    which its process started, `up_ms` ago. `savepoints` are those of all plans, oldest first (only the newest when
    there are too many). `number` counts how often topologies or savepoints have changed. A report that is not `whole`
    is incremental: it refers to the one with the number `base` (0: `number`, nothing has changed). Then `topologies`
    are those that are new or have changed since, `gone` those that no longer exist, and `savepoints` are left out
    unless they `differ`.
    """

    TYPE = "register-driver"
    driver: str
    host: str
    process_id: int
    master: str
    slots_total: int
    slots_free: int
    topologies: tuple[TopologyReport, ...] = ()
    web_url: str = ""
    started_ms: int = 0
    savepoints: tuple[SavepointReport, ...] = ()
    executors: tuple[ExecutorReport, ...] = ()
    checkpointing: CheckpointSettings | None = None
    insight: InspectionAddress | None = None
    up_ms: int = 0
    store_urls: bool = True
    stage_hosts: tuple[StageHostReport, ...] = ()
    number: int = 0
    whole: bool = True
    base: int = 0
    gone: tuple[RunName, ...] = ()
    differ: bool = False


class DriverRegistered(Message, frozen=True):
    """Answers `RegisterDriver`: the driver follows no order of a lower `token` than this.

    `managers` are all known managers, the leader first. `system` is the identity of the managers' database: a driver
    follows the first one that it hears. `knows` is the number of the driver's report that the manager has; 0: none.
    """

    TYPE = "driver-registered"
    heartbeat_ms: int
    lease_ms: int
    token: int = 0
    managers: tuple[Endpoint, ...] = ()
    system: str = ""
    knows: int = 0


class SubmitTopology(Message, frozen=True):
    """Orders the driver to run `query_plan` (XML) as the plan's topology, in `workers` tasks, under `epoch`.

    It starts after topologies of older epochs have ended, or, `beside` them, until the manager has one of both
    killed. It starts from the plan's newest checkpoint, from the savepoint that `restore` names, or, if that is
    `none`, without state. `restore` applies unless the plan has begun under `restore_epoch` (0: `epoch`) or a later
    epoch: then the topology starts from the newest checkpoint since. The plan was first deployed at `deployed_ms` (0:
    unknown): checkpoints of a plan of its name that was deployed at another time are not its own.

    A plan whose `host` is `shared` has one task, which runs in a stage host with those of the tenant's other plans,
    and requests no resources. Else each task takes `cores` slots of one executor and may hold `memory_bytes` (0: no
    limit); the executors' hosts must bear `labels`. `token` is the one under which the manager leads.
    """

    TYPE = "submit-topology"
    key: PlanKey
    epoch: int
    query_plan: str
    workers: int
    beside: bool = False
    cores: Annotated[int, msgspec.Meta(ge=1)] = 1
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    labels: tuple[str, ...] = ()
    restore: str = ""
    restore_epoch: Annotated[int, msgspec.Meta(ge=0)] = 0
    token: int = 0
    deployed_ms: int = 0
    host: PlanHost = "own"


class RenamePlan(Message, frozen=True):
    """Reports to the driver that the plan `key` has the name that the key now says.

    Nothing is started or ended. `token` is the one under which the manager leads.
    """

    TYPE = "rename-plan"
    key: PlanKey
    token: int = 0


class KillTopology(Message, frozen=True):
    """Orders the driver to end the plan's topology of `epoch`; 0: of any.

    `token` is the one under which the manager leads.
    """

    TYPE = "kill-topology"
    key: PlanKey
    epoch: int = 0
    drain: bool = False
    """A last checkpoint is taken first."""
    forget: int = 0
    """The plan's last epoch when it is no longer deployed: its checkpoints go. 0: they stay."""
    token: int = 0
    deployed_ms: int = 0
    """The plan whose checkpoints are deleted: as in `submit-topology`."""
