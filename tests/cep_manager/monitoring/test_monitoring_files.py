"""`conf/monitoring`: what alerts and dashboard ask Prometheus for is what the processes tell, under the same labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from manager_world import KEY
from prometheus_client.parser import text_string_to_metric_families
from storm_world import running_view

from cep_common.monitoring.metric_families import Metrics
from cep_common.protocol.drivers import TopologyReport
from cep_common.protocol.registry import InflowReport, OutflowReport, WorkerPlanReport
from cep_common.protocol.worker_reports import PartitionReport
from cep_manager.control.members import LOST_SHOWN_MS
from cep_manager.web.app import create_app as manager_app
from cep_worker.runtime.prometheus import worker_metrics
from cep_worker.runtime.worker_metrics import ConnectorMetrics, PreparedResultsMetrics, WalMetrics, WorkerMetrics
from tools.write_dashboard import TARGET, text
from topology.checkpoint.coordination.runs import HISTORY
from topology.spark.driver_side.config import DriverConfig
from topology.spark.driver_side.metrics import DriverMetrics, driver_metrics

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "conf" / "monitoring"
OF_PROMETHEUS = {"up": {"job", "instance"}}
"""What Prometheus tells itself of each process that it scrapes."""
TARGET_LABELS = {"job", "instance"}
WORDS = {"by", "on", "or", "and", "unless", "without", "ignoring", "bool", "offset", "group_left", "group_right"}
NAME = re.compile(r"(?<![\w$.])[a-z_][a-z0-9_]*(?!\w|\s*\()")


DRIVER = DriverMetrics(4, 1, 2, registered=True, topologies=(TopologyReport(KEY, 1, "running"),))
WORKER = WorkerMetrics(
    plans=(WorkerPlanReport(KEY, 1, (InflowReport("In", connected=True),), (OutflowReport("Out"),), ("p#0",)),),
    write_ahead_logs=((KEY, WalMetrics("In", 1_000, 0, full=True)),),
    prepared=((KEY, PreparedResultsMetrics(5, 1_000, 1_500)),),
    connectors=(
        ConnectorMetrics(
            "source", "kafka", KEY.tenant, "Storms", "In", "", 0, 0, partitions=(PartitionReport("t", 0, 5, 5, 9),)
        ),
        ConnectorMetrics("sink", "http", KEY.tenant, "Storms", "Out", "", 3, 1),
    ),
    taken=((KEY.tenant, 1),),
    leaving=False,
)


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """The samples that manager, driver and worker give out, with their labels."""
    told = (
        manager_app(running_view(), 1_000).test_client().get("/metrics").text,
        Metrics(lambda: driver_metrics(DRIVER)).scrape("")[0].decode(),
        Metrics(lambda: worker_metrics(WORKER)).scrape("")[0].decode(),
    )
    found = dict(OF_PROMETHEUS)
    for one in told:
        for family in text_string_to_metric_families(one):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels, TARGET_LABELS)
    return found


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alert(name: str) -> dict[str, Any]:
    (found,) = (rule for rule in alerts() if rule["alert"] == name)
    return found


def seconds(length: str) -> int:
    return int(length[:-1]) * {"s": 1, "m": 60, "h": 3_600}[length[-1]]


def interval_s(name: str) -> int:
    return seconds(yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))["global"][name])


def looks_back_s(rule: dict[str, Any]) -> int:
    """How old the newest sample may be that the rule looks at."""
    found = re.search(r"_over_time\(\w+\[(\w+)\]\)", rule["expr"])
    return seconds(found[1]) if found else 0


def threshold_s(rule: dict[str, Any]) -> int:
    return int(re.findall(r" > (\d+)", rule["expr"])[0])


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TARGET.read_text(encoding="utf-8"))
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts())
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in dashboard()["templating"]["list"]:
        yield from re.findall(r"label_values\((.*), \w+\)", variable["query"])


def names(expression: str) -> set[str]:
    """The metrics that an expression names: what is left of it without texts, ranges, labels, functions, numbers."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|on|without|ignoring)\s*\([^)]*\)", "", bare)
    return set(NAME.findall(bare)) - WORDS


def matched(expression: str) -> set[str]:
    """The labels that an expression looks at."""
    bare = re.sub(r'"[^"]*"', "", expression)
    matchers = [label for part in re.findall(r"\{([^}]*)\}", bare) for label in re.findall(r"(\w+)\s*[=!]", part)]
    grouped = [label for part in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", bare) for label in re.findall(r"\w+", part)]
    return {*matchers, *grouped}


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_and_label_that_is_asked_for_is_told(expression: str, exposed: dict[str, set[str]]) -> None:
    assert names(expression)
    assert names(expression) - exposed.keys() == set()
    labels = set.union(*(exposed[name] for name in names(expression)))
    assert matched(expression) - labels == set()


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_every_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any], exposed: dict[str, set[str]]) -> None:
    annotations = rule["annotations"]
    assert {"summary", "description", "runbook_url"} == annotations.keys()
    assert rule["labels"]["severity"] in ("critical", "warning")
    document, _, anchor = annotations["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / document).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert anchor in {heading.lower() for heading in headings}
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(annotations.values())))
    labels = set.union(*(exposed[name] for name in names(rule["expr"])))
    grouped = re.search(r"\bby \(([^)]*)\)", rule["expr"])
    assert used <= (set(re.findall(r"\w+", grouped[1])) if grouped else labels)


def test_every_alert_has_a_name_of_its_own() -> None:
    known = [rule["alert"] for rule in alerts()]
    assert len(known) == len(set(known)) > 20


def test_a_worker_that_is_lost_is_seen_before_the_managers_forget_it() -> None:
    """And the alert that waits for it afterwards still finds it."""
    rule = alert("CepWorkerSilent")
    silent_s, looked_back_s = threshold_s(rule), looks_back_s(rule)
    assert silent_s + 2 * interval_s("scrape_interval") <= LOST_SHOWN_MS / 1_000
    assert seconds(rule["for"]) + interval_s("evaluation_interval") < looked_back_s
    assert seconds(rule["for"]) + silent_s + 2 * interval_s("scrape_interval") < looked_back_s


def test_the_newest_checkpoint_is_missed_though_all_that_are_told_of_have_failed() -> None:
    rule = alert("CepCheckpointOld")
    told_s = HISTORY * DriverConfig().checkpoint.interval_ms / 1_000
    assert threshold_s(rule) > told_s, "without looking back, no age is told any more"
    assert looks_back_s(rule) > threshold_s(rule) + seconds(rule["for"]) + 2 * interval_s("scrape_interval")


def test_plans_that_need_more_slots_than_are_free_are_told_of() -> None:
    assert "cep_slots_free" not in alert("CepNoFreeSlots")["expr"]


def test_the_dashboard_is_what_its_script_writes() -> None:
    assert TARGET.read_text(encoding="utf-8") == text()


def test_panels_have_numbers_of_their_own_and_lie_beside_each_other() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        columns, lines = (range(place[at], place[at] + place[size]) for at, size in (("x", "w"), ("y", "h")))
        cells = {(x, y) for x in columns for y in lines}
        assert max(x for x, _ in cells) < 24
        assert not taken & cells
        taken |= cells


def test_prometheus_scrapes_the_processes_at_their_ports() -> None:
    sample = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in sample["scrape_configs"]}
    ports = {"cep-manager": 9080, "cep-driver": 9081, "cep-worker": 8006}
    assert jobs == {job: [f"127.0.0.1:{port}"] for job, port in ports.items()}
    assert sample["rule_files"] == ["alerts.yaml"]
