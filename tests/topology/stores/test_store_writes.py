"""What changes of a stored table come to in its database."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.engine.operators.tables.stored_table import RowChange
from topology.stores.pending import Row, RowMove, Writes, writes_of

SCHEMA = pa.schema([("k", pa.utf8()), ("v", pa.float64())])


def rows(*pairs: tuple[Any, Any]) -> list[Row]:
    return [{"k": k, "v": v} for k, v in pairs]


def change(removed: list[Row], added: list[Row]) -> RowChange:
    return RowChange(*(pa.RecordBatch.from_pylist(part, SCHEMA) if part else None for part in (removed, added)))


def test_of_a_row_only_its_last_state_is_written() -> None:
    changes = [
        change([], rows(("a", 1.0), ("b", 1.0), ("c", 1.0))),
        change(rows(("a", 1.0), ("x", 1.0)), rows(("a", 2.0), ("x", 2.0))),
        change(rows(("b", 1.0), ("y", 1.0)), []),
        change(rows(("z", 1.0)), []),
        change([], rows(("z", 5.0))),
    ]
    assert writes_of(changes, ("k",)) == Writes(
        [{"k": "y"}], rows(("x", 2.0), ("z", 5.0)), [], rows(("a", 2.0), ("c", 1.0))
    )


def test_a_row_whose_key_changed_leaves_its_old_one() -> None:
    writes = writes_of([change(rows(("a", 1.0)), rows(("b", 1.0)))], ("k",))
    assert writes == Writes([{"k": "a"}], [], [], rows(("b", 1.0)))


def test_rows_without_a_key_are_counted() -> None:
    nan = float("nan")
    changes = [
        change([], rows(("a", 1.0), ("a", 1.0), ("b", None))),
        change(rows(("a", 1.0), ("q", nan), ("q", float("nan"))), []),
        change(rows(("b", None)), []),
        change([], rows(("c", 3.0))),
    ]
    writes = writes_of(changes, ())
    assert (writes.inserts, writes.updates, writes.moves) == (rows(("a", 1.0), ("c", 3.0)), [], [])
    assert [row["k"] for row in writes.deletes] == ["q", "q"]
    assert not writes_of([change([], rows(("q", nan))), change(rows(("q", nan)), [])], ())


@pytest.mark.parametrize(
    ("changed", "writes"),
    [
        (
            [("a", "b"), ("a", "b"), ("b", "c"), ("b", "c")],
            Writes(moves=[RowMove({"k": "a", "v": 1.0}, {"k": "c", "v": 1.0}, 2)]),
        ),
        ([("a", "b"), ("b", "a")], Writes()),
        ([(None, "a"), ("a", "b")], Writes(inserts=rows(("b", 1)))),
        ([("a", "b"), ("b", None)], Writes(deletes=rows(("a", 1)))),
        (
            [("a", "b"), (None, "a")],
            Writes(moves=[RowMove({"k": "a", "v": 1.0}, {"k": "b", "v": 1.0}, 1)], inserts=rows(("a", 1))),
        ),
        ([("a", "b"), ("a", None)], Writes(deletes=rows(("a", 1), ("a", 1)), inserts=rows(("b", 1)))),
        ([("a", "b"), ("a", "c")], Writes(deletes=rows(("a", 1), ("a", 1)), inserts=rows(("b", 1), ("c", 1)))),
    ],
)
def test_rows_without_a_key_move_where_all_that_are_the_same_go_one_way(
    changed: list[tuple[str | None, str | None]], writes: Writes
) -> None:
    changes = [change(*(rows((name, 1.0)) if name else [] for name in pair)) for pair in changed]
    assert writes_of(changes, ()) == writes


LETTERS = st.sampled_from("abcd")


@settings(max_examples=examples(300), deadline=None)
@example(["b", "b"], [("b", None), ("b", "b"), ("b", "a"), ("b", "b")])
@given(st.lists(LETTERS, max_size=5), st.lists(st.tuples(LETTERS, st.none() | LETTERS), max_size=10))
def test_what_is_written_gives_the_rows_of_now(there: list[str], steps: list[tuple[str, str | None]]) -> None:
    """A step changes all rows of a name into those of another; or deletes one and inserts one."""
    now, changes = Counter(there), []
    for name, other in steps:
        removed = rows(*[(name, 1.0)] * now[name])
        added = [] if other is None else rows(*[(other, 1.0)] * now[name])
        if other == name:
            removed, added = [], rows((name, 1.0))
        now.update(row["k"] for row in added)
        now.subtract(row["k"] for row in removed)
        changes.append(change(removed, added))
    writes, found = writes_of(changes, ()), Counter(there)
    found.subtract(row["k"] for row in writes.deletes)
    for move in writes.moves:
        assert found[move.before["k"]] == move.rows
        found.subtract({move.before["k"]: move.rows})
        found.update({move.after["k"]: move.rows})
    found.update(row["k"] for row in writes.inserts)
    assert +found == +now
