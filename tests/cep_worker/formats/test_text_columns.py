"""Texts as values, read as Java reads them where that makes sense."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import MOST_DETAILS, EventsRejectedError
from cep_worker.formats.text_columns import TextColumns, read_column


def one(kind: str, text: str) -> Any:
    values, problems = read_column(kind, pa.array([text], pa.string()))
    return problems[0][1] if problems else values[0].as_py()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", " a ", " a "),
        ("string", "", ""),
        ("int", "-2147483648", -(2**31)),
        ("int", "+5", 5),
        ("int", " 5\n", 5),
        ("int", "2147483648", "is out of range for int"),
        ("int", "1.5", "must be int, not '1.5'"),
        ("int", "0x1F", "must be int, not '0x1F'"),
        ("int", "1_000", "must be int, not '1_000'"),
        ("long", "9223372036854775807", 2**63 - 1),
        ("long", "-9223372036854775809", "is out of range for long"),
        ("long", "9" * 100, "is out of range for long"),
        ("long", "9" * 5_000, f"must be long, not '{'9' * 40}…'"),
        ("float", "55.6", pytest.approx(55.6)),
        ("float", "1e39", "is out of range for float"),
        ("double", "1e39", 1e39),
        ("double", ".5e1", 5.0),
        ("double", " 7.", 7.0),
        ("double", "1.5f", 1.5),
        ("double", "0x1p3", 8.0),
        ("double", "0x1p99999", "is out of range for double"),
        ("double", "1e999", "is out of range for double"),
        ("double", "-Infinity", float("-inf")),
        ("double", "inf", "must be double, not 'inf'"),
        ("double", "1,5", "must be double, not '1,5'"),
        ("bool", "TRUE", True),
        ("bool", " false", False),
        ("bool", "yes", "must be bool, not 'yes'"),
        ("object", "WzEsMl0=", b"[1,2]"),
    ],
)
def test_a_text_is_the_value_that_java_reads_or_none(kind: str, text: str, value: Any) -> None:
    assert one(kind, text) == value


@pytest.mark.parametrize("text", ["[1,2]", "eHg=", "é"])
def test_an_object_is_json_in_base64(text: str) -> None:
    assert "must be object: JSON in base64" in one("object", text)


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_any_double_is_read_back(numbers: list[float | None]) -> None:
    texts = pa.array([None if number is None else repr(number) for number in numbers], pa.string())
    values, problems = read_column("double", texts)
    assert (values.to_pylist(), problems) == (numbers, [])


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_any_long_is_read_back(numbers: list[int | None]) -> None:
    texts = pa.array([None if number is None else str(number) for number in numbers], pa.string())
    assert read_column("long", texts) == (pa.array(numbers, pa.int64()), [])


def columns(*texts: list[str | None]) -> list[pa.Array]:
    return [pa.array(column, pa.string()) for column in texts]


def test_the_time_stands_in_the_attribute_that_is_named_and_may_not_be_null() -> None:
    schema = StreamSchema("S", (("n", "int"), ("t", "long")))
    batch = TextColumns(schema, "t").batch(columns(["1", "2"], ["70", "80"]), now_ms=9)
    assert batch.column("_timestamp").to_pylist() == [70, 80]
    with pytest.raises(EventsRejectedError) as error:
        TextColumns(schema, "t").batch(columns(["1", "x"], [None, "80"]), now_ms=9)
    assert [(one.index, one.attribute) for one in error.value.details] == [(0, "t"), (1, "n")]
    with pytest.raises(EventsRejectedError) as error:
        TextColumns(schema, "t").batch(columns(["1"], ["soon"]), now_ms=9)
    assert [one.problem for one in error.value.details] == ["must be long, not 'soon'"]


def test_an_attribute_called_timestamp_is_the_time_unless_it_is_null() -> None:
    schema = StreamSchema("S", (("_timestamp", "long"),))
    assert TextColumns(schema).batch(columns(["5", None]), now_ms=9).column("_timestamp").to_pylist() == [5, 9]


@pytest.mark.parametrize(("name", "why"), [("n", "n is string"), ("x", "x is not an attribute")])
def test_only_an_attribute_of_whole_numbers_holds_the_time(name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        TextColumns(StreamSchema("S", (("n", "string"),)), name)


def test_a_refusal_names_at_most_a_hundred_problems() -> None:
    with pytest.raises(EventsRejectedError) as error:
        TextColumns(StreamSchema("S", (("n", "int"),))).batch(columns(["x"] * 150), now_ms=9)
    assert error.value.message == "100 of 150 events do not fit stream S; none was accepted"
    assert len(error.value.details) == MOST_DETAILS
