"""Run a trial: one event after the other through an app, whose clock shows the event's time."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.model import AnalysedApp, AnalysedPartition, AnalysedQuery, Schema, StateMachine
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.column_names import KIND, TIMESTAMP, column_name
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.engine.statistics import PartStateSize
from siddhi.errors import SiddhiError, did_you_mean
from siddhi.float_values import written
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.scripts.language import ScriptPolicy
from siddhi.trial.events import InvalidEventError, own_time, record_of
from siddhi.trial.messages import (
    PartialMatches,
    TrialAnswer,
    TrialOutput,
    TrialRefused,
    TrialRequest,
    TrialResult,
    TrialRow,
    TrialState,
)

STEP_MS = 1_000
"""The interval between two events without times."""
MOST_LOOKS = 1_000
"""Partial matches are counted after every event, or so seldom that there are no more counts than this."""
MOST_LOG_LINES = 200
MOST_TABLE_ROWS = 100
MOST_TEXT = 2_000
"""Longer texts are truncated in the answer."""
MOST_TIME_MS = 253_370_764_800_000
"""The year 9999."""


def run_trial(request: TrialRequest) -> TrialAnswer:
    """Return the output of the plan for the events, or the reason why it cannot be tried."""
    began = time.monotonic_ns()
    try:
        scripts = ScriptPolicy(frozenset(request.script_languages), "the configuration")
        app = analyse(parse(request.text), builtin_registry(scripts))
        trial = _Trial(app, request)
        trial.play()
        return trial.result((time.monotonic_ns() - began) // 1_000_000)
    except _BadEventError as bad:
        return TrialRefused("bad-event", str(bad), bad.event)
    except SiddhiError as error:
        return TrialRefused(error.problems[0].code, str(error))


class _BadEventError(Exception):
    def __init__(self, event: int, reason: str) -> None:
        super().__init__(f"event {event}: {reason}")
        self.event = event


class _LogLines(logging.Handler):
    """Keeps the first log lines."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.lines) < MOST_LOG_LINES:
            self.lines.append(f"{record.levelname.lower()}: {record.getMessage()[:MOST_TEXT]}")


class _CollectedOutput:
    """Collects the output of one stream or query, as long as the trial has room."""

    def __init__(self, trial: _Trial, kind: Literal["stream", "query"], name: str, schema: Schema) -> None:
        self._trial = trial
        self._kind = kind
        self._name = name
        self._schema = schema
        self._rows: list[TrialRow] = []
        self._count = 0

    def take(self, batch: pa.RecordBatch) -> None:
        self._count += batch.num_rows
        kept = batch.slice(0, self._trial.room)
        self._trial.room -= kept.num_rows
        self._rows.extend(_rows(kept, self._schema, self._trial.after))

    def told(self) -> TrialOutput:
        return TrialOutput(self._kind, self._name, _attributes(self._schema), self._rows, self._count)


class _Trial:
    def __init__(self, app: AnalysedApp, request: TrialRequest) -> None:
        self.after = 0
        self.room = request.most_rows
        self._app = app
        self._request = request
        self._clock = request.start_ms
        self._runtime = AppRuntime(app)
        self._outputs = list(self._listen())
        self._has_pattern = any(isinstance(query.input, StateMachine) for query in _queries(app))
        self._waiting: dict[str, int] = {}
        self._changes: list[PartialMatches] = []
        self._log = _LogLines()

    def play(self) -> None:
        """Run all events, and let the time after them pass."""
        logger = logging.getLogger("siddhi")
        logger.addHandler(self._log)
        logger.setLevel(logging.INFO)
        try:
            self._play()
        finally:
            logger.removeHandler(self._log)

    def result(self, took_ms: int) -> TrialResult:
        statistics = self._runtime.statistics()
        return TrialResult(
            outputs=[*(one.told() for one in self._outputs), *self._tables()],
            partial_matches=self._changes,
            state=[_state(one) for one in statistics.state],
            failures={stream: count for stream, count in statistics.failures.items() if count},
            log=self._log.lines,
            start_ms=self._request.start_ms,
            end_ms=self._clock,
            took_ms=took_ms,
        )

    def _play(self) -> None:
        stamps = self._stamps()
        records = [self._record(number, stamp) for number, stamp in enumerate(stamps)]
        if stamps:
            self._clock = min(stamps[0], self._clock) if self._app.playback else stamps[0]
        self._runtime.start(self._clock)
        self._look()
        look_every = 1 + len(stamps) // MOST_LOOKS
        for number, (event, stamp) in enumerate(zip(self._request.events, stamps, strict=True)):
            self.after = number + 1
            self._clock = max(self._clock, stamp)
            self._runtime.send(event.stream, records[number], self._clock)
            if self.after % look_every == 0 or self.after == len(stamps):
                self._look()
        if self._request.wait_ms:
            self.after = len(stamps) + 1
            self._clock += self._request.wait_ms
            self._runtime.advance_time(self._clock)
            self._look()

    def _stamps(self) -> list[int]:
        """Return the time of each event: its own, or a second after the one before."""
        stamps: list[int] = []
        following = self._request.start_ms
        for place, event in enumerate(self._request.events):
            number, time = place + 1, own_time(event, self._schema_at(place))
            stamp = following if time is None else time
            if not 0 <= stamp <= MOST_TIME_MS:
                raise _BadEventError(number, f"timestamp must be milliseconds since 1970, not {stamp}")
            stamps.append(stamp)
            following = stamp + STEP_MS
        return stamps

    def _record(self, place: int, stamp: int) -> pa.RecordBatch:
        try:
            return record_of(self._request.events[place], self._schema_at(place), stamp)
        except InvalidEventError as misfit:
            raise _BadEventError(place + 1, str(misfit)) from misfit

    def _schema_at(self, place: int) -> Schema:
        """Return the schema of the stream of the event at this index. Raise _BadEventError when there is none."""
        try:
            return self._schema(self._request.events[place].stream)
        except InvalidEventError as misfit:
            raise _BadEventError(place + 1, str(misfit)) from misfit

    def _schema(self, stream: str) -> Schema:
        """Return the schema of a stream, or of a named window, which takes events as well. Raises MisfitError."""
        if stream in self._app.streams:
            return self._app.streams[stream].schema
        if stream in self._app.windows:
            return self._app.windows[stream].schema
        known = tuple(self._app.streams)
        hint = did_you_mean(stream, known) or f"it has {', '.join(known) or 'none'}"
        raise InvalidEventError(f"the plan has no stream '{stream}'; {hint}")

    def _listen(self) -> Iterator[_CollectedOutput]:
        """Yield every stream with events from inside the app, then every query."""
        for name, stream in self._app.streams.items():
            schemas = {name: stream.schema} if stream.fault is None else {name: stream.schema, f"!{name}": stream.fault}
            for key, schema in schemas.items():
                output = _CollectedOutput(self, "stream", key, schema)
                self._runtime.add_stream_callback(key, output.take)
                yield output
        for query in _queries(self._app):
            output = _CollectedOutput(self, "query", query.name, query.output.schema)
            self._runtime.add_query_callback(query.name, output.take)
            yield output

    def _look(self) -> None:
        """Record changes of the number of partial matches."""
        if not self._has_pattern:
            return
        for part in self._runtime.statistics().state:
            count = part.size.partial_matches
            if part.kind == "query" and count != self._waiting.get(part.name, 0):
                self._waiting[part.name] = count
                if len(self._changes) < self._request.most_rows:
                    self._changes.append(PartialMatches(self.after, part.name, count))

    def _tables(self) -> Iterator[TrialOutput]:
        """Yield the contents of the tables."""
        for name, table in self._app.tables.items():
            query = analyse_on_demand_query(parse_on_demand_query(f"from {name} select *"), self._app)
            found = self._runtime.query(query)
            count = 0 if found is None else found.num_rows
            rows: list[TrialRow] = []
            if found is not None:
                kept = found.slice(0, MOST_TABLE_ROWS)
                rows = list(_rows(kept, table.schema, self.after))
            yield TrialOutput("table", name, _attributes(table.schema), rows, count)


def _queries(app: AnalysedApp) -> Iterator[AnalysedQuery]:
    for element in app.elements:
        if isinstance(element, AnalysedPartition):
            yield from element.queries
        else:
            yield element


def _attributes(schema: Schema) -> tuple[tuple[str, str], ...]:
    return tuple((name, type_.value) for name, type_ in schema.attributes)


def _state(held: PartStateSize) -> TrialState:
    size = held.size
    return TrialState(held.kind, held.name, size.rows, size.groups, size.partial_matches, size.instances, size.bytes)


def _rows(batch: pa.RecordBatch, schema: Schema, after: int) -> Iterator[TrialRow]:
    columns = [_values(batch.column(column_name(name))) for name in schema.names()]
    kinds = batch.column(KIND).to_pylist()
    for place, stamp in enumerate(batch.column(TIMESTAMP).to_pylist()):
        yield TrialRow(after, stamp, [column[place] for column in columns], kinds[place] != CURRENT)


def _values(column: pa.Array) -> list[Any]:
    """Return the values in a form that JSON can hold.

    NaN and the infinities become texts, objects their contents, and long texts are cut.
    """
    values = written(column).to_pylist()
    if pa.types.is_floating(column.type):
        return [value if value is None or math.isfinite(value) else str(value) for value in values]
    if pa.types.is_string(column.type):
        return [value if value is None or len(value) <= MOST_TEXT else f"{value[:MOST_TEXT]}…" for value in values]
    if pa.types.is_binary(column.type):
        return [None if value is None else json.loads(value) for value in values]
    return values  # type: ignore[no-any-return]
