"""How long an aggregation keeps its buckets: `@purge(enable, interval, @retentionPeriod(sec=…, min=…, …))`."""

from __future__ import annotations

from collections.abc import Sequence

from siddhi.analysis.definition.annotations import find_only, purge_time
from siddhi.analysis.definition.durations import duration_hint, duration_named
from siddhi.analysis.model import AnalysedRetention
from siddhi.analysis.problems import Problems
from siddhi.language import ast

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_INTERVAL_MS = 15 * _MINUTE
_DEFAULTS_MS: dict[str, int] = {"sec": 120 * _SECOND, "min": 24 * _HOUR, "hour": 30 * _DAY, "day": 365 * _DAY}
_LEAST_MS = {"sec": 120 * _SECOND, "min": 120 * _MINUTE, "hour": 25 * _HOUR, "day": 32 * _DAY, "month": 13 * 30 * _DAY}
_ALL = "all"


def analyse_retention(
    annotations: tuple[ast.Annotation, ...], durations: Sequence[str], problems: Problems, *, playback: bool
) -> AnalysedRetention:
    """Return the retention that `@purge` declares, or the default without it.

    By default old buckets are purged, except under event time: a replay would lose the events that it has just read.
    """
    kept: dict[str, int | None] = {duration: _DEFAULTS_MS.get(duration) for duration in durations}
    interval = _INTERVAL_MS
    annotation = find_only(annotations, "purge", problems)
    if annotation is None:
        return AnalysedRetention(tuple(kept.values()), interval, enabled=not playback)
    if not _truth(annotation, problems):
        return AnalysedRetention(tuple(kept.values()), interval, enabled=False)
    written = annotation.value("interval")
    if written is not None:
        read = purge_time(written, annotation.span, problems)
        if read is not None and read <= 0:
            problems.add("wrong-option", "the interval of @purge must be above 0", annotation.span)
        interval = read or interval
    periods = find_only(annotation.annotations, "retentionPeriod", problems)
    for element in periods.elements if periods is not None else ():
        _read_period(element, kept, problems)
    return AnalysedRetention(tuple(kept.values()), interval, enabled=True)


def _truth(annotation: ast.Annotation, problems: Problems) -> bool:
    enable = annotation.value("enable", "true") or ""
    if enable.casefold() not in ("true", "false"):
        problems.add("wrong-option", f"enable of @purge cannot be '{enable}'", annotation.span, "write enable='true'")
    return enable.casefold() == "true"


def _read_period(element: ast.AnnotationElement, kept: dict[str, int | None], problems: Problems) -> None:
    key = element.key or ""
    duration = duration_named(key)
    if duration is None:
        message = f"'{key}' is not a duration of an aggregation"
        problems.add("unknown-duration", message, element.span, duration_hint(key))
        return
    if duration not in kept:
        message = f"the aggregation has no buckets of size '{duration}' to keep"
        problems.add("unknown-duration", message, element.span, f"it has {', '.join(kept)}")
        return
    if element.value.casefold() == _ALL:
        kept[duration] = None
        return
    time = purge_time(element.value, element.span, problems)
    least = _LEAST_MS.get(duration, 0)
    if time is not None and time < least:
        message = f"buckets of size '{duration}' must be kept for at least {least // _MINUTE} minutes"
        problems.add("wrong-option", message, element.span, "write a longer time, or 'all'")
    elif time is not None:
        kept[duration] = time
