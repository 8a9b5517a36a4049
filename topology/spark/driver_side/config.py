"""The driver's configuration; `conf/driver.yaml` shows every key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from cep_common.ids import Endpoint, parse_endpoint
from cep_common.inspection.config import LogConfig
from cep_common.nodes.config import NodeMember
from cep_common.process.priority import ControlPriority
from cep_common.protocol.drivers import CheckpointSettings
from cep_common.security.config import SecurityConfig, ServerSecurity
from topology.checkpoint.coordination.coordinator import Timing
from topology.checkpoint.storage.store import is_folder, shown_location
from topology.stages.settings import StageSettings

Count = Annotated[int, msgspec.Meta(ge=1)]
JOIN_STARTS = 3
"""Tasks that Spark has started must send a heartbeat within this multiple of `restart.start_timeout_ms`: on a busy
host, Python and what a plan needs may take a minute to load."""


class SparkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the Spark session.

    `slots` 0: as many as the executors have, which may join and leave. `labels` are the labels of hosts that are
    requested from the cluster manager; see `label_conf`.
    """

    master: str = "local[8]"
    application: str = "cep-topologies"
    slots: Annotated[int, msgspec.Meta(ge=0)] = 0
    executor_lease_ms: Annotated[int, msgspec.Meta(ge=1_000)] = 30_000
    labels: tuple[str, ...] = ()
    conf: dict[str, str] = {}

    def __post_init__(self) -> None:
        self.label_conf()

    def label_conf(self) -> dict[str, str]:
        """Return Spark's settings that place executors on hosts with `labels`. Raises ValueError if there are none."""
        if not self.labels:
            return {}
        if self.master.startswith("k8s:"):
            pairs = ((label.partition("=")) for label in self.labels)
            return {f"spark.kubernetes.executor.node.selector.{key}": value or "true" for key, _, value in pairs}
        if self.master.startswith("yarn"):
            if len(self.labels) > 1:
                raise ValueError(f"labels: YARN takes one node label for all executors, not {len(self.labels)}")
            return {"spark.yarn.executor.nodeLabelExpression": self.labels[0]}
        raise ValueError(f"labels: {self._cluster()} cannot choose hosts by label; only YARN and Kubernetes can")

    def refuse_labels(self, wanted: tuple[str, ...]) -> str:
        """Return why a plan that requires hosts with these labels cannot run on these executors; empty when it can."""
        missing = [label for label in wanted if label not in self.labels]
        if not missing:
            return ""
        text = ", ".join(missing)
        if not self.master.startswith(("k8s:", "yarn")):
            return f"wants hosts labelled {text}; {self._cluster()} cannot choose hosts by label"
        return f"wants hosts labelled {text}; this driver's executors are asked for with labels: {self._offered()}"

    def _offered(self) -> str:
        return ", ".join(self.labels) or "none (spark.labels in the driver's configuration)"

    def _cluster(self) -> str:
        return "local mode" if self.master.startswith("local") else f"a cluster of {self.master.partition(':')[0]}://"


class RestartConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for restarts of failed topologies."""

    first_backoff_ms: Count = 200
    longest_backoff_ms: Count = 10_000
    start_timeout_ms: Count = 60_000


class CheckpointConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configure when and where checkpoints are stored, and how soon a silent task counts as lost.

    `location` is a folder, a URL of a file system or object store, or one of a database; driver and executors must
    all reach it. Empty: none are taken. With `interval_ms` 0 they are taken on request only. After a restart they are
    taken more often.
    """

    location: str = "var/cep/checkpoints"
    interval_ms: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    timeout_ms: Count = 60_000
    minimum_pause_ms: Annotated[int, msgspec.Meta(ge=0)] = 500
    drain_ms: Count = 10_000
    retained: Count = 3
    task_heartbeat_ms: Count = 250
    task_lease_ms: Count = 2_500
    first_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 14_000
    last_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 14_999

    def __post_init__(self) -> None:
        if self.task_lease_ms < 2 * self.task_heartbeat_ms:
            raise ValueError(f"task_lease_ms: must be at least twice task_heartbeat_ms ({self.task_heartbeat_ms})")
        if self.last_port < self.first_port:
            raise ValueError(f"last_port: must be at least first_port ({self.first_port})")

    def place(self) -> str:
        """Return `location` in a form for all processes: a folder as an absolute path."""
        if not is_folder(self.location):
            return self.location
        return str(Path(self.location).expanduser().resolve())

    def settings(self) -> CheckpointSettings:
        """Return the settings that managers receive."""
        return CheckpointSettings(
            location=shown_location(self.place()) if self.location else "",
            interval_ms=self.interval_ms,
            pause_ms=self.minimum_pause_ms,
            timeout_ms=self.timeout_ms,
            retained=self.retained,
        )


class MetricsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configure the address of the driver's metrics over HTTP; `port` 0: none."""

    host: Annotated[str, msgspec.Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class DriverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of the driver process."""

    name: str = "driver"
    host: str = "127.0.0.1"
    managers: tuple[str, ...] = ("127.0.0.1:8904",)
    request_timeout_ms: Count = 2_000
    priority: ControlPriority = "realtime"
    security: ServerSecurity = ServerSecurity()
    metrics: MetricsConfig = MetricsConfig()
    spark: SparkConfig = SparkConfig()
    restart: RestartConfig = RestartConfig()
    stages: StageSettings = StageSettings()
    checkpoint: CheckpointConfig = CheckpointConfig()
    node: NodeMember = NodeMember()
    log: LogConfig = LogConfig()

    def __post_init__(self) -> None:
        if not self.managers:
            raise ValueError("managers: name at least one manager as host:port")
        self.manager_endpoints()

    def stage_settings(self) -> StageSettings:
        """Return the settings of stages: their own, the managers, and where keys are."""
        own = SecurityConfig(self.security.keys, self.security.insecure)
        security = self.stages.security if self.stages.security != SecurityConfig() else own
        places = (self.checkpoint.place() if is_folder(self.checkpoint.location) else "", self.log.folder)
        protected = (*self.stages.protected, *(str(Path(place).absolute()) for place in places if place))
        return msgspec.structs.replace(
            self.stages, managers=self.manager_endpoints(), security=security, protected=protected
        )

    def timing(self) -> Timing:
        """Return the settings of the coordinator of checkpoints."""
        settings = self.checkpoint
        return Timing(
            interval_ms=settings.interval_ms,
            timeout_ms=settings.timeout_ms,
            pause_ms=settings.minimum_pause_ms,
            heartbeat_ms=settings.task_heartbeat_ms,
            lease_ms=settings.task_lease_ms,
            join_ms=JOIN_STARTS * self.restart.start_timeout_ms,
            drain_ms=settings.drain_ms,
        )

    def manager_endpoints(self) -> tuple[Endpoint, ...]:
        """Return the control planes of the managers, in the order in which they are tried."""
        return tuple(parse_endpoint(manager) for manager in self.managers)
