"""Actions that the driver's checkpoint coordinator requests from the owners of sockets and stores."""

from __future__ import annotations

from dataclasses import dataclass

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.checkpoints import ReportPart
from cep_common.protocol.registry import Message
from topology.checkpoint.coordination.runs import RunId


@dataclass(frozen=True, slots=True)
class Push:
    """Send `message` to a task."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Request the run's `Opening` from the store."""

    run: RunId


@dataclass(frozen=True, slots=True)
class ReserveNumbers:
    """Reserve further checkpoint numbers for the run in the store."""

    run: RunId


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """All `parts` of the checkpoint are stored: write its manifest; `name` is that of a savepoint, else empty."""

    run: RunId
    checkpoint: int
    parts: tuple[ReportPart, ...]
    name: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Probe whether the process of a silent task still listens at `endpoint`; if not, call `task_ended`."""

    run: RunId
    task: int
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class RestartTopology:
    """A task is lost: end the run's job and start it again."""

    run: RunId
    reason: str


@dataclass(frozen=True, slots=True)
class Drained:
    """The last checkpoint of a run that is to end is complete; or `error` says why there is none."""

    run: RunId
    error: str


@dataclass(frozen=True, slots=True)
class SavepointEnded:
    """The savepoint is stored; or `error` says why it is not."""

    key: PlanKey
    name: str
    error: str


Instruction = Push | OpenRun | ReserveNumbers | WriteManifest | ProbeTask | RestartTopology | Drained | SavepointEnded
