"""The settings that every task of a topology gets from the driver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec

from cep_common.ids import Endpoint, PlanKey
from cep_common.inspection.config import LogConfig
from cep_common.process.priority import ControlPriority
from cep_common.reach.guard import Guard, Reach
from cep_common.security.config import SecurityConfig
from siddhi.engine.limits import MAX_PARTIAL_MATCHES
from siddhi.scripts.language import LANGUAGES_OFF, ScriptPolicy
from topology.sync_log.settings import SyncLogSettings

Count = Annotated[int, msgspec.Meta(ge=1)]


class Datasource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A database that plans name in `@Store(type='rdbms', datasource='…')`.

    `url` is SQLAlchemy's or Java's. The password is the first line of `password_file`, which every executor's host
    has.
    """

    url: str
    username: str = ""
    password_file: str = ""

    def __post_init__(self) -> None:
        parts = re.split("[?&;]", self.url.casefold())
        if ":" in self.url.partition("://")[2].rpartition("@")[0] or any(one.startswith("password=") for one in parts):
            raise ValueError("url: holds a password; write it to a file that only the driver's user can read, "
"and set password_file")  # fmt: skip


class ScriptProcessSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the process that runs the scripts of a plan in one task.

    A call may use `cpu_ms` of processor time, the process `memory_bytes` of address space; it ends after `idle_ms`
    without calls.
    """

    cpu_ms: Annotated[int, msgspec.Meta(ge=10, le=5_000)] = 500
    memory_bytes: Annotated[int, msgspec.Meta(ge=134_217_728)] = 268_435_456
    idle_ms: Annotated[int, msgspec.Meta(ge=1_000, le=86_400_000)] = 60_000


class StageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of stages, from `stages` in the driver's configuration.

    The driver adds `managers`, and its own `security` where stages have none: the folder of keys is
    at that path on every host. An empty `host` means the address by which Spark knows the executor.
    """

    host: str = ""
    first_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 15000
    last_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 17999
    window_rows: Count = 65_536
    publisher_queue_rows: Count = 65_536
    store_queue_rows: Count = 65_536
    idle_ms: Count = 15_000
    drop_late: bool = False
    request_timeout_ms: Count = 2_000
    stop_timeout_ms: Count = 5_000
    managers: tuple[Endpoint, ...] = ()
    security: SecurityConfig = SecurityConfig()
    max_partial_matches: Count = MAX_PARTIAL_MATCHES
    datasources: dict[str, Datasource] = {}
    task_memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 4_294_967_296
    store_urls: bool = False
    protected: tuple[str, ...] = ()
    secrets: str = ""
    sync_log: SyncLogSettings = SyncLogSettings()
    script: dict[str, bool] = msgspec.field(default_factory=LANGUAGES_OFF.copy)
    script_process: ScriptProcessSettings = ScriptProcessSettings()

    def __post_init__(self) -> None:
        if self.last_port < self.first_port:
            raise ValueError(f"last_port {self.last_port} is below first_port {self.first_port}")

    @property
    def ports(self) -> tuple[int, int]:
        return self.first_port, self.last_port

    def guard(self) -> Guard:
        """Return the guard for database URLs of plans, where `store_urls` allows any.

        It protects the system's files.
        """
        everything = Reach(sink_folders=("/",), sink_urls=("*", "*://localhost", "*://127.0.0.0/8", "*://[::1]"),
                           password_folders=("/",))  # fmt: skip
        paths = (self.security.keys, self.secrets, *self.protected)
        return Guard(everything, protected=[str(Path(path).absolute()) for path in paths if path])

    @property
    def scripts(self) -> ScriptPolicy:
        """Return the languages in which plans may define functions."""
        return ScriptPolicy.switched(self.script, "stages.script.{language}: true in the driver's configuration")


class TaskAssignment(msgspec.Struct, frozen=True):
    """Which topology a task belongs to, and how it runs.

    The query plan is XML, since that holds all that a topology needs. Each task may use `cores` and hold
    `memory_bytes` (0: no limit). A task that `stands_by` starts on the manager's command; until then the topology that
    it replaces works.

    `attempt` is how often the driver had restarted the topology. Tasks join its `coordinator`, which gives them each
    other's addresses, and take checkpoints into the store at `checkpoint_location` if that is set; they begin from
    the manifest that `restore` refers to in that store (see `CheckpointStore.read_manifest`), empty: without state.
    One that `goes_back` needs all events again that this does not hold. No event can have ended the `cleared` attempts
    before it; the ends of `doubtful` ones prove little. `log` is how they keep theirs, `priority` that of their
    heartbeats.
    """

    key: PlanKey
    epoch: int
    query_plan: str
    tasks: int
    settings: StageSettings
    coordinator: Endpoint
    cores: int = 1
    memory_bytes: int = 0
    stands_by: bool = False
    attempt: int = 0
    checkpoint_location: str = ""
    restore: str = ""
    goes_back: bool = False
    cleared: tuple[int, ...] = ()
    doubtful: tuple[int, ...] = ()
    log: LogConfig = LogConfig()
    priority: ControlPriority = "normal"


class HostAssignment(msgspec.Struct, frozen=True):
    """The assignment of a stage host.

    It has its name, its tenant, and the driver's endpoint. All tasks in it together may use
    `settings.task_memory_bytes`.
    """

    host: str
    tenant: int
    driver: Endpoint
    settings: StageSettings
    log: LogConfig = LogConfig()
    priority: ControlPriority = "normal"
