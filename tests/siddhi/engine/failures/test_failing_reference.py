"""Joins, `in` and changes of tables whose conditions fail agree with loops over events and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.testing import Case, record_batch, run_case

Row = tuple[str | None, int | None, Any]
Chunk = list[Row]


class FailedError(Exception):
    """The event fails."""


def whole(item: Any) -> int | None:
    """`cast(item, 'int')`."""
    if isinstance(item, str):
        raise FailedError
    number: int | None = item
    return number


PARTS: dict[str, Callable[[Row, Row], bool]] = {
    "R.k == A.k": lambda row, event: row[0] is not None and row[0] == event[0],
    "A.v == R.v": lambda row, event: row[1] is not None and row[1] == event[1],
    "R.v < A.v": lambda row, event: row[1] is not None and event[1] is not None and row[1] < event[1],
    "cast(R.o, 'int') > 1": lambda row, _: (whole(row[2]) or 0) > 1,
    "cast(A.o, 'int') > 1": lambda _, event: (whole(event[2]) or 0) > 1,
    "R.v == cast(A.o, 'int')": lambda row, event: (found := whole(event[2])) is not None and row[1] == found,
}
CONDITIONS = st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=3, unique=True)
ROWS = st.tuples(
    st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 3), st.sampled_from([None, 1, 2, 3, "x"])
)
STEPS = st.lists(st.tuples(st.sampled_from(["Ask", "Put"]), st.lists(ROWS, min_size=1, max_size=3)), max_size=9)
ALONE = st.lists(st.tuples(st.sampled_from(["Ask", "Put"]), ROWS), max_size=14)
STREAMS = """@app:playback
@OnError(action='STREAM') define stream Ask (k string, v int, o object);
@OnError(action='STREAM') define stream Put (k string, v int, o object);
define stream Lost (k string, v int);
from !Ask select k, v insert into Lost; from !Put select k, v insert into Lost;
"""


def meets(condition: Sequence[str], row: Row, event: Row) -> bool:
    return all(PARTS[part](row, event) for part in condition)


def written(condition: Sequence[str], event: str, row: str) -> str:
    return " and ".join(condition).replace("A.", event).replace("R.", row)


# ---- changes of tables and `in`


class Table:
    """A table without key and index; changes by an event before it failed remain."""

    def __init__(self, condition: Sequence[str]) -> None:
        self.rows: list[list[Any]] = []
        self.condition = condition

    def test(self, row: list[Any], event: Row) -> bool:
        return meets(self.condition, (row[0], row[1], row[2]), event)

    def delete(self, chunk: Chunk) -> None:
        for event in chunk:
            for row in list(self.rows):
                if self.test(row, event):
                    self.rows = [other for other in self.rows if other is not row]

    def update(self, chunk: Chunk) -> None:
        for event in chunk:
            for row in self.rows:
                if self.test(row, event):
                    self.set(row, event)

    def set(self, row: list[Any], event: Row) -> None:
        row[0] = event[0]
        row[1] = whole(event[2])

    def contains(self, chunk: Chunk) -> None:
        for event in chunk:
            any(self.test(row, event) for row in self.rows)


CHANGES = {
    "delete": "from Ask delete T on {on};",
    "update": "from Ask update T set T.k = k, T.v = cast(o, 'int') on {on};",
    "contains": "from Ask[({on}) in T] insert into Out;",
}


@pytest.mark.thorough
@pytest.mark.parametrize("change", list(CHANGES))
@settings(max_examples=examples(40), deadline=None)
@given(condition=CONDITIONS, steps=STEPS)
def test_changes_of_a_table_agree_with_a_loop(
    change: str, condition: list[str], steps: list[tuple[str, Chunk]]
) -> None:
    on = written(condition, "Ask." if change == "contains" else "", "T.")
    query = f"define table T (k string, v int, o object); from Put insert into T; {CHANGES[change].format(on=on)}"
    head, _, queries = STREAMS.partition("from !Ask")
    table, _, rest = query.partition(";")
    runtime = AppRuntime(analyse(parse(f"{head}{table}; from !Ask{queries}{rest}")))
    lost: list[Any] = []
    runtime.add_stream_callback("Lost", lambda batch: lost.extend(zip(*batch.to_pydict().values(), strict=True)))
    runtime.start(0)
    model, expected = Table(condition), []
    for stream, chunk in steps:
        events = [{"timestamp": 1, "data": list(row)} for row in chunk]
        runtime.send(stream, record_batch(runtime.app.streams[stream].schema, events), as_chunk=True)
        if stream == "Put":
            model.rows += [list(row) for row in chunk]
            continue
        try:
            getattr(model, change)(chunk)
        except FailedError:
            expected += [row[:2] for row in chunk]
    assert [row[-2:] for row in lost] == expected
    found = runtime.query(analyse_on_demand_query(parse_on_demand_query("from T select k, v"), runtime.app))
    rows = [] if found is None else [[row["k"], row["v"]] for row in found.to_pylist()]
    assert rows == [row[:2] for row in model.rows]


# ---- joins


class Join:
    """Two sides, each a window of the last events or (0) a stream without a window; Ask keeps unmatched events."""

    def __init__(self, condition: Sequence[str], lengths: dict[str, int]) -> None:
        self.condition = condition
        self.lengths = lengths
        self.held: dict[str, list[tuple[int, Row]]] = {"Ask": [], "Put": []}
        self.out: list[Any] = []
        self.lost: list[Any] = []

    def take(self, stream: str, at: int, event: Row) -> None:
        own = self.held[stream]
        probes = [(event, True)]
        if self.lengths[stream]:
            own.append((at, event))
            if len(own) > self.lengths[stream]:
                probes.insert(0, (own.pop(0)[1], False))
        try:
            met = [(current, self.pairs(stream, probe)) for probe, current in probes]
        except FailedError:
            self.lost.append([at, list(event[:2])])
            return
        self.out += [[at, pair] for current, pairs in met if current for pair in pairs]

    def pairs(self, stream: str, probe: Row) -> list[Any]:
        others = [row for _, row in self.held["Put" if stream == "Ask" else "Ask"]]
        if stream == "Ask":
            found = [row for row in others if meets(self.condition, row, probe)]
            return [[probe[1], row[1]] for row in found] or [[probe[1], None]]
        return [[row[1], probe[1]] for row in others if meets(self.condition, probe, row)]


@pytest.mark.thorough
@pytest.mark.parametrize("lengths", [(0, 3), (2, 2), (1, 0)])
@pytest.mark.parametrize("batch_rows", [None, 1])
@settings(max_examples=examples(40), deadline=None)
@given(condition=CONDITIONS, events=ALONE)
def test_joins_agree_with_a_loop(
    lengths: tuple[int, int], batch_rows: int | None, condition: list[str], events: list[tuple[str, Row]]
) -> None:
    ask, put = (f"#window.length({length})" if length else "" for length in lengths)
    on = written(condition, "a.", "r.")
    app = f"{STREAMS} from Ask{ask} as a left outer join Put{put} as r on {on} select a.v as v, r.v as w insert into O;"
    model = Join(condition, {"Ask": lengths[0], "Put": lengths[1]})
    for at, (stream, event) in enumerate(events, 1):
        model.take(stream, at, event)
    document = {
        "listen": {"streams": ["O", "Lost"]},
        "events": [
            {"stream": stream, "timestamp": at, "data": list(event)} for at, (stream, event) in enumerate(events, 1)
        ],
        "expect": {"streams": {"O": model.out, "Lost": model.lost}},
    }
    assert run_case(Case("join", "join", app, document), batch_rows).differences == ()
