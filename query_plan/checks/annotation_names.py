"""Rules about annotations: unknown ones, and elements of known ones that have no effect."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from query_plan.annotations import DISTRIBUTED, SNAPSHOT_MINUTES, SNAPSHOTS_KEPT
from query_plan.findings import Finding, warning_rule
from siddhi.language import ast


@dataclass(frozen=True, slots=True)
class KnownNames:
    """An annotation that is known at some place of a plan.

    `options` have an effect; others are accepted without effect, each with the reason. `values` is the number of
    unnamed values (None: other rules check them); one may replace the option `value_of`. `judged` means that other
    rules check the options, `flat` that they check nested annotations, of which `nested` lists the known ones. `idle`
    is the reason why the annotation as a whole has no effect.
    """

    name: str
    options: tuple[str, ...] = ()
    without_effect: Mapping[str, str] = field(default_factory=dict)
    nested: tuple[KnownNames, ...] = ()
    judged: bool = False
    idle: str = ""
    values: int | None = 0
    value_of: str = ""
    flat: bool = False


UNKNOWN = warning_rule(
    "annotation-unknown",
    "an annotation or one of its options is unknown here; it has no effect",
    "correct the name, or remove it",
)
WITHOUT_EFFECT = warning_rule(
    "annotation-without-effect",
    "an annotation or option of Siddhi has no effect here",
    "remove it, or use the alternative in the message",
)
REPEATED = warning_rule(
    "annotation-key-repeated", "a source, sink, mapper or store has an option twice; the last one counts", "keep one"
)

_IN_ORDER = "events are always processed in the order in which they arrive"
_NO_BUFFER = "streams need no separate buffers; @dist(parallel='…') on a query runs it in parallel"
_REPORTER = "statistics go to the manager, which shows and exports them"
_DIST = KnownNames("dist", judged=True, values=None)
_MAP = KnownNames(
    "map",
    judged=True,
    values=None,
    nested=(
        KnownNames("attributes", judged=True, values=None, flat=True),
        KnownNames("payload", judged=True, values=None, flat=True),
    ),
    flat=True,
)
_DISTRIBUTION = KnownNames(
    "distribution", judged=True, values=None, nested=(KnownNames("destination", judged=True, values=None),)
)

_HEADER = (
    KnownNames("name", values=1),
    KnownNames("description", values=1),
    KnownNames("playback", judged=True, values=None),
    KnownNames(
        "statistics",
        ("enable",),
        dict.fromkeys(("reporter", "interval", "include"), _REPORTER),
        values=1,
        value_of="enable",
    ),
    KnownNames("trace", values=1),
    KnownNames("delivery", values=1),
    KnownNames("host", values=1),
    KnownNames("resources", judged=True, values=None),
    _DIST,
    KnownNames("async", idle=_NO_BUFFER),
    KnownNames("config", (SNAPSHOT_MINUTES, SNAPSHOTS_KEPT, DISTRIBUTED), dict.fromkeys(("async",), _NO_BUFFER)),
    KnownNames("enforceOrder", idle=_IN_ORDER),
    KnownNames("transport", values=1),
    KnownNames("transportChannelCreationEnabled", values=1),
)
_STREAM = (
    KnownNames("Import", ("arbitrary.data",), values=1, nested=(_DIST,)),
    KnownNames("Export", ("arbitrary.data",), values=1, nested=(_DIST,)),
    KnownNames("source", judged=True, nested=(_MAP, KnownNames("dist", ("parallel",))), flat=True),
    KnownNames("sink", judged=True, nested=(_MAP, _DIST, _DISTRIBUTION), flat=True),
    KnownNames("OnError", ("action",)),
    KnownNames("async", idle=_NO_BUFFER),
    KnownNames("config", idle=_NO_BUFFER),
    _DIST,
)
_TABLE = (
    KnownNames("PrimaryKey", judged=True, values=None),
    KnownNames("Index", judged=True, values=None),
    KnownNames("IndexBy", judged=True, values=None),
    KnownNames("store", judged=True, nested=(KnownNames("cache", judged=True, values=None),), flat=True),
    KnownNames("From", judged=True, flat=True),
    _DIST,
)
_AGGREGATION = (
    KnownNames("store", judged=True, values=None, flat=True),
    KnownNames("purge", ("enable", "interval"), nested=(KnownNames("retentionPeriod", judged=True, values=None),)),
    KnownNames("PrimaryKey", judged=True, values=None),
    KnownNames("PartitionById", idle="one instance has the whole aggregation"),
    _DIST,
)
_QUERY = (
    KnownNames("info", ("name",)),
    KnownNames("name", values=1),
    _DIST,
    KnownNames("synchronized", idle=_IN_ORDER),
)
_PARTITION = (*_QUERY, KnownNames("purge", ("enable", "interval", "idle.period")))
_PLACES: dict[str, tuple[KnownNames, ...]] = {
    "an app": _HEADER,
    "a stream": _STREAM,
    "a table": _TABLE,
    "a named window": (_DIST,),
    "a trigger": (_DIST,),
    "an aggregation": _AGGREGATION,
    "a query": _QUERY,
    "a partition": _PARTITION,
}
_DEFINITIONS = {
    ast.StreamDefinition: "a stream",
    ast.TableDefinition: "a table",
    ast.WindowDefinition: "a named window",
    ast.TriggerDefinition: "a trigger",
    ast.AggregationDefinition: "an aggregation",
}


def annotations_are_known(app: ast.App) -> Iterator[Finding]:
    """Report unknown annotations; Siddhi and this parser ignore them."""
    for place, annotation in _annotations(app):
        yield from _judged(annotation, place, _PLACES[place])


def keys_are_given_once(app: ast.App) -> Iterator[Finding]:
    """Report an option of a connector that is given twice; the last one counts, as in Siddhi."""
    for _, annotation in _annotations(app):
        yield from _repeated(annotation)


def _annotations(app: ast.App) -> Iterator[tuple[str, ast.Annotation]]:
    """Yield every annotation with the element it belongs to."""
    yield from (("an app", one) for one in app.annotations)
    for definition in app.definitions:
        place = _DEFINITIONS.get(type(definition))
        if place is not None and not isinstance(definition, ast.FunctionDefinition):
            yield from ((place, one) for one in definition.annotations)
    for element in app.elements:
        yield from (
            ("a partition" if isinstance(element, ast.Partition) else "a query", one) for one in element.annotations
        )
        for query in element.queries if isinstance(element, ast.Partition) else ():
            yield from (("a query", one) for one in query.annotations)


def _judged(
    annotation: ast.Annotation, place: str, there: tuple[KnownNames, ...], owner: KnownNames | None = None
) -> Iterator[Finding]:
    known = next((one for one in there if one.name.casefold() == annotation.name.casefold()), None)
    written = f"@{annotation.namespace}:{annotation.name}" if annotation.namespace else f"@{annotation.name}"
    if known is None:
        if not (owner and owner.flat and annotation.elements):
            where = f"@{owner.name}" if owner else place
            message = f"{written} of {where} is unknown and has no effect"
            yield UNKNOWN.broken(message, _meant(annotation, there), annotation.span)
        return
    if known.idle:
        yield WITHOUT_EFFECT.broken(f"{written} has no effect: {known.idle}", "take it out", annotation.span)
        return
    yield from _judged_values(annotation, known, written)
    if not known.judged:
        yield from _judged_options(annotation, known, written)
    for nested in annotation.annotations:
        yield from _judged(nested, place, known.nested, known)


def _judged_values(annotation: ast.Annotation, known: KnownNames, written: str) -> Iterator[Finding]:
    """Report unnamed values that have no effect."""
    if known.values is None:
        return
    named = known.value_of and any((element.key or "") == known.value_of for element in annotation.elements)
    most = 0 if named else known.values
    for element in [element for element in annotation.elements if element.key is None][most:]:
        message = (
            f"{written} takes {'no' if most == 0 else 'one'} value without a name; '{element.value}' has no effect"
        )
        yield UNKNOWN.broken(message, "remove it, or write it as option='value'", element.span)


def _judged_options(annotation: ast.Annotation, known: KnownNames, written: str) -> Iterator[Finding]:
    without_effect = {name.casefold(): reason for name, reason in known.without_effect.items()}
    options = {name.casefold() for name in known.options}
    for element in annotation.elements:
        key = (element.key or "").casefold()
        if key in without_effect:
            message = f"{element.key} of {written} has no effect: {without_effect[key]}"
            yield WITHOUT_EFFECT.broken(message, "take it out", element.span)
        elif element.key is not None and key not in options:
            yield UNKNOWN.broken(
                f"{written} has no option '{element.key}'; it has no effect", _option(known, element.key), element.span
            )


def _option(known: KnownNames, key: str) -> str:
    near = difflib.get_close_matches(key, known.options, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"known options: {', '.join(known.options)}" if known.options else f"write @{known.name}('…')"


def _meant(annotation: ast.Annotation, there: tuple[KnownNames, ...]) -> str:
    """Return the most similar known name: at the same place, else elsewhere in the plan, else all names known here."""
    names = {one.name.casefold(): one.name for one in there}
    prefix = f"@{annotation.namespace}:" if annotation.namespace else "@"
    near = difflib.get_close_matches(annotation.name.casefold(), names, n=1)
    if near:
        return f"did you mean {prefix}{names[near[0]]}?"
    places = (
        place for place, known in _PLACES.items() for one in known if one.name.casefold() == annotation.name.casefold()
    )
    elsewhere = next(places, None)
    if elsewhere is not None:
        return (
            f"it belongs before {elsewhere}"
            if elsewhere != "an app"
            else f"write @app:{annotation.name} before the app"
        )
    return f"known here: {', '.join(prefix + one.name for one in there) or 'none'}"


def _repeated(annotation: ast.Annotation) -> Iterator[Finding]:
    seen: set[str] = set()
    for element in reversed(annotation.elements):
        key = (element.key or "").casefold()
        if key and key in seen:
            message = f"'{element.key}' is repeated later in @{annotation.name}; this value has no effect"
            yield REPEATED.broken(message, "keep one of them", element.span)
        seen.add(key)
    for nested in annotation.annotations:
        yield from _repeated(nested)
