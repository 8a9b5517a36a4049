"""The metrics of a real worker, and of one that is made up."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import requests
from prometheus_client.parser import text_string_to_metric_families
from worker_world import EVENT, KEY, PLAN, World, alerts, until

from cep_common.monitoring.metric_families import Metrics
from cep_common.protocol.registry import Connector, InflowReport, OutflowReport, WorkerPlanReport
from cep_common.protocol.worker_reports import OrphanReport, PartitionReport, TransactionReport, WrittenTopicReport
from cep_worker.runtime.prometheus import worker_metrics
from cep_worker.runtime.worker_metrics import ConnectorMetrics, PreparedResultsMetrics, WalMetrics, WorkerMetrics

TWO = alerts((5, "UA", 3), (6, "AA", 4))
Values = dict[str, dict[tuple[str, ...], float]]


def read(text: str) -> Values:
    """Values by the name of the sample and the values of its labels, in order of the labels' names."""
    found: Values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), "told twice"
            found[sample.name][labels] = sample.value
    return found


def scraped(world: World) -> Values:
    answer = requests.get(world.url("/metrics"), timeout=10)
    assert (answer.status_code, answer.headers["Content-Type"].split(";")[0]) == (200, "text/plain")
    return read(answer.text)


def test_a_worker_tells_what_came_in_what_waits_and_what_went_out(world: World, tmp_path: Path) -> None:
    sinks = (
        Connector("Alerts", "file", {"file.uri": f"file:{tmp_path / 'alerts.ndjson'}"}, "", {}),
        Connector("Alerts", "nonsense", {}, "", {}),
    )
    world.start(msgspec.structs.replace(PLAN, sinks=sinks))
    stream = (KEY.plan, "Departures", "-1234")

    def inflow(name: str) -> float:
        return scraped(world).get(name, {}).get(stream, -1)

    assert requests.post(world.url("/events/Departures:1.0.0"), json=[EVENT, EVENT], timeout=10).status_code == 202
    until(lambda: inflow("cep_inflow_waiting_events") == 2)
    assert inflow("cep_inflow_connected") == 0
    receiver = world.connected_receiver()
    until(lambda: inflow("cep_inflow_sent_events_total") == 2, receiver)
    assert (inflow("cep_inflow_waiting_events"), inflow("cep_inflow_connected")) == (0, 1)

    world.publisher().open().send("Alerts", TWO)
    until(lambda: scraped(world)["cep_outflow_received_events_total"][KEY.plan, "Alerts", "-1234"] == 2, receiver)
    told = scraped(world)
    assert told["cep_accepted_events_total"] == {("-1234",): 2}
    assert told["cep_outflow_publishers"] == {(KEY.plan, "-1234"): 1}
    file, nonsense = ((KEY.plan, "Alerts", "-1234", kind) for kind in ("file", "nonsense"))
    assert told["cep_sinks"] == {file: 1, nonsense: 1}
    assert told["cep_sinks_failing"] == {file: 0, nonsense: 1}
    assert told["cep_sink_dropped_events_total"] == {file: 0, nonsense: 0}
    assert told["process_resident_memory_bytes"][()] > 1_000_000


def connector(direction: str, stream: str = "Alerts", failing: bool = False, dropped: int = 0) -> ConnectorMetrics:
    error = "it does not answer" if failing else ""
    partitions = (PartitionReport("t", 0, 5, 4, 9),) if direction == "source" else ()
    written = (WrittenTopicReport("out", 7),) if direction == "sink" else ()
    return ConnectorMetrics(
        direction="source" if direction == "source" else "sink",
        type="http",
        tenant=-1234,
        plan="Plan",
        stream=stream,
        error=error,
        waiting_events=3,
        dropped_events=dropped,
        partitions=partitions,
        written=written,
        transactions=TransactionReport(3, 1, 12) if direction == "sink" else None,
    )


def test_connectors_of_one_type_on_one_stream_are_told_together() -> None:
    connectors = (connector("sink", failing=True, dropped=5), connector("sink", dropped=1), connector("source"))
    metrics = WorkerMetrics((), (), (), connectors, (), leaving=True)
    text, _ = Metrics(lambda: worker_metrics(metrics)).scrape("")
    told = read(text.decode())
    place = ("Plan", "Alerts", "-1234", "http")
    assert told["cep_sinks"] == {place: 2}
    assert told["cep_sinks_failing"] == {place: 1}
    assert told["cep_sink_dropped_events_total"] == {place: 6}
    assert told["cep_sink_waiting_events"] == {place: 6}
    assert told["cep_sources"] == {place: 1}
    assert told["cep_kafka_sink_messages_total"] == {("Plan", "Alerts", "-1234", "out"): 14}
    outcomes = {("committed", "Plan", "Alerts", "-1234"): 6, ("aborted", "Plan", "Alerts", "-1234"): 2}
    assert told["cep_kafka_sink_transactions_total"] == outcomes
    assert told["cep_kafka_source_lag"] == {("0", "Plan", "Alerts", "-1234", "t"): 4}
    assert told["cep_stopping"] == {(): 1}


def test_names_and_labels_follow_prometheus_and_are_not_those_of_the_manager() -> None:
    report = WorkerPlanReport(KEY, 1, (InflowReport("In", connected=True),), (OutflowReport("Out"),), ("p#0",))
    prepared = ((KEY, PreparedResultsMetrics(5, 1_000, 1_500)),)
    write_ahead_logs = ((KEY, WalMetrics("In", 1_000, 0, full=True)),)
    connectors = (connector("sink"), connector("source"))
    orphans = (OrphanReport("4f2a", "log", -1234, "Gone", 12, 1_000, 2_000, "In"),)
    taken = ((-1234, 1),)
    metrics = WorkerMetrics(
        (report,), write_ahead_logs, prepared, connectors, taken, leaving=False, kept=((KEY, 3),), orphans=orphans
    )
    for family in worker_metrics(metrics):
        assert family.documentation
        assert re.fullmatch(r"cep_(?!worker_)[a-z]+(_[a-z]+)*", family.name), family.name
        assert family.samples, family.name
        assert not {label for one in family.samples for label in one.labels} & {"instance", "job"}
