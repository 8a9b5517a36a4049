"""The driver's configuration; `conf/driver.yaml` shows every key."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cep_common.ids import Endpoint
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
    managers: tuple[Endpoint, ...] = (Endpoint("127.0.0.1", 8904),)
    request_timeout_ms: Count = 2_000
    spark: SparkConfig = SparkConfig()
    restart: RestartConfig = RestartConfig()
    stages: StageSettings = StageSettings()
