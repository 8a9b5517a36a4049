"""Order and equality of objects as in Java."""

from __future__ import annotations

import math
from typing import Any

import pytest

from siddhi.engine.columnar.java_order import hash_ranks, object_hash, string_hash, string_hashes
from siddhi.testing import Case, restored, run_case


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("hello", 99162322),
        (5, 5),
        (-1, 0xFFFFFFFF),
        (1 << 40, 256),
        (1.5, 1073217536),
        (-0.0, 0x80000000),
        (math.nan, 0x7FF80000),
        (True, 1231),
        (None, 0),
        ([1, 2], 994),
        (frozenset([1, 2]), 3),
        ({"a": 1}, 96),
        ([[], {}], 31 * (31 + 1)),
    ],
)
def test_objects_have_the_hash_codes_of_java(value: object, code: int) -> None:
    assert object_hash(value) == code


def test_codes_whose_difference_is_too_large_stand_the_other_way_round() -> None:
    assert hash_ranks([1, 2, 2, 0xFFFFFFFF]) == [1, 2, 2, 0]
    assert hash_ranks([0x7FFFFFFF, 0x80000001]) == [0, 1]


def differences(app: str, rows: list[Any], events: list[Any]) -> tuple[str, ...]:
    """Return the differences between `rows` and the output of `app` for values of S, one event each millisecond."""
    document = {
        "listen": {"streams": ["O"]},
        "events": [{"stream": "S", "timestamp": at, "data": data} for at, data in enumerate(events, 1)],
        "expect": {"streams": {"O": [[at, row] for at, row in rows]}},
    }
    return run_case(Case("java", "java", app, document), 1, restored).differences


@pytest.mark.parametrize(("order", "places"), [("asc", [4, 2, 1, 3]), ("desc", [1, 2, 4, 3])])
def test_objects_are_sorted_by_their_hash_codes_and_nulls_are_last(order: str, places: list[int]) -> None:
    app = f"@app:playback define stream S (o object); from S#window.lengthBatch(4) select o order by o {order} "
    objects = ["b", "a", None, 5]
    rows = [(place, [objects[place - 1]]) for place in places]
    assert differences(app + "insert into O;", rows, [[item] for item in objects]) == ()


def test_what_is_no_number_stands_in_a_union_once() -> None:
    app = "@app:playback define stream S (v double); from S#window.length(2) "
    app += "select sizeOfSet(unionSet(createSet(v))) as n insert into O;"
    events = [["NaN"], ["NaN"], ["NaN"], [1.0], [2.0], ["NaN"]]
    rows = [(at, [n]) for at, n in enumerate([1, 1, 1, 2, 2, 2], 1)]
    assert differences(app, rows, events) == ()


def test_many_texts_are_hashed_like_each() -> None:
    for texts in (["", "a", "Zürich", "k\0", "\uffff" * 9], ["a", "\U0001f600"], ["x" * 200, "y"], [""], []):
        assert string_hashes(texts).tolist() == [string_hash(text) for text in texts]
