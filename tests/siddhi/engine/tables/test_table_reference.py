"""Tables written by queries, with and without indexes, agree with a plain list that processes event by event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siddhi.analysis.analyser import analyse
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.tables.table import Table
from siddhi.language.parser import parse, parse_on_demand_query

Row = tuple[str | None, int | None]
Condition = Callable[[Row, Row], bool]


def _equal(left: Any, right: Any) -> bool:
    return left is not None and left == right


def _less(left: int | None, right: int | None) -> bool:
    return left is not None and right is not None and left < right


def _same_key(row: Row, event: Row) -> bool:
    return row[0] == event[0]


CONDITIONS: dict[str, Condition] = {
    "T.k == k": lambda row, event: _equal(row[0], event[0]),
    "T.v == v": lambda row, event: _equal(row[1], event[1]),
    "T.k == k and T.v < v": lambda row, event: _equal(row[0], event[0]) and _less(row[1], event[1]),
    "T.v == v and k == T.k": lambda row, event: _equal(row[0], event[0]) and _equal(row[1], event[1]),
    "v < T.v": lambda row, event: _less(event[1], row[1]),
}
ON_KEY = "T.k == k"
"""With a primary key on k, equality on it and nothing else is a lookup, in which null finds null."""
SETS: dict[str, Callable[[Row, Row], Row]] = {
    "set T.v = v": lambda row, event: (row[0], event[1]),
    "set T.v = T.v + v": lambda row, event: (
        row[0],
        None if row[1] is None or event[1] is None else row[1] + event[1],
    ),
}
KEYS = st.sampled_from(["a", "b", "c", None])
VALUES = st.none() | st.integers(0, 4)
EVENTS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
INDEXES = ["", "@index('k')", "@index('v')", "@PrimaryKey('k')", "@PrimaryKey('k') @index('v')"]


def app(annotations: str, condition: str, assignment: str) -> str:
    streams = "".join(f"define stream {name} (k string, v int);" for name in ("Put", "Drop", "Change", "Merge"))
    return (
        f"@app:playback {streams} {annotations} define table T (k string, v int);"
        "from Put select k, v insert into T;"
        f"from Drop select k, v delete T on {condition};"
        f"from Change select k, v update T {assignment} on {condition};"
        f"from Merge select k, v update or insert into T {assignment} on {condition};"
    )


class Reference:
    """The table as a list of rows, in order of insertion; `unique` says that k is its primary key."""

    def __init__(self, condition: Condition, change: Callable[[Row, Row], Row], *, unique: bool) -> None:
        self.rows: list[Row] = []
        self._meets = condition
        self._change = change
        self._unique = unique

    def take(self, action: str, event: Row) -> None:
        hit = [number for number, row in enumerate(self.rows) if self._meets(row, event)]
        if action == "Drop":
            self.rows = [row for number, row in enumerate(self.rows) if number not in hit]
        elif action == "Put" or (action == "Merge" and not hit):
            if not (self._unique and any(row[0] == event[0] for row in self.rows)):
                self.rows.append(event)
        else:
            for number in hit:
                self.rows[number] = self._change(self.rows[number], event)


def records(events: list[Row], first_ms: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "_timestamp": pa.array(range(first_ms, first_ms + len(events)), pa.int64()),
            "k": pa.array([k for k, _ in events], pa.string()),
            "v": pa.array([v for _, v in events], pa.int32()),
        }
    )


def asked(runtime: AppRuntime, question: str) -> list[Row]:
    found = runtime.query(analyse_on_demand_query(parse_on_demand_query(question), runtime.app))
    return [] if found is None else [(row["k"], row["v"]) for row in found.to_pylist()]


@pytest.mark.thorough
@settings(deadline=None)
@given(
    st.sampled_from(INDEXES),
    st.sampled_from(sorted(CONDITIONS)),
    st.sampled_from(sorted(SETS)),
    st.lists(st.tuples(st.sampled_from(["Put", "Drop", "Change", "Merge"]), EVENTS), max_size=8),
)
def test_a_table_written_in_batches_agrees_with_one_that_takes_event_by_event(
    annotations: str, condition: str, assignment: str, writes: list[tuple[str, list[Row]]]
) -> None:
    runtime = AppRuntime(analyse(parse(app(annotations, condition, assignment))))
    runtime.start()
    unique = "PrimaryKey" in annotations
    meets = CONDITIONS[condition]
    if unique and condition == ON_KEY:
        meets = _same_key
    reference = Reference(meets, SETS[assignment], unique=unique)
    for number, (action, events) in enumerate(writes):
        runtime.send(action, records(events, 1_000 * (number + 1)))
        for event in events:
            reference.take(action, event)
        assert asked(runtime, "from T select k, v") == reference.rows
    assert asked(runtime, "from T on k == 'a' select k, v") == [row for row in reference.rows if row[0] == "a"]
    both = asked(runtime, "from T on v == 2 and k == 'b' and v < 3 select k, v")
    assert both == [row for row in reference.rows if row == ("b", 2)]


def test_a_question_with_an_indexed_equality_does_not_look_at_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = AppRuntime(analyse(parse(app("@index('k')", "T.k == k", "set T.v = v"))))
    runtime.start()
    runtime.send("Put", records([("a", 1), ("b", 2), ("a", 3)], 1_000))

    def all_places(_table: Table) -> None:
        raise AssertionError("the whole table was looked at")

    monkeypatch.setattr(Table, "places", all_places)
    assert asked(runtime, "from T on T.k == 'a' and v > 1 select k, v") == [("a", 3)]
    with pytest.raises(AssertionError, match="whole table"):
        asked(runtime, "from T on v == 1 select k, v")
