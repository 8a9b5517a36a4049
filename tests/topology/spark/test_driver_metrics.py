"""The driver's own metrics, and the server that gives them out."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from topology_builders import KEY

from cep_common.clock import ManualClock, SystemClock
from cep_common.errors import ConfigError
from cep_common.protocol.drivers import TopologyReport
from cep_common.security.access import AccessRole
from cep_common.security.config import SecurityConfig, ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import open_gate
from cep_common.web.health import STALLED_MS
from topology.spark.driver_side.config import DriverConfig, MetricsConfig
from topology.spark.driver_side.metrics import DriverMetrics, MetricsServer, create_app

METRICS = DriverMetrics(
    slots=4,
    slots_free=1,
    executors=2,
    registered=True,
    topologies=(TopologyReport(KEY, 1, "running", restarts=5), TopologyReport(KEY, 2, "starting", restarts=1)),
)
DOCUMENT = Path(__file__).parents[3] / "docs" / "operations" / "metrics.md"


def families() -> dict[str, list[tuple[dict[str, str], float]]]:
    text = create_app(open_gate(), lambda: METRICS, ManualClock()).test_client().get("/metrics").text
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_topologies_are_told_by_state_and_restarts_by_the_newest_epoch() -> None:
    told = families()
    plan = {"tenant": str(KEY.tenant), "plan": KEY.plan}
    topologies = told["cep_driver_topologies"]
    states = {labels["state"]: value for labels, value in topologies if labels.items() >= plan.items()}
    assert {state for state, value in states.items() if value} == {"running", "starting"}
    assert told["cep_driver_restarts"] == [(plan, 1.0)]
    assert (told["cep_driver_slots"], told["cep_driver_slots_free"]) == ([({}, 4.0)], [({}, 1.0)])
    assert "process_cpu_seconds" in told


@pytest.mark.parametrize(
    ("registered", "turned_ms", "now_ms", "live", "ready"),
    [
        (True, 100, 200, 200, 200),
        (False, 100, 200, 200, 503),
        (False, None, 90_000, 200, 503),
        (True, 100, 100 + STALLED_MS, 503, 503),
    ],
)
def test_a_driver_is_ready_when_a_manager_knows_it_and_live_while_its_loop_turns(
    registered: bool, turned_ms: int | None, now_ms: int, live: int, ready: int
) -> None:
    metrics = msgspec.structs.replace(METRICS, registered=registered, turned_ms=turned_ms)
    clock = ManualClock(now_ms)
    client = create_app(open_gate(), lambda: metrics, clock).test_client()
    assert client.get("/health/live").status_code == live
    assert client.get("/health/ready").status_code == ready


def test_the_document_lists_the_drivers_metrics_and_no_others() -> None:
    table = DOCUMENT.read_text(encoding="utf-8").partition("| driver | labels | is |")[2].partition("\n\n")[0]
    listed = {
        name.removesuffix("_total"): {label for label in labels.split(", ") if label}
        for names, labels in re.findall(r"^\| (`cep_.*`) \| (.*?) ?\| .* \|$", table, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    told = {
        name: {label for labels, _ in samples for label in labels}
        for name, samples in families().items()
        if name.startswith("cep_")
    }
    assert listed == told


def test_beyond_loopback_a_token_is_asked_for() -> None:
    config = MetricsConfig(host="0.0.0.0", port=1)  # noqa: S104 - that is what is refused
    with pytest.raises(ConfigError, match=r"metrics\.host: 0\.0\.0\.0 can be reached from other hosts"):
        MetricsServer(config, ServerSecurity(), lambda: METRICS, SystemClock())


def test_who_shows_no_token_gets_nothing_where_there_are_some(tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "tokens.json").create("prometheus", AccessRole.VIEWER, None, 0)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    security = ServerSecurity(tokens=str(tmp_path / "tokens.json"))
    server = MetricsServer(MetricsConfig(port=port), security, lambda: METRICS, SystemClock())
    try:
        address = f"http://127.0.0.1:{port}/metrics"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address, timeout=5)
        shown = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(shown, timeout=5) as answer:  # noqa: S310
            assert b"cep_driver_slots 4.0" in answer.read()
    finally:
        server.close()


def test_stages_are_told_keys_and_no_tokens() -> None:
    config = DriverConfig(security=ServerSecurity(keys="/etc/cep/keys", tokens="/etc/cep/tokens.json"))
    assert config.stage_settings().security == SecurityConfig(keys="/etc/cep/keys")
