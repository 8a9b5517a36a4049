"""The manager's configuration: these structs are the only source of defaults; `conf/manager.yaml` shows every key."""

from __future__ import annotations

import socket
from typing import Annotated

import msgspec
from msgspec import Meta

from cep_common.ids import Endpoint, parse_endpoint
from cep_common.inspection.config import LogConfig
from cep_common.nodes.config import ManagerNode
from cep_common.process.priority import ControlPriority
from cep_common.protocol.drivers import PlanHost
from cep_common.security.config import ServerSecurity
from cep_common.security.context import is_loopback
from siddhi.language.bounds import MOST_WORDS
from siddhi.scripts.language import LANGUAGES_OFF, ScriptPolicy

KAFKA_OPTIONS = (
    "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "password.file", "ssl.ca.location",
    "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "optional.configuration",
)  # fmt: skip
Port = Annotated[int, Meta(ge=1, le=65_535)]
Count = Annotated[int, Meta(ge=0)]
Host = Annotated[str, Meta(min_length=1)]


class ControlConfig(msgspec.Struct, frozen=True):
    """Configure the registry's port and the intervals of heartbeats."""

    port: Port = 8904
    heartbeat_ms: Annotated[int, Meta(ge=10)] = 1_000
    lease_ms: Annotated[int, Meta(ge=20)] = 3_000
    priority: ControlPriority = "realtime"

    def __post_init__(self) -> None:
        if self.lease_ms < 2 * self.heartbeat_ms:
            raise ValueError(f"lease_ms: must be at least twice heartbeat_ms ({self.heartbeat_ms})")


class ManagerHttpConfig(msgspec.Struct, frozen=True):
    """Configure the console and the REST API."""

    host: Host = "127.0.0.1"
    port: Port = 9080
    threads: Annotated[int, Meta(ge=1, le=256)] = 64
    body_bytes: Annotated[int, Meta(ge=1_024)] = 1_048_576


class DatabaseConfig(msgspec.Struct, frozen=True):
    """The database that stores plans."""

    url: Annotated[str, Meta(min_length=1)] = "sqlite:///var/cep/manager.db"
    timeout_ms: Annotated[int, Meta(ge=1)] = 5_000


class AccountsConfig(msgspec.Struct, frozen=True):
    """Configure whether users must log in, the length of sessions, and the retention of the audit log.

    `worker_token` is a file with the token that the manager uses to send events, and to handle failed ones, at workers
    that require a token: workers do not know the users.
    """

    login: bool = True
    idle_minutes: Annotated[int, Meta(ge=1)] = 60
    session_hours: Annotated[int, Meta(ge=1)] = 12
    audit_days: Annotated[int, Meta(ge=1)] = 90
    worker_token: str = ""


class ElectionConfig(msgspec.Struct, frozen=True):
    """Leader election among managers that share a database."""

    heartbeat_ms: Annotated[int, Meta(ge=20)] = 1_000
    retries: Annotated[int, Meta(ge=2)] = 2
    poll_ms: Annotated[int, Meta(ge=20)] = 1_000

    @property
    def lease_ms(self) -> int:
        """Return how long a leader may act without confirmation from the database."""
        return self.heartbeat_ms * self.retries


class TopologyConfig(msgspec.Struct, frozen=True):
    """Defaults for topologies of plans that do not set these options themselves.

    With `host` `shared` a plan that asks for nothing more, and has no scripts, runs in a stage host with other plans of
    its tenant; with `own` each has separate tasks.
    """

    workers: Annotated[int, Meta(ge=1)] = 1
    host: PlanHost = "shared"


class ScalingConfig(msgspec.Struct, frozen=True):
    """Configure the scaling of stages with `parallel='auto'`; loads are measured every `interval_ms`.

    A stage grows when its busiest instance has spent more than `grow_above` of the last `grow_after_ms` working, and
    shrinks when fewer instances would have had at most `target` to do in all of `shrink_after_ms`. It rests for
    `rest_ms` after each change.
    """

    interval_ms: Annotated[int, Meta(ge=100)] = 5_000
    grow_above: Annotated[float, Meta(gt=0, le=1)] = 0.8
    target: Annotated[float, Meta(gt=0, le=1)] = 0.65
    grow_after_ms: Annotated[int, Meta(ge=100)] = 30_000
    shrink_after_ms: Annotated[int, Meta(ge=100)] = 300_000
    rest_ms: Count = 60_000

    def __post_init__(self) -> None:
        if self.target >= self.grow_above:
            raise ValueError("target: must be below grow_above, or stages would grow and shrink in turn")


class TrialConfig(msgspec.Struct, frozen=True):
    """Trials of plans before deployment; `at_once` 0 disables them."""

    at_once: Count = 2
    timeout_ms: Annotated[int, Meta(ge=1_000, le=600_000)] = 20_000
    memory_bytes: Annotated[int, Meta(ge=2**28)] = 2_147_483_648
    most_rows: Annotated[int, Meta(ge=1, le=20_000)] = 1_000


class CompileConfig(msgspec.Struct, frozen=True):
    """Configure the limits of compiling a plan, and how many plans are validated and previewed at a time.

    One more may be compiled for deployment at the same time. `timeout_ms` is CPU time; a text has at most `most_words`
    words and signs.
    """

    at_once: Annotated[int, Meta(ge=1, le=64)] = 2
    timeout_ms: Annotated[int, Meta(ge=1_000, le=600_000)] = 5_000
    memory_bytes: Annotated[int, Meta(ge=2**28)] = 1_073_741_824
    most_words: Annotated[int, Meta(ge=1_000)] = MOST_WORDS


class TailConfig(msgspec.Struct, frozen=True):
    """Watching of event streams; `at_once` 0 disables it."""

    at_once: Count = 6
    events_per_s: Annotated[int, Meta(ge=1, le=500)] = 20
    longest_ms: Annotated[int, Meta(ge=1_000)] = 600_000


class LiveConfig(msgspec.Struct, frozen=True):
    """Live updates for pages and programs; with `at_once` 0 clients must poll."""

    at_once: Count = 40


class PlanFolderConfig(msgspec.Struct, frozen=True):
    """A folder whose files are deployed; an empty path is none."""

    path: str = ""
    interval_ms: Annotated[int, Meta(ge=10)] = 1_000


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on the total usage of one tenant's plans; 0 means no limit."""

    plans: Count = 0
    slots: Count = 0
    events_per_s: Count = 0


class KafkaConfig(msgspec.Struct, frozen=True):
    """The brokers that carry streams between execution groups of plans with `@App:transport('kafka')`.

    `servers` is host:port,host:port; empty: there are none. `replication` is the number of copies of each partition of
    a topic that the manager creates; 0: as the brokers are configured. `options` are those of the source `kafka` that
    say how to connect, such as `security.protocol`; workers get them, too. `tenants` are the ids of tenants that may
    use these brokers beside the super tenant: topic names do not include the tenant, so these tenants can access each
    other's topics.
    """

    servers: str = ""
    replication: Annotated[int, Meta(ge=0, le=32)] = 0
    options: dict[str, str] = {}
    tenants: list[int] = []

    def __post_init__(self) -> None:
        unknown = [name for name in self.options if name not in KAFKA_OPTIONS]
        if unknown:
            raise ValueError(f"options: {unknown[0]} is not known here; known: {', '.join(KAFKA_OPTIONS)}")


class QuotasConfig(Quota, frozen=True, forbid_unknown_fields=True):
    """The quota of every tenant, except for those in `tenants`, which have their own quotas by id."""

    tenants: dict[int, Quota] = {}

    def of(self, tenant: int) -> Quota:
        """Return the tenant's quota."""
        return self.tenants.get(tenant, self)


class MetricTablesConfig(msgspec.Struct, frozen=True):
    """Where and how often the leader records the metrics of plans; with an empty `url` only in memory."""

    url: str = ""
    interval_ms: Annotated[int, Meta(ge=1_000)] = 15_000
    retention_ms: Annotated[int, Meta(ge=60_000)] = 259_200_000


class ManagerMetricsConfig(msgspec.Struct, frozen=True):
    """Metrics over time."""

    tables: MetricTablesConfig = MetricTablesConfig()


class ManagerConfig(msgspec.Struct, frozen=True):
    """Configuration of a manager process."""

    host: Host = "127.0.0.1"
    advertised_host: str = ""
    managers: tuple[str, ...] = ()
    security: ServerSecurity = ServerSecurity()
    log: LogConfig = LogConfig()
    control: ControlConfig = ControlConfig()
    http: ManagerHttpConfig = ManagerHttpConfig()
    database: DatabaseConfig = DatabaseConfig()
    accounts: AccountsConfig = AccountsConfig()
    election: ElectionConfig = ElectionConfig()
    topology: TopologyConfig = TopologyConfig()
    scaling: ScalingConfig = ScalingConfig()
    trial: TrialConfig = TrialConfig()
    compile: CompileConfig = CompileConfig()
    tail: TailConfig = TailConfig()
    live: LiveConfig = LiveConfig()
    plan_folder: PlanFolderConfig = PlanFolderConfig()
    quotas: QuotasConfig = QuotasConfig()
    kafka: KafkaConfig = KafkaConfig()
    metrics: ManagerMetricsConfig = ManagerMetricsConfig()
    node: ManagerNode = ManagerNode()
    script: dict[str, bool] = msgspec.field(default_factory=LANGUAGES_OFF.copy)

    def __post_init__(self) -> None:
        if not self.accounts.login and not self.security.insecure and not is_loopback(self.http.host):
            raise ValueError(
                f"accounts.login: people must log in where http.host is {self.http.host}, which can be reached from "
                "other hosts (or allow access without authentication with security.insecure: true)"
            )
        others = [endpoint for endpoint in self.manager_endpoints() if endpoint != self.control_endpoint()]
        if others and self.database.url.startswith("sqlite"):
            hosts = {_one_name(endpoint.host) for endpoint in (self.control_endpoint(), *others)}
            if len(hosts) > 1:
                raise ValueError(
                    f"database.url: {self.database.url} is a file of one host, and there are managers on "
                    f"{', '.join(sorted(hosts))}; managers of several hosts share a PostgreSQL database "
                    "(postgresql://user@host/name)"
                )

    def manager_endpoints(self) -> tuple[Endpoint, ...]:
        """Return the control planes of `managers`. Raises ValueError."""
        return tuple(parse_endpoint(manager) for manager in self.managers)

    def control_endpoint(self) -> Endpoint:
        """Return the address at which others reach this manager's control plane."""
        return Endpoint(self._reached_at(self.host), self.control.port)

    def http_address(self) -> str:
        """Return the address at which others reach this manager's console and REST API."""
        scheme = "https" if self.security.certificate else "http"
        return f"{scheme}://{self.http_name()}:{self.http.port}"

    def live_at_once(self) -> int:
        """Return how many live streams may be open at once.

        Each takes a thread, and some threads stay free for requests.
        """
        return max(0, min(self.live.at_once, self.http.threads - self.tail.at_once - THREADS_FOR_REQUESTS))

    def http_name(self) -> str:
        """Return the name or address in a `Host` header or an address."""
        return self._reached_at(self.http.host)

    def _reached_at(self, host: str) -> str:
        if host not in EVERY_ADDRESS:
            return host if self.advertised_host == "" or is_loopback(host) else self.advertised_host
        return self.advertised_host or socket.gethostname()

    @property
    def scripts(self) -> ScriptPolicy:
        """Return the languages in which plans may define functions."""
        return ScriptPolicy.switched(self.script, "script.{language}: true in the manager's configuration")


EVERY_ADDRESS = ("0.0.0.0", "::", "*")  # noqa: S104 - to know them, not to listen there
"""Addresses at which a process can listen, but which others cannot connect to."""


THREADS_FOR_REQUESTS = 8
"""The number of `http.threads` that are reserved for requests."""


def _one_name(host: str) -> str:
    return "this host" if is_loopback(host) else host
