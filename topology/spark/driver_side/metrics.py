"""The driver's own metrics, read at each scrape, and the HTTP server that exports them.

The manager serves the metrics of tasks: tasks run on any executor, and have no port that could be configured for
scraping. The manager's metrics have other names, so that a sum over all processes counts nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import get_args

import msgspec
from flask import Flask, Response, jsonify, request
from prometheus_client.core import Metric

from cep_common.clock import Clock
from cep_common.monitoring.metric_families import Metrics, counter, gauge
from cep_common.protocol.drivers import RunState, TopologyReport
from cep_common.security.access import Permission
from cep_common.security.config import ServerSecurity
from cep_common.security.web import Gate, guard
from cep_common.web.health import HEALTH_CALLS, add_health_routes, stalled
from cep_common.web.server import WebServer
from topology.spark.driver_side.config import MetricsConfig

CALLS = {**HEALTH_CALLS, "show_metrics": Permission.SEE_SYSTEM}

THREADS = 2
BODY_BYTES = 1_024
PLAN = ("tenant", "plan")


class DriverMetrics(msgspec.Struct, frozen=True):
    """The driver's metrics at one moment.

    `registered`: a manager has accepted its last report; `turned_ms` is when its loop last turned (monotonic clock),
    None until Spark has started.
    """

    slots: int
    slots_free: int
    executors: int
    registered: bool
    topologies: tuple[TopologyReport, ...] = ()
    turned_ms: int | None = None


def driver_metrics(reading: DriverMetrics) -> Iterator[Metric]:
    """Yield all families of a driver."""
    yield gauge(
        "cep_driver_registered", "1 while a manager accepts the driver's reports", (), [((), reading.registered)]
    )
    yield gauge(
        "cep_driver_slots", "Spark task slots that the driver can use for topologies", (), [((), reading.slots)]
    )
    yield gauge("cep_driver_slots_free", "Free slots", (), [((), reading.slots_free)])
    yield gauge("cep_driver_executors", "Spark executors that can be used", (), [((), reading.executors)])
    states = Counter((one.key.tenant, one.key.plan, one.state) for one in reading.topologies)
    yield gauge(
        "cep_driver_topologies",
        "Topologies of the plan in this state; two while one replaces another",
        (*PLAN, "state"),
        (
            ((*of, state), states[*of, state])
            for of in sorted({(tenant, plan) for tenant, plan, _ in states})
            for state in get_args(RunState)
        ),
    )
    newest = {one.key: one for one in sorted(reading.topologies, key=lambda one: one.epoch)}
    yield counter(
        "cep_driver_restarts_total",
        "How often the driver has started the plan's topology again, in its newest epoch",
        PLAN,
        (((key.tenant, key.plan), one.restarts) for key, one in newest.items()),
    )


class MetricsServer:
    """Serves `/metrics` at `config`'s address.

    It is guarded as every HTTP server is: beyond loopback by tokens. Raises ConfigError, PortInUseError.
    """

    def __init__(
        self, config: MetricsConfig, security: ServerSecurity, reading: Callable[[], DriverMetrics], clock: Clock
    ) -> None:
        app = create_app(Gate(security, config.host, clock, key="metrics.host"), reading, clock)
        where = "metrics.port (and metrics.host)"
        self._server = WebServer(app, config.host, config.port, THREADS, BODY_BYTES, security, where)
        self._server.start()

    def close(self) -> None:
        """Stop answering requests and free the port."""
        self._server.stop()


def create_app(gate: Gate, reading: Callable[[], DriverMetrics], clock: Clock) -> Flask:
    """Return the driver's HTTP interface: metrics and health. Every request passes `gate`."""
    app = Flask("cep_driver", static_folder=None)
    metrics = Metrics(lambda: driver_metrics(reading()))
    guard(app, gate, CALLS, _refused)

    def not_live() -> str:
        turned_ms = reading().turned_ms
        return "" if turned_ms is None else stalled("the driver's loop", clock.monotonic_ms() - turned_ms)

    def not_ready() -> str:
        if reading().turned_ms is None:
            return "Spark has not started yet"
        return "" if reading().registered else "no manager accepts the driver's reports"

    add_health_routes(app, not_live, not_ready)

    @app.get("/metrics")
    def show_metrics() -> Response:
        text, content_type = metrics.scrape(request.headers.get("Accept", ""))
        return Response(text, content_type=content_type)

    return app


def _refused(status: int, code: str, message: str) -> Response:
    answer = jsonify(code=code, message=message)
    answer.status_code = status
    return answer
