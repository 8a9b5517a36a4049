"""Events from before an edit of their stream, as the stream has them now."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cep_common.protocol.links import StreamSchema
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from topology.events.conversion import Attributes, attributes_of, conversion_problem, converted
from topology.events.frames import arrow_schema

HAD: Attributes = (("carrier", "string"), ("delay", "int"), ("price", "float"))
WIDER = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
}


def events(*rows: tuple[object, ...], attributes: Attributes = HAD) -> pa.RecordBatch:
    names = [name for name, _ in attributes]
    listed = [{"_timestamp": 5, "_kind": 0, **dict(zip(names, row, strict=True))} for row in rows]
    return pa.RecordBatch.from_pylist(listed, schema=arrow_schema(StreamSchema("S", attributes)))


def test_attributes_are_found_by_name_new_ones_are_null_and_others_are_left_out() -> None:
    has = (("gate", "string"), ("price", "double"), ("carrier", "string"))
    found = converted(events(("UA", 5, 1.5), (None, None, None)), has)
    assert attributes_of(found.schema) == has
    assert found.to_pylist() == [
        {"_timestamp": 5, "_kind": 0, "gate": None, "price": 1.5, "carrier": "UA"},
        {"_timestamp": 5, "_kind": 0, "gate": None, "price": None, "carrier": None},
    ]


def test_what_is_the_same_is_not_copied() -> None:
    batch = events(("UA", 5, 1.5))
    assert converted(batch, HAD) is batch


@pytest.mark.parametrize("had", sorted(ARROW_TYPES_BY_NAME))
@pytest.mark.parametrize("has", sorted(ARROW_TYPES_BY_NAME))
def test_types_may_become_wider_and_nothing_else(had: str, has: str) -> None:
    problem = conversion_problem((("a", had), ("b", "int")), (("a", has), ("b", "int")))
    assert (problem == "") is (had == has or (had, has) in WIDER)
    if problem:
        assert problem == f"a was {had} and is {has} now"


def test_the_largest_values_are_converted_as_java_does() -> None:
    batch = events((2**63 - 1,), attributes=(("a", "long"),))
    assert converted(batch, (("a", "double"),)).column("a").to_pylist() == [float(2**63 - 1)]
    assert converted(batch, (("a", "float"),)).column("a").to_pylist() == [float(2**63)]


def test_events_of_which_no_attribute_is_left_are_not_made_up() -> None:
    assert conversion_problem(HAD, (("other", "int"),)) == "none of their attributes exists any more"
    assert conversion_problem((), (("other", "int"),)) == ""
    assert conversion_problem(HAD, ()) == ""


def test_an_attribute_that_is_called_like_a_column_is_found() -> None:
    had: Attributes = (("_timestamp", "long"), ("a", "int"))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1], pa.int64()), pa.array([0], pa.int8()), pa.array([7], pa.int64()), pa.array([3], pa.int32())],
        schema=arrow_schema(StreamSchema("S", had)),
    )
    assert attributes_of(batch.schema) == had
    found = converted(batch, (("a", "long"), ("_timestamp", "long")))
    assert [column.to_pylist() for column in found.columns] == [[1], [0], [3], [7]]
