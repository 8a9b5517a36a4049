"""The messages by which a topology's tasks and the driver take checkpoints. `checkpoints.md` describes them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.registry import Message

Checkpoint = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
"""The number of a checkpoint; never used twice for a plan."""
NO_SAVEPOINT = "none"
"""The value of `restore` that starts a topology without state, in place of the name of a savepoint."""


class JoinTopology(Message, frozen=True):
    """Registers a task with its driver.

    It is task `task` of attempt `attempt` of the plan's epoch, and listens for the other tasks at `exchange`. Sent
    again, the message is the heartbeat. The task has processed the completion of checkpoints up to `settled`: changes
    of stored tables are in their databases, and workers know which events need not be sent again.
    """

    TYPE = "join-topology"
    key: PlanKey
    epoch: int
    attempt: int
    task: int
    exchange: Endpoint
    settled: int = 0
    hosted: bool = False
    idle: bool = False


class TopologyJoined(Message, frozen=True):
    """Answers `JoinTopology`: join again within `heartbeat_ms`.

    A task that is silent for `lease_ms` counts as lost, and its topology restarts. `exchanges` are the endpoints at
    which the tasks listen for each other, in order; empty before all have joined.
    """

    TYPE = "topology-joined"
    heartbeat_ms: int
    lease_ms: int
    exchanges: tuple[Endpoint, ...] = ()


class BeginCheckpoint(Message, frozen=True):
    """Orders every task to begin a checkpoint: receivers and triggers send its marker.

    When it is `final` the topology is to end: receivers and triggers accept no events after the marker. The driver
    repeats the message to a task that has not reported; the message is idempotent.
    """

    TYPE = "begin-checkpoint"
    checkpoint: Checkpoint
    final: bool = False


class StoredState(msgspec.Struct, frozen=True):
    """The stored state of one component instance.

    `chunks` are the names of its chunks in order, or `inline` is the state itself when it is small; `size_bytes` is its
    whole size. `format` is the format of an engine snapshot; 0 for other states, and those of earlier versions.
    """

    instance: str
    size_bytes: int
    chunks: tuple[str, ...] = ()
    inline: bytes = b""
    format: int = 0


class StoredPack(msgspec.Struct, frozen=True):
    """A file of chunks that was written for a checkpoint; each chunk has (name, offset, length)."""

    name: str
    chunks: tuple[tuple[str, int, int], ...]


class ReportPart(Message, frozen=True):
    """Reports a task's part of `checkpoint` to its driver.

    The states of all its instances are stored, or `error` says why they are not. `alignment_ms` is the longest time
    that an instance waited for markers, `stored_bytes` the size of what was newly written. A task that `settles` has
    work to do once the checkpoint is complete: to write changes of stored tables to their databases, or to tell workers
    which events need not be sent again.
    """

    TYPE = "report-part"
    key: PlanKey
    epoch: int
    attempt: int
    task: int
    checkpoint: Checkpoint
    states: tuple[StoredState, ...] = ()
    packs: tuple[StoredPack, ...] = ()
    alignment_ms: int = 0
    stored_bytes: int = 0
    error: str = ""
    settles: bool = False


class CompleteCheckpoint(Message, frozen=True):
    """Announces to every task that `checkpoint` is complete: the topology continues from it when it is lost.

    Receivers report to their senders which events it contains, and which need not be retained: those that the `oldest`
    checkpoint contains from which the topology can start when later ones are damaged (0: unknown).
    """

    TYPE = "complete-checkpoint"
    checkpoint: Checkpoint
    oldest: int = 0


class AbandonCheckpoint(Message, frozen=True):
    """Tells every task that `checkpoint` will not be completed; its stored state may be discarded."""

    TYPE = "abandon-checkpoint"
    checkpoint: Checkpoint


class TakeSavepoint(Message, frozen=True):
    """Asks the driver to keep a checkpoint of the plan's topology of `epoch` as savepoint `name`.

    It replaces a savepoint of that name. `token` is the leader's token.
    """

    TYPE = "take-savepoint"
    key: PlanKey
    epoch: int
    name: str
    token: int = 0


class DeleteSavepoint(Message, frozen=True):
    """Orders the driver to delete the savepoint `name` of the plan."""

    TYPE = "delete-savepoint"
    key: PlanKey
    name: str
    token: int = 0


class ClearCheckpoints(Message, frozen=True):
    """Orders the driver to delete all present checkpoints of the plan but its savepoints."""

    TYPE = "clear-checkpoints"
    key: PlanKey
    token: int = 0
