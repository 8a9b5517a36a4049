"""How long an aggregation keeps its buckets: `@purge(enable, interval, @retentionPeriod(sec=…, min=…, …))`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis.annotations import find, milliseconds
from siddhi.analysis.problems import Problems
from siddhi.engine.aggregation.period import parse_duration
from siddhi.engine.arrays import Int64Array
from siddhi.engine.operator import NEVER
from siddhi.errors import SiddhiRuntimeError
from siddhi.language import ast

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_INTERVAL_MS = 15 * _MINUTE
_DEFAULTS_MS = {"sec": 120 * _SECOND, "min": 24 * _HOUR, "hour": 30 * _DAY, "day": 365 * _DAY}
_LEAST_MS = {"sec": 120 * _SECOND, "min": 120 * _MINUTE, "hour": 25 * _HOUR, "day": 32 * _DAY, "month": 13 * 30 * _DAY}
_ALL = "all"


class Retention:
    """Every `interval_ms` the buckets that start more than their level's `kept_ms` ago are given up.

    `kept_ms` int64, one for each level, `NEVER` for a level that keeps all; `enabled` False: nothing is ever given up.
    """

    def __init__(self, kept_ms: Sequence[int], interval_ms: int, *, enabled: bool) -> None:
        self.kept_ms: Int64Array = np.array(kept_ms, dtype=np.int64)
        self.interval_ms = interval_ms
        self.enabled = enabled and bool((self.kept_ms != NEVER).any())

    def first_outdated_ms(self, oldest: Int64Array) -> int | None:
        """The first time at which the oldest bucket (one of each level, `NEVER`: none) may be given up; None: never."""
        limited = (self.kept_ms != NEVER) & (oldest != NEVER)
        if not self.enabled or not limited.any():
            return None
        return int((oldest[limited] + self.kept_ms[limited]).min()) + 1

    def kept_from_ms(self, now_ms: int) -> Int64Array:
        """The earliest start of a bucket that each level keeps at `now_ms`."""
        lowest = np.iinfo(np.int64).min
        limited = self.kept_ms != NEVER
        return np.where(limited, now_ms - np.where(limited, self.kept_ms, 0), lowest)


def read_retention(definition: ast.AggregationDefinition, durations: Sequence[str], *, playback: bool) -> Retention:
    """What the definition's `@purge` says; without it what it is by default: given up unless event time drives the
    clock, since a replay would lose what it has just read.

    `SiddhiRuntimeError` with all problems of the annotation.
    """
    problems = Problems()
    kept = {duration: _DEFAULTS_MS.get(duration, NEVER) for duration in durations}
    interval = _INTERVAL_MS
    annotation = find(definition.annotations, "purge")
    enabled = not playback
    if annotation is not None:
        enabled = _truth(annotation, problems)
        written = annotation.value("interval")
        if written is not None:
            interval = milliseconds(written, annotation.span, problems) or 0
            if interval <= 0 and not problems:
                problems.add("wrong-option", "the interval of @purge must be above 0", annotation.span)
        periods = find(annotation.annotations, "retentionPeriod")
        for element in periods.elements if periods is not None else ():
            _read_period(element, kept, problems)
    if problems:
        raise SiddhiRuntimeError(problems.all())
    return Retention([kept[duration] for duration in durations], interval, enabled=enabled)


def _truth(annotation: ast.Annotation, problems: Problems) -> bool:
    enable = annotation.value("enable", "true") or ""
    if enable.casefold() not in ("true", "false"):
        problems.add("wrong-option", f"enable of @purge cannot be '{enable}'", annotation.span, "write enable='true'")
    return enable.casefold() == "true"


def _read_period(element: ast.AnnotationElement, kept: dict[str, int], problems: Problems) -> None:
    try:
        duration = parse_duration(element.key or "")
    except SiddhiRuntimeError as error:
        problem = error.problems[0]
        problems.add(problem.code, problem.message, element.span, problem.hint)
        return
    if duration not in kept:
        message = f"the aggregation has no buckets of size '{duration}' to keep"
        problems.add("unknown-duration", message, element.span, f"it has {', '.join(kept)}")
        return
    if element.value.strip().casefold() == _ALL:
        kept[duration] = NEVER
        return
    time = milliseconds(element.value, element.span, problems)
    least = _LEAST_MS.get(duration, 0)
    if time is not None and time < least:
        message = f"buckets of size '{duration}' must be kept for at least {least // _MINUTE} minutes"
        problems.add("wrong-option", message, element.span, "write a longer time, or 'all'")
    elif time is not None:
        kept[duration] = time
