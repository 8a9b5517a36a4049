"""Runs a plan on one engine and as a topology of a running system, with the same events, to compare the answers.

Event time drives all of it, and what is sent is in event-time order, so that there is one right answer.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from query_plan.examination import Compiled, examine
from siddhi.column_names import KIND, TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiError
from siddhi.language import ast
from siddhi.language.parser import parse
from siddhi.language.printer import print_app
from siddhi.testing import Case, record_batch
from topology.events.frames import CURRENT
from topology.links.event_listener import EventListener

logger = logging.getLogger(__name__)

DEPLOY_TIMEOUT_S = 180.0
RESULT_TIMEOUT_MS = 20_000
SURPLUS_MS = 100
"""How long results are waited for that should not come."""
BATCH_ROWS = 500
DIFFERS_BY_DESIGN = ("chunk-counted-singly",)
"""Warnings of the planner that say that several groups answer otherwise than one engine."""

NO_KEYS: Mapping[str, str | None] = {}

Event = Mapping[str, Any]
Row = tuple[Any, ...]
Answers = dict[str, list[Row]]
"""For each exported stream its rows: time, then the attributes."""


@dataclass(frozen=True)
class DistributedPlan:
    """A plan in event time, the same as text for one engine, and events `{stream, timestamp, data}` in any order."""

    name: str
    text: str
    events: tuple[Event, ...]

    @cached_property
    def compiled(self) -> Compiled:
        found = examine(self.text)
        assert found.compiled is not None, f"{self.name} is refused: {[one.problem for one in found.findings]}"
        return found.compiled

    @property
    def exported(self) -> list[str]:
        return [stream.id for stream in self.compiled.plan.publisher.streams]

    @property
    def imported(self) -> list[str]:
        return [stream.id for stream in self.compiled.plan.receiver.streams]

    @cached_property
    def in_order(self) -> list[Event]:
        """The events by time, those of one time by the definition of their streams."""
        rank = {stream: place for place, stream in enumerate(self.imported)}
        events = [event for event in self.events if event["stream"] in rank]
        return sorted(events, key=lambda event: (event["timestamp"], rank[event["stream"]]))

    def batches(self, stream: str) -> list[pa.RecordBatch]:
        """The stream's events in order of time, as the engine takes them."""
        schema = self.compiled.app.streams[stream].schema
        own = [event for event in self.in_order if event["stream"] == stream]
        return [record_batch(schema, own[start : start + BATCH_ROWS]) for start in range(0, len(own), BATCH_ROWS)]


def in_parallel(case: Case, parallel: int = 2) -> DistributedPlan | None:
    """The case's app in `parallel` tasks, with as many instances of whatever the planner lets run in parallel.

    None when that is nothing, when the app cannot be spread at all, or is known to answer otherwise then.
    """
    if "error" in case.document or any("query" in event for event in case.document["events"]):
        return None
    try:
        app = parse(case.app)
    except SiddhiError:
        return None
    header = [one for one in app.annotations if one.name.casefold() not in ("name", "dist")]
    named = ast.Annotation("name", (ast.AnnotationElement(None, f"Case_{case.id}"),), namespace="app")
    workers = ast.Annotation("dist", (ast.AnnotationElement("workers", str(parallel)),), namespace="app")
    app = replace(app, annotations=(named, workers, *header))
    spread = app
    for place in range(len(app.elements)):
        elements = list(spread.elements)
        elements[place] = _with_parallel(elements[place], parallel)
        tried = replace(spread, elements=tuple(elements))
        if _is_accepted(tried):
            spread = tried
    if spread is app:
        return None
    events: list[Event] = []
    for event in case.document["events"]:
        events += [{"stream": event["stream"], **one} for one in event.get("batch", ())]
        events += [event] if "data" in event else []
    plan = DistributedPlan(case.id, print_app(spread), tuple(events))
    if len(plan.compiled.plan.processors) > 1:
        # Several groups take events of one time in the order of their own inputs, which is not that of one engine.
        one_at_a_time = {event["timestamp"]: event for event in reversed(plan.in_order)}
        plan = replace(plan, events=tuple(one_at_a_time.values()))
    by_event_time = plan.compiled.plan.playback is not None and not plan.compiled.plan.triggers
    return plan if by_event_time and plan.in_order and plan.exported else None


def _with_parallel(element: ast.ExecutionElement, parallel: int) -> ast.ExecutionElement:
    spread = ast.Annotation("dist", (ast.AnnotationElement("parallel", str(parallel)),))
    return replace(element, annotations=(*element.annotations, spread))


def _is_accepted(app: ast.App) -> bool:
    found = examine(print_app(app))
    by_design = any(one.problem.code in DIFFERS_BY_DESIGN for one in found.findings)
    return found.compiled is not None and not by_design


def on_one_engine(plan: DistributedPlan) -> Answers:
    """What the plan's queries give when a single engine runs them all."""
    runtime = AppRuntime(plan.compiled.app)
    answers: Answers = {stream: [] for stream in plan.exported}
    for stream, rows in answers.items():
        runtime.add_stream_callback(stream, lambda batch, rows=rows: rows.extend(rows_of(batch)))
    runtime.start(0)
    streams = [stream for stream in plan.imported if plan.batches(stream)]
    sources = np.array([streams.index(event["stream"]) for event in plan.in_order], dtype=np.int64)
    whole = [(stream, pa.concat_batches(plan.batches(stream))) for stream in streams]
    runtime.send_merged(whole, sources)
    runtime.advance_time(plan.in_order[-1]["timestamp"])
    return answers


def on_a_cluster(
    plan: DistributedPlan, system: LocalSystem, expected: Answers, look: Callable[[], None] = lambda: None
) -> Answers:
    """What the plan gives as a topology, until there are as many rows as expected and no more come; undeployed then.

    `look` is called while the topology still runs.
    """
    name = plan.compiled.plan.name
    system.client.deploy(plan.text, replace=False)
    try:
        wait_until_connected(system.client, name, DEPLOY_TIMEOUT_S)
        answers = _exchange(plan, system, expected)
        look()
        return answers
    finally:
        system.client.undeploy(name, discard=True)


def _exchange(plan: DistributedPlan, system: LocalSystem, expected: Answers) -> Answers:
    name = plan.compiled.plan.name
    answers: Answers = {stream: [] for stream in plan.exported}
    with ExitStack() as opened:
        listeners = {
            stream: opened.enter_context(EventListener(system.egress, f"{name}/{stream}")) for stream in answers
        }
        for stream in plan.imported:
            _send(plan, system, stream)
        for stream, rows in answers.items():
            while len(rows) < len(expected[stream]):
                came = listeners[stream].receive(RESULT_TIMEOUT_MS)
                if came is None:
                    status = system.client.plan(name)["status"]["topology"]
                    logger.warning("nothing came of %s, the topology waits for %s", stream, status["waits_for"])
                    break
                rows.extend(rows_of(came))
        for stream, rows in answers.items():
            for surplus in listeners[stream].batches(SURPLUS_MS):
                rows.extend(rows_of(surplus))
    return answers


def _send(plan: DistributedPlan, system: LocalSystem, stream: str) -> None:
    """All events of `stream` are with the worker, and nothing before the plan's last event can come any more."""
    last_ms, batches = plan.in_order[-1]["timestamp"], plan.batches(stream)
    schema = fetch_schema(system.worker_http, f"{plan.compiled.plan.name}/{stream}")
    with EventSender(system.ingress, schema, stream) as sender:
        for place, batch in enumerate(batches, 1):
            watermark_ms = last_ms if place == len(batches) else batch.column(TIMESTAMP)[-1].as_py()
            sender.send(_with_kind(batch, sender.arrow_schema), watermark_ms)
        sender.mark_idle()


def _with_kind(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    kinds = pa.array(np.full(batch.num_rows, CURRENT, dtype=np.int8))
    columns = [kinds if name == KIND else batch.column(name) for name in schema.names]
    return pa.record_batch(columns, schema=schema)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    columns = [batch.column(name).to_pylist() for name in batch.schema.names if name != KIND]
    return list(zip(*columns, strict=True))


def differences(
    plan: DistributedPlan, expected: Answers, found: Answers, keys: Mapping[str, str | None] = NO_KEYS
) -> list[str]:
    """What is wrong with the found rows: as multisets, and in their order for each value of the stream's attribute in
    `keys`."""
    wrong = []
    for stream, rows in expected.items():
        key = keys.get(stream)
        missing, surplus = Counter(map(repr, rows)), Counter(map(repr, found[stream]))
        if missing != surplus:
            gone, more = list((missing - surplus).elements()), list((surplus - missing).elements())
            counts = f"{len(gone)} of {len(rows)} missing, {len(more)} surplus"
            wrong.append(f"{stream}: {counts}: missing {gone[:5]} … {gone[-2:]}, surplus {more[:5]}")
        elif key is not None:
            place = 1 + plan.compiled.app.streams[stream].schema.names().index(key)
            if _by_value(rows, place) != _by_value(found[stream], place):
                wrong.append(f"{stream}: the rows of one {key} come in another order")
    return wrong


def _by_value(rows: Sequence[Row], place: int) -> dict[Any, list[Row]]:
    values: dict[Any, list[Row]] = {}
    for row in rows:
        values.setdefault(row[place], []).append(row)
    return values


def candidates(cases: Sequence[Case]) -> list[DistributedPlan]:
    """The cases that the planner takes with parallelism, as plans."""
    return [plan for plan in map(in_parallel, cases) if plan is not None]
