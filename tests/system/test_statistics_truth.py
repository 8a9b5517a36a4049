"""A known load through a running system is told as it was: on page data, in /metrics, in the metric tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from benchmarks import statistics_truth
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem

SECONDS, RATE = 12, 1_000
WAIT_MS = 1_000 * statistics_truth.PIECES_A_TICK / statistics_truth.PIECES_A_SECOND
"""The longest that an event waits for the next tick."""
INTERVAL_MS = 1_000
"""That of the shared system."""
CONNECTED_S = 60

pytestmark = pytest.mark.spark


def test_a_known_load_is_told_as_it_was_at_every_place(system: LocalSystem) -> None:
    system.client.deploy(statistics_truth.PLAN, replace=False)
    wait_until_connected(system.client, "Known", CONNECTED_S)
    told = statistics_truth.measure(system, Path(system.folder) / "metrics.db", SECONDS, RATE, INTERVAL_MS)
    assert [told[f"{place}_events"] for place in statistics_truth.COUNTED] == [told["sent"]] * 3
    # How near rates and percentiles are is the benchmark's to say. On any machine, no event takes longer inside than
    # outside (a bucket of the histogram is a tenth wide), and one of the last hundred waits for nearly a whole tick.
    assert 0.8 * WAIT_MS < told["page_p99_ms"] < 1.1 * told["outside_p99_ms"]
    scraped = requests.get(
        f"http://127.0.0.1:{system.environment['CEP_DRIVER__METRICS__PORT']}/metrics", timeout=5
    ).text
    assert 'cep_driver_topologies{plan="Known",state="running",tenant="-1234"} 1.0' in scraped
    system.client.act("Known", "statistics-level", level="off")
    assert system.client.plan("Known")["status"]["topology"]["statistics"] == "off"
    cluster = requests.get(f"http://127.0.0.1:{system.ports.console}/api/v1/cluster", timeout=5).json()
    assert cluster["metric_tables"]["written_rows"] > 0
    assert cluster["metric_tables"]["problem"] == ""
