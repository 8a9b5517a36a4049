"""The XML query plan is enough: topologies built from it alone answer as one engine does on the plan's own text."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import chdir, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from in_process_topology import InProcessTopology, Row, rows
from made_up_events import START_MS, Event, made_up

from query_plan.examination import examine
from query_plan.model import GroupingKind, QueryPlan
from query_plan.xml import read_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from topology.stages.settings import StageSettings

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/query_plan/golden"
PLANS = sorted(path.stem for path in GOLDEN.glob("*.xml"))
SETTINGS = StageSettings(script={"python": True}, store_urls=True)
FRAMES, MOST_ROWS = 120, 4


def without_idle_time(xml: str) -> str:
    """The query plan, whose event time advances by events alone: what time of day it is, one engine does not know."""
    return re.sub(r' playback(IdleMs|IncrementMs)="\d+"', "", xml)


def text_of(name: str) -> str:
    """The execution plan that the golden query plan was made from."""
    place = GOLDEN / f"{name}.siddhiql"
    return (place if place.exists() else ROOT / f"samples/flights/{name}.siddhiql").read_text(encoding="utf-8")


def by_topology(xml: str, events: list[Event]) -> list[tuple[str, Row]]:
    """What comes of the events; files that the plan names without a folder are in one of this run."""
    with TemporaryDirectory() as folder, chdir(folder), closing(InProcessTopology(xml, SETTINGS)) as running:
        running.open(START_MS)
        now_ms = START_MS
        for now_ms, stream, batch in events:
            running.advance(now_ms)
            running.send(stream, batch, now_ms)
        if running.topology.plan.playback is not None:
            running.finish(now_ms)
        return running.out


def by_one_engine(text: str, plan: QueryPlan, events: list[Event]) -> list[tuple[str, Row]]:
    """What one engine gives out on the streams that the plan exports."""
    engine = AppRuntime(analyse(parse(text), builtin_registry(SETTINGS.scripts)))
    out: list[tuple[str, Row]] = []

    def collect(stream: str, batch: pa.RecordBatch) -> None:
        out.extend((stream, row) for row in rows(batch))

    for stream in plan.publisher.streams:
        engine.add_stream_callback(stream.id, partial(collect, stream.id))
    engine.start(START_MS)
    for now_ms, stream_id, batch in events:
        if plan.playback is None:
            engine.advance_time(now_ms)
        engine.send(stream_id, batch, now_ms)
    return out


def keeps_whole_order(plan: QueryPlan) -> bool:
    """True when no stage shares events out by key and one receiver takes them in: then the output has the order of one
    engine."""
    return plan.receiver.parallel == 1 and all(
        stage.parallel == 1 or {one.grouping.kind for one in stage.inputs} == {GroupingKind.SHUFFLE}
        for stage in plan.processors
    )


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANS)
def test_a_topology_made_from_the_xml_alone_answers_as_one_engine(name: str) -> None:
    xml, text = without_idle_time((GOLDEN / f"{name}.xml").read_text(encoding="utf-8")), text_of(name)
    plan = read_xml(xml)
    last_step_ms = 1_009 if plan.playback is None else 3_600_000  # by event time, what comes last lets the rest out
    events = list(made_up(parse(text), plan.receiver.streams, FRAMES, MOST_ROWS, last_step_ms))
    together, alone = by_topology(xml, events), by_one_engine(text, plan, events)
    codes = {finding.problem.code for finding in examine(text).findings}
    for stream in plan.publisher.streams:
        given = [row for one, row in together if one == stream.id]
        expected = [row for one, row in alone if one == stream.id]
        assert expected, f"these events bring {stream.id} nothing"
        if "chunk-counted-singly" in codes:
            assert Counter(expected) <= Counter(given)
        elif keeps_whole_order(plan):
            assert given == expected
        else:
            assert Counter(given) == Counter(expected)
