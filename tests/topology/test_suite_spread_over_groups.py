"""Cases of the conformance suite with every query in a group of its own, stateless ones and partitions in two
instances: the topology gives what one engine gives. `CEP_SPREAD_CASES=all` takes every case instead of a few."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from in_process_topology import InProcessTopology, Row, rows
from recorded_cases import recorded_cases

from query_plan.components.members import Member, members
from query_plan.examination import Compiled, examine
from siddhi.analysis.analyser import analyse
from siddhi.column_names import KIND
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language import ast
from siddhi.language.parser import parse
from siddhi.language.printer import print_app
from siddhi.testing import Case, record_batch
from topology.events.frames import CURRENT
from topology.stages.settings import StageSettings

SHARE = 1 if os.environ.get("CEP_SPREAD_CASES") == "all" else 180
SETTINGS = StageSettings()
LEFT_OUT = {
    "function.cast.object": "an event that fails in one query is not lost to the queries of other groups",
    "lenient.unexpected-char-statement": "the language refuses it",
    "app.card-fraud.run-01": "a chunk is counted event by event, of which the plan is warned, with effects behind",
    "app.card-fraud.run-02": "a chunk is counted event by event, of which the plan is warned, with effects behind",
    "app.intrusion.run-02": "two queries answer events of one time; which is first behind both is told by the plan",
}


def spread(case: Case, *, playback: bool) -> str:
    """The case's plan with `@dist` on every element, with or without `@app:playback`."""
    app = parse(case.app)
    elements = [
        _distributed(element, member, f"group{place}")
        for place, (element, member) in enumerate(zip(app.elements, members(analyse(app)), strict=False))
    ]
    left_out = ("name",) if playback else ("name", "playback")
    kept = [one for one in app.annotations if one.name.casefold() not in left_out]
    namespace = kept[0].namespace if kept else "app"
    name = ast.Annotation("name", (ast.AnnotationElement(None, "Spread"),), namespace=namespace)
    return print_app(replace(app, annotations=(name, *kept), elements=tuple(elements)))


def _distributed(element: ast.ExecutionElement, member: Member, group: str) -> ast.ExecutionElement:
    alone = isinstance(element, ast.Query) and (member.keeps is not None or member.state)
    says = [ast.AnnotationElement("parallel", "1" if alone else "2")]
    if not member.state and not member.private:
        says.append(ast.AnnotationElement("execGroup", group))
    return replace(element, annotations=(*element.annotations, ast.Annotation("dist", tuple(says))))


def events_of(case: Case, compiled: Compiled) -> list[Mapping[str, Any]] | None:
    """The case's events by time, those of one time in the order in which stages take them; None when the plan takes in
    only some of them, or when they are more than events."""
    events = case.document["events"]
    imported = [stream.id for stream in compiled.plan.receiver.streams]
    if not all("advance_time" in event or ("data" in event and event["stream"] in imported) for event in events):
        return None
    return sorted(events, key=lambda event: (_time(event), imported.index(event["stream"]) if "data" in event else 99))


def _time(event: Mapping[str, Any]) -> int:
    time_ms: int = event["timestamp"] if "data" in event else event["advance_time"]
    return time_ms


def run(compiled: Compiled, events: list[Mapping[str, Any]], start_ms: int) -> tuple[Counter[Row], Counter[Row]]:
    """What one engine gives out for `events`, and what the topology does."""
    plays_back = compiled.plan.playback is not None
    engine, topology = AppRuntime(compiled.app), InProcessTopology(compiled.xml, SETTINGS)
    alone: list[Row] = []
    for one in compiled.plan.publisher.streams:
        engine.add_stream_callback(one.id, lambda batch, id_=one.id: alone.extend((id_, *row) for row in rows(batch)))
    engine.start(start_ms)
    topology.open(start_ms)
    now_ms = start_ms
    for event in events:
        now_ms = max(now_ms, _time(event))
        if "data" in event:
            _send(event, engine, topology, compiled, None if plays_back else now_ms)
        elif plays_back:
            engine.advance_time(now_ms)
            topology.mark(now_ms)
        else:
            _advance(engine, now_ms)
            topology.advance(now_ms)
    if plays_back:
        topology.finish(now_ms)
        topology.advance(now_ms + SETTINGS.idle_ms)
    return _counted(alone), _counted([(stream, *row) for stream, row in topology.out])


def _send(
    event: Mapping[str, Any], engine: AppRuntime, topology: InProcessTopology, compiled: Compiled, now_ms: int | None
) -> None:
    stream = event["stream"]
    batch = record_batch(compiled.app.streams[stream].schema, [event])
    batch = batch.add_column(1, KIND, pa.array([CURRENT], pa.int8()))
    if now_ms is not None:
        _advance(engine, now_ms)
        topology.advance(now_ms)
    engine.send(stream, batch, now_ms)
    topology.send(stream, batch, _time(event))


def _advance(engine: AppRuntime, now_ms: int) -> None:
    """Everything that was due has happened, each at its own time, as it does by the clock."""
    while (due_ms := engine.next_deadline_ms()) is not None and due_ms < now_ms:
        engine.advance_time(due_ms)
    engine.advance_time(now_ms)


def _counted(found: list[Row]) -> Counter[Row]:
    return Counter(tuple(repr(value) for value in row) for row in found)


@pytest.mark.thorough
@pytest.mark.parametrize("playback", [True, False], ids=["event time", "system clock"])
def test_a_plan_whose_queries_are_all_apart_gives_what_one_engine_gives(playback: bool) -> None:
    compared, differing = 0, []
    cases = [case for case in recorded_cases() if "error" not in case.document and case.id not in LEFT_OUT]
    for case in cases[::SHARE]:
        examined = examine(spread(case, playback=playback))
        events = events_of(case, examined.compiled) if examined.compiled is not None else None
        warnings = {finding.problem.code for finding in examined.findings}
        if examined.compiled is None or events is None or "ways-without-order" in warnings:
            continue
        alone, together = run(examined.compiled, events, int(case.document.get("start_time", 0)))
        compared += 1
        if alone != together and not ("chunk-counted-singly" in warnings and alone <= together):
            differing.append(case.id)
    assert differing == []
    assert compared > len(cases) // SHARE // 2
