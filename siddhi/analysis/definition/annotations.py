"""Settings from annotations; unknown annotations are ignored, as in Siddhi."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from siddhi.analysis.definition.durations import purge_time_ms
from siddhi.analysis.problems import Problems
from siddhi.errors import SiddhiParseError, did_you_mean
from siddhi.language import ast
from siddhi.language.parser import parse_time

_ON_ERROR_ACTIONS = ("LOG", "STREAM", "STORE")
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class AppSettings:
    """The annotations in front of an app."""

    name: str | None
    dialect_3x: bool
    playback: bool
    playback_idle_ms: int | None
    playback_increment_ms: int | None


def find(annotations: Iterable[ast.Annotation], name: str) -> ast.Annotation | None:
    """Return the first annotation called `name`, in any letter case."""
    return next(find_all(annotations, name), None)


def find_all(annotations: Iterable[ast.Annotation], name: str) -> Iterator[ast.Annotation]:
    """Yield the annotations with the name, in any letter case."""
    return (annotation for annotation in annotations if annotation.name.casefold() == name.casefold())


def find_only(annotations: Iterable[ast.Annotation], name: str, problems: Problems) -> ast.Annotation | None:
    """Return the annotation called `name`; report a second one."""
    found = list(find_all(annotations, name))
    for more in found[1:]:
        problems.add("duplicate-annotation", f"@{more.name} is given twice", more.span)
    return found[0] if found else None


def app_settings(app: ast.App, problems: Problems) -> AppSettings:
    """Return the settings of the whole app."""
    dialect_3x = any((annotation.namespace or "").casefold() == "plan" for annotation in app.annotations)
    name = find_only(app.annotations, "name", problems)
    rejected = find(app.annotations, "async")
    if rejected is not None and not dialect_3x:
        problems.add("unknown-annotation", "@app:async is unknown", rejected.span, "put @async on the streams")
    playback = find_only(app.annotations, "playback", problems)
    idle, increment = _playback_times(playback, problems, dialect_3x) if playback is not None else (None, None)
    statistics = find_only(app.annotations, "statistics", problems)
    find_only(app.annotations, "enforceOrder", problems)
    transports = find_only(app.annotations, "transportChannelCreationEnabled", problems)
    if statistics is not None and (statistics.value("enable") or "").casefold() == "true":
        statistics = None  # Siddhi checks no more
    for annotation in (name, statistics, transports):
        _check_single_value(annotation, problems)
    return AppSettings(name.value() if name is not None else None, dialect_3x, playback is not None, idle, increment)


def _check_single_value(annotation: ast.Annotation | None, problems: Problems) -> None:
    """Report a second unnamed value where one is expected."""
    unnamed = [element for element in annotation.elements if element.key is None] if annotation is not None else []
    for more in unnamed[1:]:
        problems.add(
            "duplicate-annotation-key", f"a second value, '{more.value}', where only one is allowed", more.span
        )


def _playback_times(annotation: ast.Annotation, problems: Problems, dialect_3x: bool) -> tuple[int | None, int | None]:
    idle, increment = "idleTime" if dialect_3x else "idle.time", "increment"
    times: dict[str, int | None] = {}
    for element in annotation.elements:
        if element.key is None and dialect_3x and element.value.casefold() == "true":
            continue
        key = (element.key or "").casefold().replace(".", "" if dialect_3x else ".")
        name = next((name for name in (idle, increment) if name.casefold() == key), None)
        if name is None:
            written = element.key if element.key is not None else element.value
            hint = did_you_mean(written, (idle, increment))
            problems.add("unknown-option", f"playback has no option '{written}'", element.span, hint)
        else:
            times[name] = _time(element.value, element.span, problems)
    if len(times) == 1:
        message = f"playback takes {idle} and increment together, or neither"
        problems.add("missing-option", message, annotation.span)
    return times.get(idle), times.get(increment)


def purge_time(text: str, span: ast.Span, problems: Problems) -> int | None:
    """Return the milliseconds of a time of `@purge`."""
    time = purge_time_ms(text)
    if time is None:
        hint = "write one number of sec, min, hour, day, month or year, such as '5 min'"
        problems.add("not-a-time", f"'{text}' is not a time of @purge", span, hint)
    return time


def _time(text: str, span: ast.Span, problems: Problems) -> int | None:
    try:
        return parse_time(text).milliseconds
    except SiddhiParseError:
        problems.add("not-a-time", f"'{text}' is not a time", span, "write a time such as 5 sec")
        return None


def on_error_action(annotations: tuple[ast.Annotation, ...], problems: Problems) -> str:
    """Return what a stream does with events that fail: `LOG`, `STREAM` or `STORE`.

    With `STREAM` they go to its fault stream; with `STORE` they also go to the error store of workers.
    """
    annotation = find_only(annotations, "OnError", problems)
    if annotation is None:
        return "LOG"
    action = annotation.value("action")
    if action is None:
        problems.add("missing-option", "@OnError needs an action", annotation.span, "write action='STREAM'")
        return "LOG"
    if action.upper() not in _ON_ERROR_ACTIONS:
        hint = f"use {', '.join(_ON_ERROR_ACTIONS)}"
        problems.add("unknown-option", f"'{action}' is not an action of @OnError", annotation.span, hint)
        return "LOG"
    return action.upper()


def check_async(annotations: tuple[ast.Annotation, ...], problems: Problems) -> None:
    """Report invalid numbers of `@async`."""
    annotation = find_only(annotations, "async", problems)
    for element in annotation.elements if annotation is not None else ():
        key = (element.key or "").casefold()
        if key not in {"buffer.size", "workers", "batch.size.max"}:
            continue
        if not element.value.strip().isdecimal() or int(element.value) <= 0:
            problems.add("wrong-option", f"{element.key} must be a number above 0", element.span)


def element_name(annotations: tuple[ast.Annotation, ...], problems: Problems) -> tuple[str | None, ast.Span]:
    """Return the `@info(name)` of a query or partition."""
    info = find_only(annotations, "info", problems)
    return (info.value("name"), info.span) if info is not None else (None, ast.NOWHERE)


def key_attributes(annotation: ast.Annotation) -> tuple[tuple[str, ast.Span], ...]:
    """Return the attribute names that `@PrimaryKey('a', 'b')` lists."""
    return tuple((element.value.strip(), element.span) for element in annotation.elements)


def stored_in(annotations: tuple[ast.Annotation, ...]) -> str:
    """Return the store that `@From(eventtable='…')` names for a table of an execution plan.

    The name is in lower case; it is empty without the annotation.
    """
    source = find(annotations, "From")
    return ("" if source is None else source.value("eventtable") or "").casefold()


def stored_key(annotations: tuple[ast.Annotation, ...]) -> tuple[str, ...]:
    """Return the key that `@From(eventtable='analytics.table', primary.keys='a, b')` gives a table of WSO2 DAS.

    Several plans may define such a table, each with some of its attributes.
    """
    source = find(annotations, "From")
    names = None if source is None else source.value("primary.keys")
    return () if names is None else tuple(name.strip() for name in names.split(","))


@dataclass(frozen=True, slots=True)
class Purge:
    """When a partition purges keys that have been idle for a while."""

    interval_ms: int | None
    idle_ms: int | None


_DEFAULT_PURGE_INTERVAL_MS = 300_000


def partition_purge(annotations: tuple[ast.Annotation, ...], problems: Problems) -> Purge:
    """Return when a partition purges idle keys; both None when it never does."""
    never = Purge(None, None)
    annotation = find_only(annotations, "purge", problems)
    if annotation is None:
        return never
    enable = annotation.value("enable")
    if enable is None or enable.casefold() not in _TRUTHS:
        hint = "write enable='true'"
        problems.add("missing-option", "@purge needs enable, 'true' or 'false'", annotation.span, hint)
        return never
    idle = annotation.value("idle.period")
    if idle is None:
        problems.add("missing-option", "@purge needs idle.period", annotation.span, "write idle.period='1 hour'")
        return never
    interval = annotation.value("interval")
    interval_ms = (
        purge_time(interval, annotation.span, problems) if interval is not None else _DEFAULT_PURGE_INTERVAL_MS
    )
    idle_ms = purge_time(idle, annotation.span, problems)
    return Purge(interval_ms, idle_ms) if _TRUTHS[enable.casefold()] else never
