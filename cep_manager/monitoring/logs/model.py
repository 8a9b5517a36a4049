"""Processes, their logs and their configurations as the web shows them."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.protocol.inspection import Level, LogRecord, Origin

ProcessKind = Literal["manager", "driver", "worker", "task"]


class Process(msgspec.Struct, frozen=True):
    """A process of the system.

    `id` stays the same over restarts: `manager:HOST:PORT`, `driver:NAME`, `worker:NAME`,
    `task:PLAN[TENANT]:EPOCH:TASK`. `plan`, `epoch`, `task` and `instances` are those of a task. A process that is not
    `readable` has not reported where its log can be read; `up_ms` and `silent_ms` are as the manager heard it; of a
    standby manager, `process_id` and `up_ms` are not known and 0.
    """

    id: str
    kind: ProcessKind
    name: str
    host: str
    process_id: int
    live: bool
    readable: bool
    up_ms: int
    silent_ms: int
    tenant: int | None = None
    plan: str = ""
    epoch: int = 0
    task: int = 0
    instances: tuple[str, ...] = ()


class LogQuery(msgspec.Struct, frozen=True):
    """Records of at least `level` that contain `contains`; those behind or before a place, `limit` at most.

    Places are as an earlier answer gave them.
    """

    level: Level = "DEBUG"
    contains: str = ""
    after: str = ""
    before: str = ""
    limit: int = 200


class LogPage(msgspec.Struct, frozen=True):
    """Records of one process, oldest first.

    `next` is the place to continue `after`, `previous` the one to look `before` (empty: no older ones are kept).
    `more`: others fit that are not here. `lost` came behind the place that was asked for and were forgotten meanwhile;
    `restarted`: that place was in the log of a process that has ended since.
    """

    process: Process
    records: tuple[LogRecord, ...]
    next: str
    previous: str
    more: bool
    lost: int = 0
    restarted: bool = False


class FoundRecord(msgspec.Struct, frozen=True):
    """A record of the log of `process`, by its id."""

    process: str
    sequence: int
    time_ms: int
    level: Level
    logger: str
    text: str
    traceback: str
    thread: str


class ProcessAnswer(msgspec.Struct, frozen=True):
    """Whether a process answered, and the reason if it did not; `more`: it has others that fit."""

    process: Process
    answered: bool
    records: int = 0
    more: bool = False
    problem: str = ""


class LogSearch(msgspec.Struct, frozen=True):
    """The newest records that fit, of all processes that answered, oldest first.

    `left_out` processes were not asked, because there are too many.
    """

    records: tuple[FoundRecord, ...]
    answers: tuple[ProcessAnswer, ...]
    more: bool
    left_out: int = 0


class KnownSetting(msgspec.Struct, frozen=True):
    """A key of a configuration.

    `value` and `default` are JSON with secrets covered, `origin` and `where` say where it was set, `unit` what a number
    counts, `meaning` what it is for (empty if not known).
    """

    key: str
    value: str
    default: str
    origin: Origin
    where: str
    unit: str
    meaning: str


class ProcessConfiguration(msgspec.Struct, frozen=True):
    """The configuration that a process uses; none and a `problem` if it does not respond."""

    process: Process
    settings: tuple[KnownSetting, ...] = ()
    problem: str = ""


class ProcessList(msgspec.Struct, frozen=True):
    """All processes that are known, by kind and name."""

    processes: tuple[Process, ...]


class ConfigurationList(msgspec.Struct, frozen=True):
    """The configurations of all processes that were asked; `left_out` were not, because there are too many."""

    configurations: tuple[ProcessConfiguration, ...]
    left_out: int = 0
