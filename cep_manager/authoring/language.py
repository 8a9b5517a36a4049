"""What the language has, for editors: everything that a plan may call, with how it is written and what it means."""

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
    ("@Plan:description('')", "what the plan is for"),
    ("@Plan:playback", "events' own time drives windows and patterns"),
    ("@Plan:dist(workers='')", "how many tasks its topology has"),
    ("@Plan:resources(cores='', memory='')", "what each of its tasks takes"),
    ("@Plan:host('')", "where its task runs: in a stage host that it shares with other plans, or own"),
    ("@Plan:delivery('')", "what is guaranteed when something dies: at-least-once, exactly-once, at-most-once"),
    ("@Plan:statistics('')", "what its stages count: off, basic, detail"),
    ("@Plan:trace('true')", "workers write its events to their logs"),
    ("@Import('')", "events come in from this event stream"),
    ("@Export('')", "events go out as this event stream"),
    ("@source(type='')", "workers fetch events from elsewhere"),
    ("@sink(type='')", "workers send events elsewhere"),
    ("@map(type='')", "how events are written outside"),
    ("@info(name='')", "the query's name"),
    ("@dist(execGroup='', parallel='')", "in which stage the query runs, and on how many instances"),
    ("@PrimaryKey('')", "the attributes that a table's rows are known by"),
    ("@Index('')", "attributes by which a table's rows are found fast"),
    ("@OnError(action='')", "what happens to an event that fails"),
    ("@purge(enable='true', interval='', idle.period='')", "idle instances of the partition are forgotten"),
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
