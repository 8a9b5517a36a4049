"""The processing stage tells how much state its engine holds."""

from __future__ import annotations

import pyarrow as pa
from topology_builders import KEY, open_links

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.settings import StageSettings

PLAN = """
@Plan:name('P') @Import('A:1.0.0') define stream A (name string, number long);
@Export('Out:1.0.0') define stream Out (name string, total long);
@info(name='q') from A#window.length(100) select name, sum(number) as total group by name insert into Out;
"""


def test_a_measured_stage_reports_what_each_query_holds() -> None:
    plan = read_xml(write_xml(build(analyse(parse(PLAN)))))
    (stage,) = plan.processors
    emitted: list[Bundle] = []
    processor = Processor(f"{stage.name}#0", Topology(KEY, 1, plan, 1), stage, emitted.append, StageSettings())
    processor.open(1000)
    open_links(processor, 1000)
    batch = pa.RecordBatch.from_pydict({"name": ["a", "b"] * 100, "number": pa.array(range(200), pa.int64())})
    processor.on_bundle(Bundle("A", "A", 0, "A", ("A",), 1000, idle=True, batches=(("A", batch),)), 1000)
    processor.measure()
    query, strings = processor.statistics.report(processor.name, ()).held
    assert (query.kind, query.name, query.rows, query.groups) == ("query", "q", 100, 2)
    assert query.bytes >= 100 * 24
    assert (strings.kind, strings.rows) == ("strings", 2)


def test_each_querys_work_is_told_at_level_detail_alone() -> None:
    plan = read_xml(write_xml(build(analyse(parse(PLAN)))))
    (stage,) = plan.processors
    processor = Processor(f"{stage.name}#0", Topology(KEY, 1, plan, 1), stage, [].append, StageSettings())
    processor.open(1000)
    open_links(processor, 1000)
    batch = pa.RecordBatch.from_pydict({"name": ["a"] * 10, "number": pa.array(range(10), pa.int64())})
    for ticket, level in enumerate(("basic", "detail", "detail", "basic")):
        processor.statistics.level = level
        processor.follow_level()
        processor.on_bundle(Bundle("A", "A", ticket, "A", ("A",), 1000, idle=True, batches=(("A", batch),)), 1000)
    (query,) = processor.statistics.report(processor.name, ()).queries
    assert (query.query, query.events) == ("q", 20)
    assert sum(events for _, events in query.latencies) == 20
    assert query.busy_us > 0
