"""Read test cases, with events and expected results, from JSON lines, and check their form."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siddhi.analysis.model import AnalysedApp, AnalysedPartition, Schema
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType

_OPENERS: Mapping[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
CASE_FILES = (".jsonl", ".jsonl.gz", ".jsonl.xz")
"""The suffixes of case files."""
_LISTEN = '{"streams": ["Out"], "queries": []}'
_WHOLE = {AttributeType.INT: 31, AttributeType.LONG: 63}


@dataclass(frozen=True, slots=True)
class Case:
    """A test case as read from its file. `document` is the whole JSON object.

    `fault` is the reason why it cannot be run, empty if it can.
    """

    id: str
    feature: str
    app: str
    document: Mapping[str, Any] = field(repr=False)
    fault: str = ""

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the case."""
        return frozenset(self.document.get("tags", ()))


class MalformedCaseError(SiddhiRuntimeError):
    """A test case that cannot be run, with the position and the reason."""

    def __init__(self, message: str) -> None:
        """Create the error.

        Args:
            message: The place in the file, and what is wrong there.
        """
        super().__init__(Problem("bad-case", message))


def load_cases(path: str | Path) -> Iterator[Case]:
    """Yield the cases of a JSON-lines file, plain or compressed as `.gz` or `.xz`, in order.

    A line that is not a case yields one with a `fault`, and so does a file that is cut off or cannot be decompressed:
    nothing is raised for the contents of the file.

    Raises:
        OSError: the file cannot be opened.
    """
    opener = _OPENERS.get(Path(path).suffix, open)
    number = 0
    try:
        with opener(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _read_case(line, f"{path}: line {number}")
    except (EOFError, OSError, lzma.LZMAError) as error:
        where = f"{path}: line {number + 1}"
        yield _faulty(where, f"{where}: the file cannot be read: {error}")


def _read_case(line: bytes, where: str) -> Case:
    try:
        document = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return _faulty(where, f"{where}: is not JSON: {error}")
    if not isinstance(document, dict):
        return _faulty(where, f"{where}: is not a JSON object")
    case_id = document.get("id")
    name = case_id if isinstance(case_id, str) else where
    fault = _fault(document)
    if fault:
        return _faulty(name, f"{where}: {fault}", str(document.get("feature", "")), document)
    return Case(name, str(document.get("feature", "")), document["app"], document)


def _faulty(name: str, fault: str, feature: str = "", document: Mapping[str, Any] | None = None) -> Case:
    return Case(name, feature, "", document or {}, fault)


def _fault(document: Mapping[str, Any]) -> str:
    """Return why `document` is not a valid case; empty if it is."""
    missing = [key for key in ("id", "app", "events") if key not in document]
    if missing:
        return f"is not a case, it has no {' and no '.join(missing)}"
    for key in ("id", "app"):
        if not isinstance(document[key], str):
            return f"{key} must be a text"
    if not isinstance(document["events"], list):
        return "events must be a list"
    if "error" in document:
        return ""
    listen = document.get("listen")
    if not isinstance(listen, dict) or not all(_are_texts(listen.get(key, [])) for key in ("streams", "queries")):
        return f"listen must name what to listen to, such as {_LISTEN}"
    return _fault_of_expected(document)


def _fault_of_expected(document: Mapping[str, Any]) -> str:
    expect = document.get("expect")
    if not isinstance(expect, dict):
        return 'expect must contain the results, such as {"streams": {"Out": [[1000, ["a", 1]]]}}'
    listen = document["listen"]
    for stream, rows in _items(expect.get("streams")):
        if not _are_rows(rows):
            return f"expect.streams.{stream} must be a list of rows [timestamp, [values]]"
    for query, answer in _items(expect.get("queries")):
        if not isinstance(answer, dict) or not all(_are_rows(answer.get(key)) for key in ("in", "removed")):
            return f"expect.queries.{query} must have rows in and removed"
        if query not in listen.get("queries", ()):
            return f"expect.queries names '{query}', but listen.queries does not"
    queries = {step for step, event in enumerate(document["events"]) if isinstance(event, dict) and "query" in event}
    for result in expect.get("results") or ():
        if not isinstance(result, dict) or result.get("step") not in queries or not {"rows", "error"} & result.keys():
            return "expect.results must name the step of an on-demand query, and rows or error"
    return ""


def _items(found: Any) -> list[tuple[str, Any]]:
    return list(found.items()) if isinstance(found, dict) else []


def _are_texts(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, str) for item in items)


def _are_rows(rows: Any) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == 2 and isinstance(row[1], list) for row in rows
    )


# ---- events against the app


def check_events(document: Mapping[str, Any], app: AnalysedApp) -> None:
    """Check that each event of a case can be sent to `app`. Raise MalformedCaseError for the first invalid one."""
    known = _query_names(app)
    for query in document["listen"].get("queries", ()):
        if query not in known:
            raise MalformedCaseError(f"listen.queries: no query is called '{query}'")
    for number, event in enumerate(document["events"], 1):
        where = f"event {number}"
        if not isinstance(event, dict):
            raise MalformedCaseError(f"{where}: must be a JSON object")
        if "advance_time" in event:
            _check_time(event["advance_time"], f"{where}: advance_time")
        elif "query" in event:
            if not isinstance(event["query"], str):
                raise MalformedCaseError(f"{where}: query must be a text")
        else:
            _check_sent(event, app, where)


def _query_names(app: AnalysedApp) -> set[str]:
    names: set[str] = set()
    for element in app.elements:
        queries = element.queries if isinstance(element, AnalysedPartition) else (element,)
        names.update(query.name for query in queries)
    return names


def _check_sent(event: Mapping[str, Any], app: AnalysedApp, where: str) -> None:
    stream = event.get("stream")
    if "data" not in event and "batch" not in event:
        raise MalformedCaseError(f"{where}: has neither stream and data (or batch), nor advance_time, nor query")
    schema = schema_of(app, stream) if isinstance(stream, str) else None
    if schema is None:
        raise MalformedCaseError(f"{where}: stream {json.dumps(stream)} is not a stream of the app that takes events")
    if "data" in event:
        _check_row(event, schema, where)
        return
    batch = event["batch"]
    if not isinstance(batch, list) or not batch:
        raise MalformedCaseError(f"{where}: batch must be a list of events, and not an empty one")
    for place, row in enumerate(batch, 1):
        if not isinstance(row, dict):
            raise MalformedCaseError(f"{where}: batch, row {place}: must be a JSON object")
        _check_row(row, schema, f"{where}: batch, row {place}")


def schema_of(app: AnalysedApp, source: str) -> Schema | None:
    """Return the schema of a stream or a named window, both of which accept events; None if there is no such source."""
    if source in app.streams:
        return app.streams[source].schema
    return app.windows[source].schema if source in app.windows else None


def _check_row(row: Mapping[str, Any], schema: Schema, where: str) -> None:
    data = row.get("data")
    if not isinstance(data, list):
        raise MalformedCaseError(f"{where}: data must be a list of values")
    if "timestamp" not in row:
        raise MalformedCaseError(f"{where}: has no timestamp")
    _check_time(row["timestamp"], f"{where}: timestamp")
    if len(data) != len(schema.attributes):
        attributes = ", ".join(f"{name} {type_.value}" for name, type_ in schema.attributes)
        known = f"'{schema.id}' has {len(schema.attributes)} ({attributes})"
        raise MalformedCaseError(f"{where}: has {_count(data)}, but {known}")
    for (name, type_), value in zip(schema.attributes, data, strict=True):
        if not _fits(value, type_):
            raise MalformedCaseError(f"{where}: {name}: {_shown(value)} is not {type_.value}")


def _count(data: list[Any]) -> str:
    return "1 value" if len(data) == 1 else f"{len(data)} values"


def _check_time(value: Any, where: str) -> None:
    if not _fits(value, AttributeType.LONG) or value is None:
        raise MalformedCaseError(f"{where} must be a whole number of milliseconds, not {_shown(value)}")


def _fits(value: Any, type_: AttributeType) -> bool:
    """Return whether `value` is valid for an attribute of that type."""
    if value is None or type_ is AttributeType.OBJECT:
        return True
    if type_ is AttributeType.STRING:
        return isinstance(value, str)
    if type_ is AttributeType.BOOL:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if type_ in _WHOLE:
        limit = 1 << _WHOLE[type_]
        return isinstance(value, int) and -limit <= value < limit
    return isinstance(value, int | float) or (isinstance(value, str) and is_number(value))


def is_number(text: str) -> bool:
    """Return whether `text` is a number, `NaN`, `Infinity` or `-Infinity`."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"
