"""The driver's configuration; `conf/driver.yaml` shows every key."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cep_common.ids import Endpoint, parse_endpoint
from topology.stages.settings import StageSettings

Count = Annotated[int, msgspec.Meta(ge=1)]


class SparkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the Spark session is made. `slots` 0 means: as many as Spark offers when the driver starts."""

    master: str = "local[8]"
    application: str = "cep-topologies"
    slots: Annotated[int, msgspec.Meta(ge=0)] = 0
    conf: dict[str, str] = {}


class RestartConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    first_backoff_ms: Count = 500
    longest_backoff_ms: Count = 10_000


class DriverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the driver process can be told."""

    name: str = "driver"
    host: str = "127.0.0.1"
    managers: tuple[str, ...] = ("127.0.0.1:8904",)
    request_timeout_ms: Count = 2_000
    spark: SparkConfig = SparkConfig()
    restart: RestartConfig = RestartConfig()
    stages: StageSettings = StageSettings()

    def __post_init__(self) -> None:
        if not self.managers:
            raise ValueError("managers: name at least one manager as host:port")
        self.manager_endpoints()

    def manager_endpoints(self) -> tuple[Endpoint, ...]:
        """The control planes of the managers, in the order in which they are tried."""
        return tuple(parse_endpoint(manager) for manager in self.managers)
