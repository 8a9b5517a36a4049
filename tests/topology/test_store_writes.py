"""What changes of a stored table come to in its database."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from siddhi.engine.tables.stored_table import RowChange
from topology.stores.pending import Row, Writes, writes_of

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
        [{"k": "y"}], rows(("x", 2.0), ("z", 5.0)), rows(("a", 2.0), ("c", 1.0))
    )


def test_a_row_whose_key_changed_leaves_its_old_one() -> None:
    writes = writes_of([change(rows(("a", 1.0)), rows(("b", 1.0)))], ("k",))
    assert writes == Writes([{"k": "a"}], [], rows(("b", 1.0)))


def test_rows_without_a_key_are_counted() -> None:
    nan = float("nan")
    changes = [
        change([], rows(("a", 1.0), ("a", 1.0), ("b", None))),
        change(rows(("a", 1.0), ("q", nan), ("q", float("nan"))), rows(("c", 3.0))),
        change(rows(("b", None)), []),
    ]
    writes = writes_of(changes, ())
    assert (writes.inserts, writes.updates) == (rows(("a", 1.0), ("c", 3.0)), [])
    assert [row["k"] for row in writes.deletes] == ["q", "q"]
    assert not writes_of([change([], rows(("q", nan))), change(rows(("q", nan)), [])], ())
