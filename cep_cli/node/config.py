"""The configuration of a node with the keys of WSO2's `deployment.yaml`, and its mapping to the node's processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta

from cep_common.configuration.yaml_files import read_yaml
from cep_common.errors import ConfigError

Port = Annotated[int, Meta(ge=1, le=65_535)]
Milliseconds = Annotated[int, Meta(ge=20)]

EMBEDDED = "sqlite:///var/cep/cluster/cluster.db"
DB_STORE, FILE_STORE = "DBPersistenceStore", "FileSystemPersistenceStore"


class _Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Identity(_Keys, frozen=True):
    """`wso2.carbon`: the node's name, which differs from that of the other node."""

    id: str = ""
    name: str = ""


class Strategy(_Keys, frozen=True):
    """`cluster.config.strategyConfig`: the coordination database, and the detection of failed nodes."""

    datasource: str = EMBEDDED
    heartbeat_interval: Milliseconds = 1_000
    heartbeat_max_retry: Annotated[int, Meta(ge=2)] = 2
    event_polling_interval: Milliseconds = 1_000


class ClusterConfig(_Keys, frozen=True):
    """`cluster.config`. Both nodes have the same `groupId`."""

    enabled: bool = True
    group_id: Annotated[str, Meta(min_length=1)] = "cep"
    coordination_strategy_class: str = ""
    strategy_config: Strategy = Strategy()


class EventSyncServer(_Keys, frozen=True):
    """`deployment.config.eventSyncServer`: the address at which the passive node receives events of the active one."""

    host: str = ""
    port: Port = 9893
    advertised_host: str = ""
    advertised_port: Port | None = None
    boss_threads: int = 10
    worker_threads: int = 10


class DeploymentConfig(_Keys, frozen=True):
    """`deployment.config`. Sizes of thread pools are accepted and ignored."""

    type: Literal["ha"] = "ha"
    mirror: Literal["sync", "async"] = "sync"
    event_byte_buffer_queue_capacity: Annotated[int, Meta(ge=1)] = 20_000
    byte_buffer_extractor_thread_pool_size: int = 5
    event_sync_server: EventSyncServer = EventSyncServer()
    event_sync_client_pool: dict[str, int] = {}
    passive_node_details_wait_time_out_millis: int = 300_000
    passive_node_details_retry_sleep_time_millis: int = 500


class StatePersistence(_Keys, frozen=True):
    """`state.persistence`: the location and the interval of checkpoints."""

    enabled: bool = True
    interval_in_min: Annotated[float, Meta(ge=0)] | None = None
    revisions_to_keep: Annotated[int, Meta(ge=1)] = 3
    persistence_store: str = DB_STORE
    config: dict[str, Any] = {}


class Datasources(_Keys, frozen=True):
    """`wso2.datasources`: databases by name."""

    data_sources: tuple[dict[str, Any], ...] = ()


class NodePorts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ports of the node's processes. `guard` is open while any of them runs."""

    control: Port = 8904
    console: Port = 9080
    http: Port = 8006
    ingress: Port = 7611
    egress: Port = 7612
    guard: Port = 9894


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`node.yaml`. `manager`, `driver` and `worker` are further keys of these processes."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    folder: Annotated[str, Meta(min_length=1)] = "var/cep/node"
    login: bool = True
    ports: NodePorts = NodePorts()
    security: dict[str, Any] = {}
    manager: dict[str, Any] = {}
    driver: dict[str, Any] = {}
    worker: dict[str, Any] = {}
    carbon: Identity = msgspec.field(name="wso2.carbon", default=Identity())
    datasources: Datasources = msgspec.field(name="wso2.datasources", default=Datasources())
    cluster: ClusterConfig = msgspec.field(name="cluster.config", default=ClusterConfig())
    deployment: DeploymentConfig = msgspec.field(name="deployment.config", default=DeploymentConfig())
    persistence: StatePersistence = msgspec.field(name="state.persistence", default=StatePersistence())

    @property
    def name(self) -> str:
        """Return the node's name."""
        return self.carbon.id or self.carbon.name or f"{self.host}:{self.ports.control}"

    def database(self) -> str:
        """Return the URL of the coordination database. Raises ConfigError."""
        return self._datasource("cluster.config.strategyConfig.datasource", self.cluster.strategy_config.datasource)

    def checkpoints(self) -> str:
        """Return the location of checkpoints; empty: none. Raises ConfigError."""
        persistence = self.persistence
        if not persistence.enabled:
            return ""
        store = persistence.persistence_store.rpartition(".")[2]
        if store == DB_STORE:
            name = persistence.config.get("datasource")
            url = self._datasource("state.persistence.config.datasource", name) if name else self.database()
            # SQLite has one writer at a time, and checkpoints must not delay the lease
            return url.removesuffix(".db") + "-checkpoints.db" if url.startswith("sqlite") and not name else url
        if store == FILE_STORE:
            if not persistence.config.get("location") or not persistence.config.get("shared"):
                raise ConfigError(
                    f"state.persistence: {FILE_STORE} needs config.location, a folder that both nodes reach under this "
                    f"name, and config.shared: true to say so; {DB_STORE} needs neither"
                )
            return str(persistence.config["location"])
        raise ConfigError(
            f"state.persistence.persistenceStore: {persistence.persistence_store}; use {DB_STORE} or {FILE_STORE}"
        )

    def _datasource(self, key: str, name: str) -> str:
        if "://" in name:
            return name
        for source in self.datasources.data_sources:
            if source.get("name") == name:
                return _url(source)
        known = ", ".join(str(source.get("name")) for source in self.datasources.data_sources) or "none"
        raise ConfigError(f"{key}: no data source is named {name} in wso2.datasources.dataSources; known: {known}")


def _url(source: dict[str, Any]) -> str:
    configuration = source.get("definition", {}).get("configuration", {})
    url = str(configuration.get("jdbcUrl") or configuration.get("url") or "").removeprefix("jdbc:")
    if "://" not in url:
        raise ConfigError(f"wso2.datasources: {source.get('name')} has no definition.configuration.jdbcUrl")
    user, password = configuration.get("username"), configuration.get("password")
    if user and "@" not in url:
        who = quote(str(user), safe="") + (f":{quote(str(password), safe='')}" if password else "")
        url = url.replace("://", f"://{who}@", 1)
    return url


def read_node_config(path: Path) -> NodeConfig:
    """Read `node.yaml`. Raises ConfigError that names the key."""
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold keys and values")
    try:
        config = msgspec.convert(values, NodeConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {str(error)[:1].lower()}{str(error)[1:]}") from error
    if not config.cluster.enabled:
        raise ConfigError(
            f"{path}: cluster.config.enabled: a node of two needs the coordination database; use `cep up`"
        )
    config.checkpoints()
    return config


def environment_of(config: NodeConfig, folder: Path) -> dict[str, dict[str, str]]:
    """Return the settings of each process of the node in `folder`, as environment variables."""
    ports, sync, strategy = config.ports, config.deployment.event_sync_server, config.cluster.strategy_config
    sync_host = sync.host or config.host
    reached = sync.advertised_host or config.host
    database, state = config.database(), folder / "state"
    manager = f"[{config.host}:{ports.control}]"
    common = {"security": config.security} if config.security else {}
    persistence = config.persistence
    checkpoint: dict[str, Any] = {"location": config.checkpoints(), "retained": persistence.revisions_to_keep}
    if persistence.interval_in_min is not None:
        checkpoint["interval_ms"] = int(persistence.interval_in_min * 60_000)
    settings: dict[str, dict[str, Any]] = {
        "manager": {
            "host": config.host,
            "control": {"port": ports.control},
            "http": {"host": config.host, "port": ports.console},
            "database": {"url": database},
            "accounts": {"login": config.login},
            "election": {
                "heartbeat_ms": strategy.heartbeat_interval,
                "retries": strategy.heartbeat_max_retry,
                "poll_ms": strategy.event_polling_interval,
            },
            "node": {
                "folder": str(folder),
                "name": config.name,
                "group": config.cluster.group_id,
                "sync": f"{reached}:{sync.advertised_port or sync.port}",
                "guard": f"{reached}:{ports.guard}",
            },
        },
        "driver": {
            "host": config.host,
            "managers": manager,
            "stages": {"host": config.host},
            "checkpoint": checkpoint,
            "node": {"folder": str(folder)},
        },
        "worker": {
            "name": config.cluster.group_id,
            "host": config.host,
            "managers": manager,
            "http": {"host": config.host, "port": ports.http},
            "ingress": {"host": config.host, "port": ports.ingress},
            "egress": {"host": config.host, "port": ports.egress},
            "outflow": {"host": config.host},
            "wal": {"path": str(state / "wal")},
            "results": {"path": str(state / "results")},
            "file_sources": {"positions": str(state / "positions")},
            "errors": {"path": str(folder / "errors")},
            "node": {
                "folder": str(folder),
                "state": str(state),
                "host": sync_host,
                "port": sync.port,
                "mirror": config.deployment.mirror,
                "queue": config.deployment.event_byte_buffer_queue_capacity,
                "timeout_ms": strategy.heartbeat_interval,
            },
        },
    }
    further = {"manager": config.manager, "driver": config.driver, "worker": config.worker}
    return {
        process: dict(_variables(f"CEP_{process.upper()}", _merged(_merged(own, common), further[process])))
        for process, own in settings.items()
    }


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for key, value in other.items():
        mine = merged.get(key)
        merged[key] = _merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return merged


def _variables(prefix: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}__{key.upper()}"
        if isinstance(value, dict) and value:
            found += _variables(name, value)
        else:
            found.append((name, value if isinstance(value, str) else json.dumps(value)))
    return found
