"""The manager's metrics: every family with its values, names by Prometheus' conventions, bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
import pytest
from flask import Flask
from manager_world import COMPILED, KEY, FakeView, World, counts, plan, task
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from storm_world import running_view

from cep_common.protocol.tasks import ComponentReport
from cep_manager.errors import ManagerUnavailableError
from cep_manager.monitoring.metric_tables.writer import MetricTablesView
from cep_manager.plans.compiled_plan import PlannedComponent
from cep_manager.web.app import create_app
from cep_manager.web.metrics import stages
from cep_manager.web.metrics.blueprint import metrics_blueprint

UNITS = ("seconds", "bytes", "events", "rows", "ratio", "info")
COUNTED = (
    *("connections", "required", "tasks", "slots", "free", "plans", "epoch"),
    *("state", "level", "up", "out", "bundles", "errors", "restarts", "requests"),
)


def text_of(view: FakeView) -> str:
    app = Flask("metrics")
    app.register_blueprint(metrics_blueprint(view))
    answer = app.test_client().get("/metrics")
    assert answer.status_code == 200
    return answer.text


def families_of(view: FakeView) -> dict[str, Metric]:
    found = [family for family in text_string_to_metric_families(text_of(view)) if family.name.startswith("cep_")]
    assert len({family.name for family in found}) == len(found)
    return {family.name: family for family in found}


def values(family: Metric, **labels: str) -> list[float]:
    return [one.value for one in family.samples if labels.items() <= one.labels.items()]


@pytest.fixture(scope="module")
def families() -> dict[str, Metric]:
    return families_of(running_view())


def test_the_newest_checkpoint_is_told_with_what_it_cost(families: dict[str, Metric]) -> None:
    names = ("duration_seconds", "alignment_seconds", "size_bytes", "stored_bytes", "errors")
    told = [values(families[f"cep_plan_checkpoint_{name}"], plan="Storms") for name in names]
    assert told == [[0.25], [0.01], [20_000], [1_500], [2]]


def test_what_stages_did_is_told_by_stream_and_by_instance(families: dict[str, Metric]) -> None:
    assert values(families["cep_component_received_events"], component="lateness", stream="Departures") == [120_000]
    assert values(families["cep_component_emitted_events"], component="lateness", stream="Late") == [13_200]
    one = {"stage_instance": "lateness#0"}
    assert values(families["cep_instance_received_events"], **one) == [60_000]
    assert values(families["cep_instance_busy_seconds"], **one) == [144]
    assert values(families["cep_instance_capacity_ratio"], **one) == [0.12]
    assert values(families["cep_instance_dropped_events"], **one) == [120]
    storms = {"stage_instance": "storms#0", "plan": "Storms", "tenant": "-1234", "kind": "processor"}
    assert values(families["cep_instance_errors"], **storms) == [2]
    assert values(families["cep_instance_queued_events"], **storms) == [12]
    assert values(families["cep_instance_state_bytes"], **storms) == [4_196]


def test_the_latency_of_events_is_a_histogram(families: dict[str, Metric]) -> None:
    buckets = families["cep_receiver_latency_seconds"].samples
    bounds = {one.labels["le"]: one.value for one in buckets if one.name.endswith("_bucket")}
    assert list(bounds.values()) == sorted(bounds.values())
    assert (bounds["0.001024"], bounds["0.002048"], bounds["+Inf"]) == (0, 178_200, 180_000)
    assert bounds["0.065536"] == 180_000
    assert [one.value for one in buckets if one.name.endswith("_count")] == [180_000]
    assert [one.value for one in buckets if one.name.endswith("_sum")] == [540]


def test_exactly_one_state_of_a_plan_is_told(families: dict[str, Metric]) -> None:
    states = {one.labels["state"]: one.value for one in families["cep_plan_state"].samples}
    assert sum(states.values()) == states["active"] == 1
    assert values(families["cep_plan_tasks"]) == values(families["cep_plan_tasks_required"]) == [1]
    assert values(families["cep_plan_inflow_connections"]) == [2]


def test_the_level_of_statistics_and_the_metric_tables_are_told() -> None:
    view = running_view()
    view.tables = MetricTablesView("sqlite:///metrics.db", 15_000, 60_000, 100, 7, problem="it is locked")
    families = families_of(view)
    levels = {one.labels["level"]: one.value for one in families["cep_plan_statistics_level"].samples}
    assert levels == {"off": 0, "basic": 1, "detail": 0}
    told = [values(families[f"cep_metric_tables_{name}"]) for name in ("up", "rows", "dropped_rows")]
    assert told == [[0], [100], [7]]


def test_the_cluster_is_told(families: dict[str, Metric]) -> None:
    assert (values(families["cep_slots"]), values(families["cep_slots_free"])) == ([4], [3])
    assert values(families["cep_executor_slots"], host="10.0.0.2") == [2]
    assert values(families["cep_worker_inflow_events"], worker="worker-1", stream="Departures") == [120_000]
    assert values(families["cep_worker_inflow_waiting_events"], stream="Departures") == [3]
    assert values(families["cep_worker_outflow_events"], stream="KnockOns") == [12_000]
    assert values(families["cep_task_memory_bytes"], task="0") == [209_715_200]


def test_who_falls_silent_is_told_with_a_growing_age() -> None:
    view = running_view()
    view.world.tick(after_ms=9_000)
    families = families_of(view)
    assert values(families["cep_driver_up"]) == [0]
    assert values(families["cep_driver_heartbeat_age_seconds"]) == [9]
    assert values(families["cep_worker_heartbeat_age_seconds"], worker="worker-1") == [9]
    assert values(families["cep_task_heartbeat_age_seconds"]) == [9]
    assert values(families["cep_instance_received_events"], stage_instance="lateness#0") == [60_000]
    assert values(families["cep_instance_queued_events"]) == []


def test_counters_do_not_fall_when_a_task_is_started_again() -> None:
    view = running_view()
    before = values(families_of(view)["cep_instance_received_events"], stage_instance="lateness#0")
    view.world.hear(msgspec.structs.replace(task(events=20), process_id=7))
    assert values(families_of(view)["cep_instance_received_events"], stage_instance="lateness#0") == [before[0] + 10]


def _labels(families: Iterable[Metric]) -> set[str]:
    return {label for family in families for one in family.samples for label in one.labels}


def test_names_follow_prometheus(families: dict[str, Metric]) -> None:
    for name, family in families.items():
        assert re.fullmatch(r"cep_[a-z]+(_[a-z]+)*", name), name
        assert family.documentation
        assert name.rpartition("_")[2] in (*UNITS, *COUNTED), name
        assert not name.endswith("_total")  # the parser takes it off counters; nothing else may bear it
    # `instance` and `job` are Prometheus' own: it would rename ours.
    assert not _labels(families.values()) & {"instance", "job", "exported_instance"}


def test_a_name_that_a_user_chose_cannot_break_the_format() -> None:
    world = World()
    name = 'a"b\\c\nd'
    world.put(plan(key=msgspec.structs.replace(KEY, plan=name)))
    assert values(families_of(FakeView(world))["cep_plan_tasks"], plan=name) == [0]


def test_instances_beyond_a_bound_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST_INSTANCES", 5)
    families = families_of(running_view())
    assert len(values(families["cep_instance_received_events"])) == 5
    assert values(families["cep_instances_left_out"]) == [1]


def test_a_stream_of_which_nothing_has_come_is_told_with_zero() -> None:
    world = World()
    world.put(plan())
    families = families_of(FakeView(world))
    assert values(families["cep_component_received_events"], component="storms", stream="Late") == [0]
    assert values(families["cep_component_emitted_events"], component="storms", stream="AirportStorms") == [0]


def test_streams_and_instances_of_a_stage_are_not_multiplied() -> None:
    streams = tuple(f"s{number}" for number in range(50))
    wide = PlannedComponent("wide", "processor", 40, streams, ())
    world = World()
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, components=(wide,))))
    received = counts(**dict.fromkeys(streams, 1))
    parts = tuple(ComponentReport(f"wide#{number}", "wide", "processor", (), received) for number in range(40))
    world.hear(msgspec.structs.replace(task(), components=parts))
    families = families_of(FakeView(world))
    assert len(families["cep_component_received_events"].samples) == 50
    assert len(families["cep_instance_received_events"].samples) == 40
    assert sum(len(family.samples) for family in families.values()) < 700


def test_the_format_that_is_asked_for_is_given() -> None:
    app = create_app(running_view(), 1_000)
    client = app.test_client()
    assert client.get("/metrics").content_type.startswith("text/plain")
    newer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert newer.content_type.startswith("application/openmetrics-text")
    assert newer.text.endswith("# EOF\n")


def test_a_manager_that_cannot_tell_says_so() -> None:
    view = FakeView(World())
    view.failure = ManagerUnavailableError("the control loop does not run")
    assert create_app(view, 1_000).test_client().get("/metrics").status_code == 503
