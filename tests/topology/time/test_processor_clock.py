"""By which clock the processing stage of a plan goes that lives in the time of its events."""

from __future__ import annotations

import pyarrow as pa
from topology_builders import KEY

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.column_names import KIND, TIMESTAMP
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.events.frames import CURRENT
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.settings import StageSettings

PLAN = """
@Plan:name('P') @Plan:playback @Import('A:1.0.0') define stream A (n long);
@Export('Out:1.0.0') define stream Out (n long);
from A select n output snapshot every 1 sec insert into Out;
"""
FIRST_MS = 1_700_000_000_000


def test_periods_count_from_the_first_event_and_not_from_1970_on() -> None:
    plan = read_xml(write_xml(build(analyse(parse(PLAN)))))
    (stage,) = plan.processors
    emitted: list[Bundle] = []
    processor = Processor(f"{stage.name}#0", Topology(KEY, 1, plan, 1), stage, emitted.append, StageSettings())
    processor.open(FIRST_MS)
    times = [FIRST_MS, FIRST_MS + 2_500]
    for ticket, time in enumerate(times):
        columns = {TIMESTAMP: pa.array([time]), KIND: pa.array([CURRENT], pa.int8()), "n": pa.array([ticket])}
        batch = pa.RecordBatch.from_pydict(columns)
        receiver = "EventReceiver#0"
        brought = Bundle(receiver, receiver, ticket, "c", ("A",), time, idle=False, batches=(("A", batch),))
        processor.on_bundle(brought, FIRST_MS)
    told = [row["n"] for bundle in emitted for _, batch in bundle.batches for row in batch.to_pylist()]
    assert told == [0, 0]
