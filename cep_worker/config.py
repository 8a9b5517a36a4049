"""The worker's configuration: these structs are the only source of its defaults; `conf/worker.yaml` shows every key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from cep_common.ids import Endpoint, parse_endpoint
from cep_common.inspection.config import LogConfig
from cep_common.nodes.config import WorkerNode
from cep_common.process.priority import ControlPriority
from cep_common.reach.guard import Reach
from cep_common.reach.rules import UrlRule
from cep_common.security.config import ServerSecurity
from cep_worker.plans.extensions import ConnectorExtension

Port = Annotated[int, Meta(ge=1, le=65_535)]
Host = Annotated[str, Meta(min_length=1)]
Rows = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[int, Meta(ge=1)]


class RegistryConfig(msgspec.Struct, frozen=True):
    """Configure the connection to managers."""

    timeout_ms: Milliseconds = 1_000
    heartbeat_ms: Milliseconds = 1_000
    reconnect_ms: Milliseconds = 250
    connect_ms: Milliseconds = 1_000
    priority: ControlPriority = "realtime"


class InflowConfig(msgspec.Struct, frozen=True):
    """Configure the inflows, which send events to topologies."""

    waiting_rows: Rows = 65_536
    batch_rows: Rows = 4_096
    max_in_flight_frames: Annotated[int, Meta(ge=1)] = 64
    idle_ms: Milliseconds = 10_000
    out_of_order_ms: Annotated[int, Meta(ge=0)] = 0


class OutflowConfig(msgspec.Struct, frozen=True):
    """Configure the outflow services, which receive results from publisher stages."""

    host: Host = "127.0.0.1"
    first_port: Port = 15_000
    last_port: Port = 17_999
    window_rows: Rows = 65_536

    def __post_init__(self) -> None:
        if self.last_port < self.first_port:
            raise ValueError(f"last_port: must be at least first_port ({self.first_port})")


class IngressConfig(msgspec.Struct, frozen=True):
    """Configure the built-in service to which clients send Arrow batches over ZeroMQ."""

    host: Host = "127.0.0.1"
    port: Port = 7611
    window_rows: Rows = 65_536
    links: Annotated[int, Meta(ge=1)] = 256


class EgressConfig(msgspec.Struct, frozen=True):
    """Configure the built-in service at which clients listen to exported streams over ZeroMQ."""

    host: Host = "127.0.0.1"
    port: Port = 7612
    window_rows: Rows = 65_536
    waiting_rows: Rows = 262_144
    lag_ms: Milliseconds = 5_000
    listeners: Annotated[int, Meta(ge=1)] = 256


class WorkerHttpConfig(msgspec.Struct, frozen=True):
    """Configure the built-in HTTP service, and HTTP sources on their own ports.

    Requests with an `Idempotency-Key` are remembered for `idempotency_ms`, the newest `idempotency_keys` of them.
    """

    host: Host = "127.0.0.1"
    port: Port = 8006
    threads: Annotated[int, Meta(ge=1, le=256)] = 8
    body_bytes: Annotated[int, Meta(ge=1_024)] = 16_777_216
    wait_ms: Milliseconds = 2_000
    idempotency_keys: Annotated[int, Meta(ge=1)] = 100_000
    idempotency_ms: Milliseconds = 600_000


def _whole(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the absolute paths of `folders`, as written and with links followed.

    Managers cannot follow the links of a worker's host.
    """
    return tuple(
        dict.fromkeys(path for folder in folders for path in (os.path.abspath(folder), os.path.realpath(folder)))
    )


def _check_rules(texts: tuple[str, ...]) -> None:
    try:
        for text in texts:
            UrlRule.parse(text)
    except ValueError as error:
        raise ValueError(f"urls: {error}") from error


class SinkConfig(msgspec.Struct, frozen=True):
    """Configure all sinks, and the destinations that sinks of plans may use: files in `folders`, and `urls`."""

    waiting_rows: Rows = 65_536
    folders: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_rules(self.urls)


class SourcesConfig(msgspec.Struct, frozen=True):
    """Configure the addresses at which sources of plans may listen, in addition to the worker's own."""

    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_rules(self.urls)


class FoldersConfig(msgspec.Struct, frozen=True):
    """Configure the folders whose files plans may use."""

    folders: tuple[str, ...] = ()


class WalConfig(msgspec.Struct, frozen=True):
    """The write-ahead log: accepted events stay on disk until the topology no longer needs them.

    `maximum_bytes` limits the log of each imported stream. Data of a plan that is missing but was not undeployed
    (events, results and failed events) is kept for `orphan_retention_ms`.
    """

    path: Annotated[str, Meta(min_length=1)] = "var/cep/wal"
    fsync: Literal["always", "interval", "none"] = "interval"
    fsync_interval_ms: Milliseconds = 1_000
    maximum_bytes: Annotated[int, Meta(ge=65_536)] = 4_294_967_296
    segment_bytes: Annotated[int, Meta(ge=4_096)] = 16_777_216
    orphan_retention_ms: Milliseconds = 604_800_000

    def __post_init__(self) -> None:
        if self.maximum_bytes < 4 * self.segment_bytes:
            raise ValueError(f"maximum_bytes: must be at least four times segment_bytes ({self.segment_bytes})")


class ResultsConfig(msgspec.Struct, frozen=True):
    """The transactional log: results on disk until their checkpoint is complete and sinks have taken them.

    At most `max_undelivered_bytes` of each plan wait for sinks.
    """

    path: Annotated[str, Meta(min_length=1)] = "var/cep/results"
    max_undelivered_bytes: Annotated[int, Meta(ge=65_536)] = 1_073_741_824


class ErrorsConfig(msgspec.Struct, frozen=True):
    """The failed-event store: failed events of plans that ask for it.

    The store holds at most `max_entries` entries per plan, each with events of at most `max_entry_bytes`.
    """

    path: Annotated[str, Meta(min_length=1)] = "var/cep/errors"
    max_entries: Annotated[int, Meta(ge=1)] = 10_000
    max_entry_bytes: Annotated[int, Meta(ge=1_024, le=1_048_576)] = 65_536


class FileSourcesConfig(msgspec.Struct, frozen=True):
    """Configure file sources: the folders whose files plans may read, and where read positions are stored."""

    folders: tuple[str, ...] = ()
    positions: Annotated[str, Meta(min_length=1)] = "var/cep/positions"


class ArtefactConfig(msgspec.Struct, frozen=True):
    """Directories of sources and sinks that are declared outside of plans."""

    sources: str = ""
    sinks: str = ""


class WorkerConfig(msgspec.Struct, frozen=True):
    """The configuration of a worker process.

    `protected` are further files and folders that no plan may open; `secrets` is the folder of the secrets that plans
    refer to as `${secret:NAME}`.
    """

    name: str = ""
    host: Host = "127.0.0.1"
    managers: tuple[str, ...] = ("127.0.0.1:8904",)
    security: ServerSecurity = ServerSecurity()
    leave_ms: Milliseconds = 5_000
    registry: RegistryConfig = RegistryConfig()
    inflow: InflowConfig = InflowConfig()
    outflow: OutflowConfig = OutflowConfig()
    ingress: IngressConfig = IngressConfig()
    egress: EgressConfig = EgressConfig()
    http: WorkerHttpConfig = WorkerHttpConfig()
    sinks: SinkConfig = SinkConfig()
    sources: SourcesConfig = SourcesConfig()
    password_files: FoldersConfig = FoldersConfig()
    protected: tuple[str, ...] = ()
    secrets: str = ""
    wal: WalConfig = WalConfig()
    results: ResultsConfig = ResultsConfig()
    errors: ErrorsConfig = ErrorsConfig()
    artefacts: ArtefactConfig = ArtefactConfig()
    file_sources: FileSourcesConfig = FileSourcesConfig()
    extensions: tuple[ConnectorExtension, ...] = ()
    node: WorkerNode = WorkerNode()
    log: LogConfig = LogConfig()

    def __post_init__(self) -> None:
        if not self.managers:
            raise ValueError("managers: name at least one manager as host:port")
        try:
            self.manager_endpoints()
        except ValueError as error:
            raise ValueError(f"managers: {error}") from error

    def http_scheme(self) -> str:
        """Return `https` if there is a certificate, else `http`."""
        return "https" if self.security.certificate else "http"

    def reach(self) -> Reach:
        """Return what sources and sinks of plans may reach."""
        return Reach(
            sink_folders=_whole(self.sinks.folders),
            sink_urls=self.sinks.urls,
            source_folders=_whole(self.file_sources.folders),
            source_urls=self.sources.urls,
            password_folders=_whole(self.password_files.folders),
            working_folder=str(Path.cwd()),
        )

    def manager_endpoints(self) -> tuple[Endpoint, ...]:
        """Return the control endpoints of the managers, in the order in which they are tried."""
        return tuple(parse_endpoint(manager) for manager in self.managers)
