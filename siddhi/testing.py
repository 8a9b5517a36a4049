"""Test your own plans: cases of events and expected answers, run in process on the engine.

A case is one JSON object: an app, events in order, and what each stream and query callback is expected to give.
`load_cases` reads them from JSON lines, `run_case` runs one and says what differs.
"""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp, Schema
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.arrow_types import ARROW_TYPES
from siddhi.case_reading import Case, MalformedCaseError, check_events, is_number, load_cases, schema_of
from siddhi.column_names import KIND, TIMESTAMP, column_name
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.errors import SiddhiError
from siddhi.float_values import written
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse, parse_on_demand_query

__all__ = ["Between", "Case", "CaseResult", "load_cases", "record_answers", "record_batch", "restored", "run_case"]

NOT_SUPPORTED = "not-supported"
"""The error code with which the engine refuses unsupported constructs."""

Row = list[Any]
"""`[timestamp, [values]]`."""

_TOLERANCE = {AttributeType.DOUBLE: 1e-9, AttributeType.FLOAT: 1e-6}


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case.

    It has `passed`, or is `unsupported` when the engine refused the app as not supported, `malformed` when the case
    itself cannot be run, `crashed` when the engine failed on it; `differences` say what differs or went wrong.
    """

    case: Case
    passed: bool
    unsupported: bool = False
    differences: tuple[str, ...] = ()
    malformed: bool = False
    crashed: bool = False

    @property
    def verdict(self) -> str:
        """The result in a word or two."""
        if self.passed:
            return "passes"
        if self.malformed:
            return "malformed"
        if self.crashed:
            return "the engine failed"
        return "not supported" if self.unsupported else "differs"


@dataclass(frozen=True, slots=True)
class _StoreAnswer:
    """The answer to an on-demand query: rows (None: nothing found), or the error."""

    rows: list[list[Any]] | None
    schema: Schema | None
    error: str | None = None


@dataclass(slots=True)
class _Recorder:
    """Records the output of the streams and queries with callbacks."""

    streams: dict[str, list[Row]] = field(default_factory=dict)
    currents: dict[str, list[Row]] = field(default_factory=dict)
    expired: dict[str, list[Row]] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)
    answers: dict[int, _StoreAnswer] = field(default_factory=dict)


@lru_cache(maxsize=8)
def _analysed(text: str) -> AnalysedApp:
    """Return the app of `text`, cached because consecutive cases often have the same app."""
    return analyse(parse(text))


Between = Callable[[AppRuntime], AppRuntime]
"""Returns the app that continues for the running one: itself, or one restored from its snapshot."""


def restored(runtime: AppRuntime) -> AppRuntime:
    """Return a new runtime of the same app that continues from a snapshot of `runtime`.

    Pass it to `run_case` as `between` to test that a plan survives restarts at any point.

    Args:
        runtime: An engine whose state is to be restored.
    """
    saved = runtime.snapshot()
    fresh = AppRuntime(runtime.app)
    fresh.restore(saved)
    return fresh


def run_case(case: Case, batch_rows: int | None = None, between: Between | None = None) -> CaseResult:
    """Run a case and compare what every stream and query callback got with what the case expects.

    Args:
        case: A case from `load_cases`.
        batch_rows: Send events that the case sends one by one in batches of up to so many rows; None: as many as follow
            each other. The answers must not depend on it.
        between: Called between any two batches with the running app; returns the app to continue with, such as
            `restored`.

    Returns:
        The result, which also carries errors of the case and of the engine; nothing is raised.
    """
    if case.fault:
        return CaseResult(case, passed=False, malformed=True, differences=(case.fault,))
    try:
        return _judged(case, batch_rows, between)
    except MalformedCaseError as error:
        return CaseResult(case, passed=False, malformed=True, differences=(error.problems[0].message,))
    except Exception as error:  # noqa: BLE001 - the next case must run, whatever the engine died of in this one
        return CaseResult(case, passed=False, crashed=True, differences=(_outcome(error),))


def record_answers(case: Case, batch_rows: int | None = None, between: Between | None = None) -> dict[str, Any]:
    """Return the engine's answers to a case, in the form of a case's `expect`.

    Args:
        case: A case from `load_cases`.
        batch_rows: As for `run_case`.
        between: As for `run_case`.

    Raises:
        SiddhiError: the app is invalid or not supported.
        MalformedCaseError: the case cannot be run.
    """
    recorder = _play(case, _analysed(case.app), batch_rows, between)
    results: list[dict[str, Any]] = []
    for step, answer in recorder.answers.items():
        outcome = {"rows": answer.rows} if answer.error is None else {"error": answer.error}
        results.append({"step": step, **outcome})
    queries = {query: {"in": rows, "removed": recorder.expired[query]} for query, rows in recorder.currents.items()}
    return {"streams": recorder.streams, "queries": queries, **({"results": results} if results else {})}


def _outcome(error: Exception) -> str:
    """Return the exception and where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno}, in {frame.name})"


def _judged(case: Case, batch_rows: int | None, between: Between | None) -> CaseResult:
    refusal_expected = "error" in case.document
    try:
        app = _analysed(case.app)
        if not refusal_expected:
            check_events(case.document, app)
        recorder = _play(case, app, batch_rows, between)
    except MalformedCaseError:
        raise
    except SiddhiError as error:
        if any(problem.code == NOT_SUPPORTED for problem in error.problems):
            return CaseResult(case, passed=False, unsupported=True, differences=(str(error),))
        if refusal_expected:
            return CaseResult(case, passed=True)
        return CaseResult(case, passed=False, differences=(f"refused: {error}",))
    if refusal_expected:
        return CaseResult(case, passed=False, differences=("accepted, but should be refused",))
    differences = tuple(_differences(case, recorder))
    return CaseResult(case, passed=not differences, differences=differences)


# ---- playing


def _play(case: Case, app: AnalysedApp, batch_rows: int | None, between: Between | None) -> _Recorder:
    recorder = _Recorder()
    runtime = AppRuntime(app)
    _listen(case, app, runtime, recorder)
    runtime.start(int(case.document.get("start_time", 0)))
    waiting: list[Mapping[str, Any]] = []
    for step, event in enumerate(case.document["events"]):
        if "data" in event:
            waiting.append(event)
            if len(waiting) != batch_rows:
                continue
        _send_alone(runtime, app, waiting)
        waiting = []
        if between is not None:
            before, runtime = runtime, between(runtime)
            if runtime is not before:
                _listen(case, app, runtime, recorder)
        if "batch" in event:
            records = record_batch(_schema(app, event["stream"]), event["batch"])
            runtime.send(event["stream"], records, as_chunk=True)
        elif "advance_time" in event:
            runtime.advance_time(event["advance_time"])
        elif "query" in event:
            recorder.answers[step] = _answer(app, runtime, event["query"])
    _send_alone(runtime, app, waiting)
    return recorder


def _schema(app: AnalysedApp, source: str) -> Schema:
    schema = schema_of(app, source)
    if schema is None:
        raise MalformedCaseError(f"'{source}' is not a stream of the app that takes events")
    return schema


def _answer(app: AnalysedApp, runtime: AppRuntime, text: str) -> _StoreAnswer:
    try:
        query = analyse_on_demand_query(parse_on_demand_query(text), app)
        found = runtime.query(query)
    except SiddhiError as error:
        if any(problem.code == NOT_SUPPORTED for problem in error.problems):
            raise
        return _StoreAnswer(None, None, str(error))
    return _StoreAnswer(None if found is None else [row for _, row in _rows(found)], query.schema)


def _send_alone(runtime: AppRuntime, app: AnalysedApp, events: Sequence[Mapping[str, Any]]) -> None:
    """Send events of any streams as one step, each event a chunk of its own."""
    if not events:
        return
    streams = list(dict.fromkeys(event["stream"] for event in events))
    sources = np.array([streams.index(event["stream"]) for event in events], dtype=np.int64)
    batches = [
        (stream, record_batch(_schema(app, stream), [event for event in events if event["stream"] == stream]))
        for stream in streams
    ]
    runtime.send_merged(batches, sources)


def record_batch(schema: Schema, events: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Make a record batch of events in the form that cases use.

    Args:
        schema: Attributes of the stream.
        events: Each `{"timestamp": ms, "data": […]}`, with the values in the order of the schema's attributes. NaN and
            the infinities may be written as text; an object is any JSON value.

    Returns:
        The attributes by name and `_timestamp` (int64 ms), as `AppRuntime.send` takes them.
    """
    arrays = [pa.array([event["timestamp"] for event in events], pa.int64())]
    for place, (_, type_) in enumerate(schema.attributes):
        items = [_value(event["data"][place], type_) for event in events]
        arrays.append(pa.array(items, ARROW_TYPES[type_]))
    return pa.RecordBatch.from_arrays(arrays, names=[TIMESTAMP, *map(column_name, schema.names())])


def _value(item: Any, type_: AttributeType) -> Any:
    if item is None:
        return None
    if type_ is AttributeType.OBJECT:
        return json.dumps(item).encode()
    return float(item) if type_ in _TOLERANCE else item


def _listen(case: Case, app: AnalysedApp, runtime: AppRuntime, recorder: _Recorder) -> None:
    """Record all output of the app from now on in `recorder`."""
    listen = case.document["listen"]
    for stream in listen.get("streams", ()):
        if stream in app.streams:
            rows = recorder.streams.setdefault(stream, [])
            recorder.schemas[stream] = app.streams[stream].schema

            def receive_stream(batch: pa.RecordBatch, rows: list[Row] = rows) -> None:
                rows.extend(_rows(batch))

            runtime.add_stream_callback(stream, receive_stream)
    for query in listen.get("queries", ()):
        currents = recorder.currents.setdefault(query, [])
        expired = recorder.expired.setdefault(query, [])

        def receive(batch: pa.RecordBatch, currents: list[Row] = currents, expired: list[Row] = expired) -> None:
            for kind, row in zip(batch.column(KIND).to_pylist(), _rows(batch), strict=True):
                (currents if kind == CURRENT else expired).append(row)

        recorder.schemas[query] = runtime.add_query_callback(query, receive)


def _rows(batch: pa.RecordBatch) -> list[Row]:
    columns = [
        [None if item is None else json.loads(item) for item in column.to_pylist()]
        if pa.types.is_binary(column.type)
        else written(column).to_pylist()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name not in (TIMESTAMP, KIND)
    ]
    values = zip(*columns, strict=True) if columns else [()] * batch.num_rows
    return [[stamp, list(row)] for stamp, row in zip(batch.column(TIMESTAMP).to_pylist(), values, strict=True)]


# ---- comparing


def _differences(case: Case, recorder: _Recorder) -> Iterator[str]:
    expect = case.document["expect"]
    for stream, rows in expect.get("streams", {}).items():
        if stream in recorder.streams:
            yield from _compare(f"stream {stream}", rows, recorder.streams[stream], recorder.schemas[stream], case)
        elif rows:
            yield f"stream {stream}: it does not exist"
    for query, answer in expect.get("queries", {}).items():
        schema = recorder.schemas[query]
        yield from _compare(f"query {query}", answer["in"], recorder.currents[query], schema, case)
        yield from _compare(f"query {query} removed", answer["removed"], recorder.expired[query], schema, case)
    for result in expect.get("results", ()):
        yield from _compare_answer(result, recorder.answers[result["step"]], case)
    for stream, attributes in expect.get("schemas", {}).items():
        schema_found = recorder.schemas.get(stream)
        found = [] if schema_found is None else [[name, type_.value] for name, type_ in schema_found.attributes]
        if found != attributes:
            yield f"schema of {stream}: expected {attributes}, got {found}"


def _compare_answer(expected: Mapping[str, Any], answer: _StoreAnswer, case: Case) -> Iterator[str]:
    what = f"on-demand query at step {expected['step']}"
    if "error" in expected:
        if answer.error is None:
            yield f"{what}: accepted, but should be refused"
    elif answer.error is not None:
        yield f"{what}: refused: {answer.error}"
    elif (answer.rows is None) != (expected["rows"] is None):
        yield f"{what}: expected {expected['rows']}, got {answer.rows}"
    elif answer.rows is not None and answer.schema is not None:
        yield from _compare(
            what, [[0, row] for row in expected["rows"]], [[0, row] for row in answer.rows], answer.schema, case
        )


def _compare(what: str, expected: list[Row], found: list[Row], schema: Schema, case: Case) -> Iterator[str]:
    if "java-hash-order" in case.tags:
        expected, found = _unordered(expected), _unordered(found)
    types = [type_ for _, type_ in schema.attributes]
    for place, (wanted, got) in enumerate(zip(expected, found, strict=False)):
        if not _same_row(wanted, got, types):
            yield f"{what}: row {place}: expected {wanted}, got {got}"
            return
    counts = f"{what}: expected {len(expected)} rows, got {len(found)}"
    if len(expected) > len(found):
        yield f"{counts}; first missing {expected[len(found)]}"
    elif len(expected) < len(found):
        yield f"{counts}; first surplus {found[len(expected)]}"


def _unordered(rows: list[Row]) -> list[Row]:
    """Return the rows of equal timestamps sorted, for chunks whose inner order means nothing."""
    return sorted(rows, key=lambda row: (row[0], json.dumps(row[1], sort_keys=True)))


def _same_row(expected: Row, found: Row, types: Sequence[AttributeType]) -> bool:
    if expected[0] != found[0] or len(expected[1]) != len(found[1]):
        return False
    return all(_same_value(wanted, got, type_) for wanted, got, type_ in zip(expected[1], found[1], types, strict=True))


def _same_value(wanted: Any, got: Any, type_: AttributeType) -> bool:
    if wanted is None or got is None:
        return wanted is got
    if type_ in _TOLERANCE:
        return is_number(str(wanted)) and _same_number(float(wanted), float(got), _TOLERANCE[type_])
    if type_ is AttributeType.OBJECT and isinstance(wanted, list) and isinstance(got, list):
        return sorted(map(json.dumps, wanted)) == sorted(map(json.dumps, got)) or wanted == got
    return bool(wanted == got) and isinstance(wanted, bool) == isinstance(got, bool)


def _same_number(wanted: float, got: float, tolerance: float) -> bool:
    if math.isnan(wanted) or math.isnan(got):
        return math.isnan(wanted) and math.isnan(got)
    if math.isinf(wanted) or math.isinf(got):
        return wanted == got
    return math.isclose(wanted, got, rel_tol=tolerance, abs_tol=tolerance)
