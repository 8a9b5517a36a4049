"""The language reference for editors: everything that a plan may call, with its syntax and meaning."""

from __future__ import annotations

from cep_manager.authoring.model import AnnotationHelp, Callable, CallableKind, Language
from siddhi.analysis.catalogue import builtin_registry
from siddhi.language.ast import AttributeType
from siddhi.registry import Declaration, Kind
from siddhi.scripts.language import ScriptPolicy

KINDS: dict[Kind, CallableKind] = {
    Kind.WINDOW: "window",
    Kind.AGGREGATOR: "aggregator",
    Kind.FUNCTION: "function",
    Kind.STREAM_FUNCTION: "stream-function",
}

_KEYWORDS = """
aggregate aggregation all and as asc at begin by current define delete desc end events every expired false first for
from full function group having in inner insert into is join last left limit not null of offset on or order outer
output overwrite partition per raw return right select set snapshot stream table trigger true unidirectional update
window with within
"""
KEYWORDS = tuple(_KEYWORDS.split())
UNITS = ("millisec", "sec", "min", "hour", "day", "week", "month", "year")

ANNOTATIONS = (
    ("@Plan:name('')", "the plan's name"),
    ("@Plan:description('')", "description of the plan"),
    ("@Plan:playback", "windows and patterns follow the events' own time"),
    ("@Plan:dist(workers='')", "number of tasks of its topology"),
    ("@Plan:resources(cores='', memory='')", "resources of each of its tasks"),
    ("@Plan:host('')", "where its task runs: in a stage host shared with other plans (shared), or on its own (own)"),
    ("@Plan:delivery('')", "delivery guarantee after failures: at-least-once, exactly-once, at-most-once"),
    ("@Plan:statistics('')", "level of statistics of its stages: off, basic, detail"),
    ("@Plan:trace('true')", "workers write its events to their logs"),
    ("@Import('')", "import events from this event stream"),
    ("@Export('')", "export events as this event stream"),
    ("@source(type='')", "workers read events from an external system"),
    ("@sink(type='')", "workers send events to an external system"),
    ("@map(type='')", "format of the events in the external system"),
    ("@info(name='')", "the query's name"),
    ("@dist(execGroup='', parallel='')", "stage that the query runs in, and its number of instances"),
    ("@dist(execGroup='', parallel='auto', min='', max='')", "stage whose number of instances follows the load"),
    ("@PrimaryKey('')", "attributes that identify a row of the table"),
    ("@Index('')", "attributes with an index for fast look-ups of the table's rows"),
    ("@OnError(action='')", "action for events that fail"),
    ("@purge(enable='true', interval='', idle.period='')", "remove idle instances of the partition"),
)


def describe_language(scripts: ScriptPolicy) -> Language:
    """Return everything that plans may write here, in order of kind and name."""
    registry = builtin_registry(scripts)
    return Language(
        keywords=KEYWORDS,
        units=UNITS,
        types=tuple(type_.value for type_ in AttributeType),
        annotations=tuple(AnnotationHelp(text, summary) for text, summary in ANNOTATIONS),
        callables=tuple(sorted((_callable(one) for one in registry), key=lambda one: (one.kind, one.name))),
        script_languages=tuple(name for name in registry.script_languages() if scripts.allows(name)),
    )


def _callable(declaration: Declaration) -> Callable:
    return Callable(
        KINDS[declaration.kind],
        declaration.full_name,
        declaration.signatures(),
        declaration.summary,
        declaration.description,
    )
