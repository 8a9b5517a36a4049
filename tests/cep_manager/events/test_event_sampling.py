"""Which events of a stream somebody who watches is shown."""

import pyarrow as pa
import pytest

from cep_common.protocol.links import StreamSchema
from cep_manager.errors import BadRequestError
from cep_manager.events.model import TailFilter
from cep_manager.events.sampling import LONGEST_TEXT, EventMatcher, as_events, sampled
from topology.events.frames import arrow_schema

SCHEMA = arrow_schema(
    StreamSchema("S", (("name", "string"), ("n", "long"), ("x", "double"), ("b", "bool"), ("o", "object")))
)


def batch(*rows: tuple[object, ...]) -> pa.RecordBatch:
    columns = list(zip(*((1_000 + place, 0, *row) for place, row in enumerate(rows)), strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


ROWS = batch(("Alpha", 1, 0.5, True, b"1"), ("beta", 2**62, float("nan"), False, b"{"), (None, None, None, None, None))


@pytest.mark.parametrize(
    ("attribute", "operator", "value", "names"),
    [
        ("name", "eq", "beta", ["beta"]),
        ("name", "contains", "ALPH", ["Alpha"]),
        ("name", "contains", "[", []),
        ("n", "gt", "1", ["beta"]),
        ("n", "eq", str(2**62), ["beta"]),
        ("x", "le", "0.5", ["Alpha"]),
        ("b", "ne", "true", ["beta"]),
        ("_timestamp", "ge", "1001", ["beta", None]),
    ],
)
def test_a_filter_lets_pass_what_compares_so(attribute: str, operator: str, value: str, names: list[object]) -> None:
    wanted = TailFilter(attribute, operator, value)  # type: ignore[arg-type]
    assert EventMatcher(wanted, SCHEMA).apply(ROWS).column("name").to_pylist() == names


@pytest.mark.parametrize(
    ("attribute", "operator", "value"),
    [
        ("nothing", "eq", "1"),
        ("_kind", "eq", "0"),
        ("n", "eq", "one"),
        ("n", "contains", "1"),
        ("o", "eq", "1"),
        ("b", "eq", "perhaps"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(attribute: str, operator: str, value: str) -> None:
    with pytest.raises(BadRequestError, match=attribute):
        EventMatcher(TailFilter(attribute, operator, value), SCHEMA)  # type: ignore[arg-type]


def test_an_attribute_called_as_the_time_is_shown_and_filtered_in_its_place() -> None:
    schema = arrow_schema(StreamSchema("S", (("_timestamp", "string"), ("_kind", "long"))))
    columns = ("_timestamp", "_kind", "`_timestamp`", "`_kind`")
    rows = pa.RecordBatch.from_pylist(
        [dict(zip(columns, row, strict=True)) for row in ((1, 0, "a", 7), (2, 0, "b", 8))], schema=schema
    )
    for attribute, value in (("_timestamp", "b"), ("_kind", "8")):
        passed = EventMatcher(TailFilter(attribute, "eq", value), schema).apply(rows)
        assert as_events(passed) == [{"_timestamp": "b", "_kind": 8}]


def test_a_sample_is_from_all_over_and_in_order() -> None:
    many = batch(*((str(number), number, 0.0, True, None) for number in range(100)))
    assert sampled(many, 4).column("n").to_pylist() == [0, 25, 50, 75]
    assert sampled(many, 200).num_rows == 100


def test_events_are_told_as_json_can_say_them() -> None:
    first, second, third = as_events(ROWS)
    assert first == {"_timestamp": 1_000, "name": "Alpha", "n": 1, "x": 0.5, "b": True, "o": 1}
    assert (second["n"], second["x"], second["o"]) == (str(2**62), "nan", "{")
    assert third["name"] is None
    (long,) = as_events(batch(("y" * 2_000, 1, 1.0, True, b'"' + b"z" * 2_000 + b'"')))
    assert (len(long["name"]), len(long["o"])) == (LONGEST_TEXT + 1, LONGEST_TEXT + 1)
