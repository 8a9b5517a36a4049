"""The child apps of a plan: what each instance of an execution group runs, where, and how fast. Pure.

A plan is one app to its author, and as many engines as its groups have instances. Each engine runs a separate SiddhiQL
app, named as in WSO2 SP: `<plan>-<group>-<number>`, numbers from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from cep_common.ids import instance_name
from cep_common.protocol.registry import Connector
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.graph.model import GraphNode
from cep_manager.graph.stages import stage_instances, stage_node
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.record import PlanRecord
from query_plan.connectors.distribution import destinations_of
from query_plan.model import instance_stage, stage_app
from query_plan.secrets import mask_in
from query_plan.xml import read_xml
from siddhi.language.printer import print_app

MOST_TEXT = 2_000_000
"""Maximum number of characters of SiddhiQL in the answer for a plan; the texts of further instances are left out."""
_TOPICS = {"source": "topic.list", "sink": "topic"}


class ChildApp(msgspec.Struct, frozen=True):
    """An instance of an execution group, as a separate app.

    `name` is that of the app, `instance` that of the stage's instance. `state` is `expected` until a task runs it, then
    `live` or `silent`; `host`, `task` (-1: none) and `process_id` say where. `text` is the SiddhiQL that its engine
    runs, with secrets masked (empty if the limit of all texts is exceeded). `topics_read` are topics of Kafka whose
    messages become events of its `inputs`, `topics_written` those to which sinks write its `outputs`. Rates are events
    per second over the last seconds.
    """

    parent: str
    name: str
    group: str
    instance: str
    state: Literal["expected", "live", "silent"]
    host: str
    task: int
    process_id: int
    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    topics_read: tuple[str, ...]
    topics_written: tuple[str, ...]
    received_per_second: float
    emitted_per_second: float


def child_apps(snapshot: ClusterSnapshot, record: PlanRecord, *, texts: bool = True) -> tuple[ChildApp, ...]:
    """Return the child apps of a plan in order of flow; none for a plan whose text no longer compiles.

    Without `texts` their texts are empty, and no query plan is read.
    """
    compiled = record.compiled
    if compiled is None:
        return ()
    nodes = {one.id: stage_node(one, 0, snapshot.now_ms) for one in stage_instances(snapshot, record.key, compiled)}
    written = _texts(record, compiled) if texts else None
    return tuple(_apps(record, compiled, nodes, written))


def _apps(
    record: PlanRecord, compiled: CompiledPlan, nodes: dict[str, GraphNode], texts: Iterator[str] | None
) -> Iterator[ChildApp]:
    for stage in compiled.components:
        for index in range(stage.parallel if stage.kind == "processor" else 0):
            node = nodes[instance_name(stage.name, index)]
            yield ChildApp(
                parent=record.key.plan,
                name="-".join((compiled.name, *((stage.name,) if stage.name != compiled.name else ()), str(index + 1))),
                group=stage.name,
                instance=node.id,
                state=node.state,  # type: ignore[arg-type]
                host=node.host,
                task=node.task,
                process_id=node.process_id,
                text=next(texts, "") if texts is not None else "",
                inputs=stage.inputs,
                outputs=stage.outputs,
                topics_read=_topics(compiled.sources, "source", stage.inputs),
                topics_written=_topics(compiled.sinks, "sink", stage.outputs),
                received_per_second=node.received_per_second,
                emitted_per_second=node.emitted_per_second,
            )


def _texts(record: PlanRecord, compiled: CompiledPlan) -> Iterator[str]:
    """Yield the text of each instance, in the order of the query plan's stages, which is that of the components."""
    plan = read_xml(compiled.query_plan)
    left = MOST_TEXT
    for stage in plan.processors:
        text = mask_in(print_app(stage_app(plan, stage)), record.text)
        for index in range(stage.parallel):
            if stage.labels and left > 0:  # each instance has ranges of its own
                text = mask_in(print_app(stage_app(plan, instance_stage(stage, index))), record.text)
            left -= len(text)
            yield text if left >= 0 else ""


def _topics(
    connectors: Iterable[Connector], kind: Literal["source", "sink"], streams: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the topics of the connectors of type kafka on these streams."""
    here = (one for one in connectors if one.type == "kafka" and one.stream in streams)
    found = (each.options.get(_TOPICS[kind], "") for one in here for each in destinations_of(one))
    return tuple(dict.fromkeys(topic.strip() for text in found for topic in text.split(",") if topic.strip()))
