"""Read and write the query plan as XML. `docs/query-plan/xml.md` describes the format.

Users see it, and the driver reads it. Reading trusts nothing: the size is bounded, document types and entities are
refused, and nothing is fetched. The schema `query-plan.xsd` checks the structure, the SiddhiQL parser the texts inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TypeVar, cast

from lxml import etree

from query_plan.annotations import DELIVERIES
from query_plan.errors import QueryPlanXmlError
from query_plan.model import (
    Grouping,
    GroupingKind,
    Playback,
    ProcessingStage,
    PublisherStage,
    QueryPlan,
    ReceiverStage,
    Resources,
    StageInput,
    SyncRole,
    TriggerStage,
)
from siddhi.errors import Problem, SiddhiParseError
from siddhi.language import ast
from siddhi.language.literals import name_text, string_text
from siddhi.language.parser import parse, parse_stream_definition
from siddhi.language.print_expressions import print_expression
from siddhi.language.printer import print_annotation, print_definition, print_element

MAXIMUM_CHARACTERS = 8 * 1024 * 1024

_SOME_DEFINITION = "define stream S ( a int ); "
"""Placed before queries, since a text without any definition is not an app."""

SYNC_ROLES: tuple[SyncRole, ...] = ("entry", "log", "replica")
_KEYED = (GroupingKind.FIELDS, GroupingKind.EXPRESSION, GroupingKind.RANGES)

_ROOT_NUMBER = r'(?:<\?[^>]*>\s*)?<query-plan [^>]*?{}="(\d{{1,12}})"'
_CHECKPOINT_INTERVAL = re.compile(_ROOT_NUMBER.format("checkpointIntervalMs"))
_CHECKPOINTS_KEPT = re.compile(_ROOT_NUMBER.format("checkpointsKept"))

_Definition = TypeVar("_Definition", bound=ast.Definition)


# ---- writing --------------------------------------------------------------------------------------------------------


def write_xml(plan: QueryPlan) -> str:
    """Return `plan` as an indented XML document. Raise QueryPlanXmlError for control characters.

    XML cannot hold them.
    """
    try:
        root = _plan_element(plan)
    except ValueError as refused:
        raise QueryPlanXmlError(
            Problem(
                "text-not-xml",
                f"the plan {plan.name} contains a character that XML does not allow",
                "remove control characters from names, strings and scripts",
            )
        ) from refused
    etree.indent(root, "    ")
    return _document(root)


def _document(root: etree._Element) -> str:
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + etree.tostring(root, encoding="unicode") + "\n"


def _plan_element(plan: QueryPlan) -> etree._Element:
    root = etree.Element("query-plan", name=plan.name)
    if plan.description:
        root.set("description", plan.description)
    if plan.dialect_3x:
        root.set("dialect", "3.x")
    if plan.playback is not None:
        root.set("playback", "true")
        if plan.playback.idle_ms is not None and plan.playback.increment_ms is not None:
            root.set("playbackIdleMs", str(plan.playback.idle_ms))
            root.set("playbackIncrementMs", str(plan.playback.increment_ms))
    _set_run_options(root, plan)
    receiver = _child(root, "event-receiver", name=plan.receiver.name, parallel=str(plan.receiver.parallel))
    received = _streams(receiver, "streams", plan.receiver.streams)
    for element, stream in zip(received, plan.receiver.streams, strict=True):
        if stream.id in plan.carried:
            element.set("carriedBy", "kafka")
    for stage in plan.processors:
        _processor_element(root, stage)
    for trigger in plan.triggers:
        element = _child(root, "trigger", name=trigger.name, parallel="1", enforceParallel="true")
        _child(element, "trigger-definition").text = _statement(trigger.definition)
        _child(element, "output-stream").text = stream_text(trigger.stream)
    publisher = _child(root, "event-publisher", name=plan.publisher.name, parallel=str(plan.publisher.parallel))
    _streams(publisher, "input-streams", plan.publisher.streams)
    _streams(publisher, "output-streams", plan.publisher.streams)
    return root


def _set_run_options(root: etree._Element, plan: QueryPlan) -> None:
    """Write the run-time settings of the plan; defaults are left out."""
    resources = plan.resources
    options = {
        "workers": plan.workers,
        "cores": resources.cores if resources.cores > 1 else None,
        "memoryBytes": resources.memory_bytes or None,
        "labels": " ".join(resources.labels) or None,
        "delivery": plan.delivery if plan.delivery != "at-least-once" else None,
        "checkpointIntervalMs": plan.checkpoint_interval_ms,
        "checkpointsKept": plan.checkpoints_kept,
    }
    for name, value in options.items():
        if value is not None:
            root.set(name, str(value))


def _processor_element(root: etree._Element, stage: ProcessingStage) -> None:
    element = _child(
        root,
        "event-processor",
        name=stage.name,
        parallel=str(stage.parallel),
        enforceParallel="true" if stage.enforce_parallel else "false",
    )
    if stage.sync:
        element.set("sync", stage.sync)
    if stage.log:
        element.set("log", stage.log)
    _child(element, "table-definitions").text = _statements(stage.tables)
    kinds: tuple[tuple[str, tuple[ast.Definition, ...]], ...] = (
        ("window", stage.windows),
        ("function", stage.functions),
        ("aggregation", stage.aggregations),
    )
    for kind, definitions in kinds:
        if definitions:
            _child(element, f"{kind}-definitions").text = _statements(definitions)
    inputs = _child(element, "input-streams")
    for one in stage.inputs:
        stream = _child(inputs, "stream", grouping=one.grouping.kind.value)
        key = partition_text(one.grouping)
        if key is not None:
            stream.set("partition", key)
        stream.text = stream_text(one.stream)
    if stage.internal:
        _streams(element, "internal-streams", stage.internal)
    _child(element, "queries").text = "\n\n".join(f"{print_element(one)};" for one in stage.elements)
    _streams(element, "output-streams", stage.outputs)


def read_checkpoint_interval(text: str) -> int | None:
    """Return `checkpoint_interval_ms` of a query plan from `write_xml`, without reading the rest."""
    found = _CHECKPOINT_INTERVAL.match(text)
    return int(found[1]) if found is not None else None


def read_checkpoints_kept(text: str) -> int | None:
    """Return `checkpoints_kept` of a query plan from `write_xml`, without reading the rest."""
    found = _CHECKPOINTS_KEPT.match(text)
    return int(found[1]) if found is not None else None


def with_instances(text: str, instances: Mapping[str, int]) -> str:
    """Return a query plan from `write_xml` with other numbers of instances of these processors."""
    root = etree.fromstring(text.encode(), _parser())
    for element in root.findall("event-processor"):
        number = instances.get(element.get("name", ""))
        if number is not None:
            element.set("parallel", str(number))
    return _document(root)


def partition_text(grouping: Grouping) -> str | None:
    """Return the text of a grouping's key; None when the grouping does not depend on content.

    The text is an attribute's name, or SiddhiQL as in `partition with`.
    """
    key = grouping.partition
    if key is None:
        return grouping.key
    if isinstance(key, ast.ValuePartition):
        return print_expression(key.expression)
    return " or ".join(f"{print_expression(condition)} as {string_text(label)}" for condition, label in key.ranges)


def stream_text(stream: ast.StreamDefinition) -> str:
    """Return `define stream S ( a int, b string );`, as stream definitions are written in a query plan."""
    annotations = "".join(f"{print_annotation(annotation)} " for annotation in stream.annotations)
    attributes = ", ".join(f"{name_text(attribute.name)} {attribute.type.value}" for attribute in stream.attributes)
    return f"{annotations}define stream {name_text(stream.id)} ( {attributes} );"


def _statement(definition: ast.Definition) -> str:
    return f"{print_definition(definition)};"


def _statements(definitions: Iterable[ast.Definition]) -> str | None:
    return "\n".join(_statement(definition) for definition in definitions) or None


def _streams(parent: etree._Element, tag: str, streams: Iterable[ast.StreamDefinition]) -> etree._Element:
    element = _child(parent, tag)
    for stream in streams:
        _child(element, "stream").text = stream_text(stream)
    return element


def _child(parent: etree._Element, tag: str, **attributes: str) -> etree._Element:
    return etree.SubElement(parent, tag, attributes)


# ---- reading --------------------------------------------------------------------------------------------------------


def read_xml(text: str) -> QueryPlan:
    """Return the query plan in `text`.

    Raises:
        QueryPlanXmlError: For anything else, with lines of the XML.
    """
    root = _validated(text)
    playback = None
    if _flag(root.get("playback")):
        playback = Playback(_number(root.get("playbackIdleMs")), _number(root.get("playbackIncrementMs")))
    receiver, publisher = _only(root, "event-receiver"), _only(root, "event-publisher")
    return QueryPlan(
        name=root.get("name", ""),
        description=root.get("description", ""),
        dialect_3x=root.get("dialect") == "3.x",
        playback=playback,
        workers=_number(root.get("workers")),
        resources=Resources(
            cores=_number(root.get("cores")) or 1,
            memory_bytes=_number(root.get("memoryBytes")) or 0,
            labels=tuple(root.get("labels", "").split()),
        ),
        delivery=next((one for one in DELIVERIES if one == root.get("delivery")), "at-least-once"),
        checkpoint_interval_ms=_number(root.get("checkpointIntervalMs")),
        checkpoints_kept=_number(root.get("checkpointsKept")),
        receiver=ReceiverStage(_count(receiver), _read_streams(_only(receiver, "streams"))),
        processors=tuple(_read_processor(element) for element in root.findall("event-processor")),
        triggers=tuple(_read_trigger(element) for element in root.findall("trigger")),
        publisher=PublisherStage(_count(publisher), _read_streams(_only(publisher, "input-streams"))),
        carried=tuple(_read_stream(one).id for one in _only(receiver, "streams") if one.get("carriedBy") is not None),
    )


@cache
def _schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.fromstring(files("query_plan").joinpath("query-plan.xsd").read_bytes()))


def _validated(text: str) -> etree._Element:
    if len(text) > MAXIMUM_CHARACTERS:
        raise _refused("xml-too-large", f"the text has more than {MAXIMUM_CHARACTERS} characters", "shorten the plan")
    try:
        root = etree.fromstring(text.encode("utf-8", "surrogatepass"), _parser())
    except etree.XMLSyntaxError as refused:
        raise _refused("xml-malformed", f"the text is not XML: {refused.msg}", None, refused.lineno) from refused
    if root.getroottree().docinfo.internalDTD is not None:
        raise _refused("xml-doctype", "a query plan has no document type", "remove the DOCTYPE", 1)
    schema = _schema()
    if not schema.validate(root):
        raise QueryPlanXmlError(
            [
                _problem("xml-invalid", f"the XML is not a query plan: {entry.message}", None, entry.line)
                for entry in cast("Iterable[etree._LogEntry]", schema.error_log)
            ]
        )
    return root


def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )


def _read_processor(element: etree._Element) -> ProcessingStage:
    internal = element.find("internal-streams")
    return ProcessingStage(
        name=element.get("name", ""),
        parallel=_count(element),
        enforce_parallel=_flag(element.get("enforceParallel")),
        inputs=tuple(_read_input(one) for one in _only(element, "input-streams")),
        outputs=_read_streams(_only(element, "output-streams")),
        elements=_read_elements(_only(element, "queries")),
        internal=() if internal is None else _read_streams(internal),
        tables=_read_definitions(element.find("table-definitions"), ast.TableDefinition),
        windows=_read_definitions(element.find("window-definitions"), ast.WindowDefinition),
        functions=_read_definitions(element.find("function-definitions"), ast.FunctionDefinition),
        aggregations=_read_definitions(element.find("aggregation-definitions"), ast.AggregationDefinition),
        sync=next((role for role in SYNC_ROLES if role == element.get("sync")), ""),
        log="kafka" if element.get("log") == "kafka" else "",
    )


def _read_input(element: etree._Element) -> StageInput:
    kind, key = GroupingKind(element.get("grouping", "")), element.get("partition")
    stream = _read_stream(element)
    if (kind in _KEYED) != (key is not None):
        raise _refused(
            "xml-invalid",
            f"{stream.id}: 'partition' belongs to grouping='fields', 'expression' and 'ranges' only",
            None,
            _line(element),
        )
    if key is None:
        return StageInput(stream, Grouping(kind))
    if kind is not GroupingKind.FIELDS:
        return StageInput(stream, Grouping(kind, partition=_read_key(element, stream, kind, key)))
    if key not in {attribute.name for attribute in stream.attributes}:
        raise _refused("xml-invalid", f"{stream.id} has no attribute {key} to partition by", None, _line(element))
    return StageInput(stream, Grouping(kind, key))


def _read_key(
    element: etree._Element, stream: ast.StreamDefinition, kind: GroupingKind, text: str
) -> ast.ValuePartition | ast.RangePartition:
    """Return the key of a partition of `stream`, in the form that `kind` needs."""
    form = ast.RangePartition if kind is GroupingKind.RANGES else ast.ValuePartition
    name = name_text(stream.id)
    query = f"partition with ({text} of {name}) begin from {name} insert into {name}; end;"
    try:
        elements = parse(_SOME_DEFINITION + query).elements
    except SiddhiParseError as refused:
        raise _inside(element, refused) from refused
    partition = elements[0] if len(elements) == 1 else None
    if not isinstance(partition, ast.Partition) or len(partition.queries) > 1:
        raise _refused("xml-invalid", f"{stream.id}: '{text}' is not a partition key", None, _line(element))
    if len(partition.keys) > 1 or not isinstance(partition.keys[0], form):
        raise _refused("xml-invalid", f"{stream.id}: '{text}' is not a key for {kind.value}", None, _line(element))
    return partition.keys[0]


def _read_trigger(element: etree._Element) -> TriggerStage:
    definitions = _read_definitions(_only(element, "trigger-definition"), ast.TriggerDefinition)
    if len(definitions) != 1 or definitions[0].id != element.get("name"):
        raise _refused(
            "xml-invalid", "a trigger must contain exactly one definition, with its name", None, _line(element)
        )
    stage = TriggerStage(definitions[0])
    output = _only(element, "output-stream")
    if _read_stream(output) != stage.stream:
        raise _refused(
            "xml-invalid", f"the output of {stage.name} must be {stream_text(stage.stream)}", None, _line(output)
        )
    return stage


def _read_streams(element: etree._Element) -> tuple[ast.StreamDefinition, ...]:
    return tuple(_read_stream(one) for one in element)


def _read_stream(element: etree._Element) -> ast.StreamDefinition:
    try:
        return parse_stream_definition(element.text or "")
    except SiddhiParseError as refused:
        raise _inside(element, refused) from refused


def _read_definitions(element: etree._Element | None, kind: type[_Definition]) -> tuple[_Definition, ...]:
    if element is None or not (element.text or "").strip():
        return ()
    app = _parsed(element)
    definitions = tuple(one for one in app.definitions if isinstance(one, kind))
    if app.elements or app.annotations or len(definitions) < len(app.definitions):
        raise _refused("xml-invalid", f"{element.tag} contains something else as well", None, _line(element))
    return definitions


def _read_elements(element: etree._Element) -> tuple[ast.ExecutionElement, ...]:
    if not (element.text or "").strip():
        return ()
    app = _parsed(element, _SOME_DEFINITION)
    if len(app.definitions) > 1 or app.annotations:
        raise _refused("xml-invalid", "queries must not contain definitions", None, _line(element))
    return app.elements


def _parsed(element: etree._Element, before: str = "") -> ast.App:
    try:
        return parse(before + (element.text or ""))
    except SiddhiParseError as refused:
        raise _inside(element, refused) from refused


def _only(parent: etree._Element, tag: str) -> etree._Element:
    """Return the child that the schema requires."""
    return parent.findall(tag)[0]


def _count(element: etree._Element) -> int:
    return int(element.get("parallel", ""))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _line(element: etree._Element) -> int | None:
    return cast("int | None", element.sourceline)


def _flag(text: str | None) -> bool:
    return (text or "").strip() in ("true", "1")


def _inside(element: etree._Element, refused: SiddhiParseError) -> QueryPlanXmlError:
    """Return the problems of the text in `element`, with line numbers of the XML."""
    first = _line(element) or 1
    return QueryPlanXmlError(
        [
            _problem(
                "xml-invalid",
                f"in <{element.tag}>: {problem.message} [{problem.code}]",
                problem.hint,
                first + (problem.span.line - 1 if problem.span else 0),
            )
            for problem in refused.problems
        ]
    )


def _refused(code: str, message: str, hint: str | None, line: int | None = None) -> QueryPlanXmlError:
    return QueryPlanXmlError(_problem(code, message, hint, line))


def _problem(code: str, message: str, hint: str | None, line: int | None) -> Problem:
    return Problem(code, message, hint, None if line is None else ast.Span(line, 1, line + 1, 1, 0, 0))
