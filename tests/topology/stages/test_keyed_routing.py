"""Wherever instances share events by key, each key has one owner, and its events stay in order on the whole way."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from in_process_topology import InProcessTopology, rows

from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from siddhi.language.parser import parse
from topology.events.frames import CURRENT, arrow_schema
from topology.stages.settings import StageSettings

PLAN = """@Plan:name('P') @Plan:dist(publisherParallelism='2')
@Import('S:1.0.0') define stream S (k {type}, number long);
@Export('Out:1.0.0') define stream Out (k {type}, number long, before long);
@name('filter') @dist(parallel='3') from S[number >= 0] select k, number insert into Filtered;
@name('keyed') @dist(parallel='{parallel}') partition with ({key} of Filtered) begin
from Filtered{window} select k, number, min(number) as before insert into Out; end;"""

KEYS: dict[str, list[object]] = {
    "string": ["", "null", "a", "1", "1.0", "schön", "a\x00b"],
    "int": [*range(-3, 4), 2**31 - 1],
    "long": [*range(-3, 4), 2**62],
    "float": [0.5, -1.0, 1e10, 3.0, math.inf],
    "double": [0.5, -1.0, 1e10, 0.1 + 0.2, 3.0, math.nan, -math.inf],
    "bool": [True, False],
}
SHARED = [
    ("string", "k"),
    ("int", "k"),
    ("long", "k"),
    ("float", "k"),
    ("double", "k"),
    ("bool", "k"),
    ("string", "ifThenElse(k == 'a', '1', k)"),
    ("int", "k % 2"),
    ("double", "k * 2.0"),
    ("int", "k < 0 as 'below' or k >= 0 as 'above'"),
    ("long", "k < 2 as 'small' or k > 0 as 'large' or k == 1 as 'one'"),
]


def started(type_: str, key: str, parallel: int, window: str = "#window.length(2)") -> InProcessTopology:
    text = PLAN.format(type=type_, key=key, parallel=parallel, window=window)
    running = InProcessTopology(write_xml(build(analyse(parse(text)))), StageSettings())
    running.open(0)
    return running


def frame(type_: str, numbered: list[tuple[object, int]]) -> pa.RecordBatch:
    columns = {
        "_timestamp": pa.array([number for _, number in numbered], pa.int64()),
        "_kind": pa.array([CURRENT] * len(numbered), pa.int8()),
        "k": pa.array([key for key, _ in numbered], ARROW_TYPES_BY_NAME[type_]),
        "number": pa.array([number for _, number in numbered], pa.int64()),
    }
    return pa.record_batch(columns)


def taken(running: InProcessTopology, stage: str) -> dict[str, list[tuple[str, int]]]:
    """What each instance of `stage` got: keys in words, and numbers."""
    return {
        name: [(repr(key), number) for _, batch in batches for _, key, number in rows(batch)]
        for name, batches in running.taken.items()
        if name.startswith(f"{stage}#")
    }


@pytest.mark.parametrize("parallel", [2, 3])
@pytest.mark.parametrize(("type_", "key"), SHARED)
def test_each_key_has_one_owner_and_its_events_stay_in_order(type_: str, key: str, parallel: int) -> None:
    """One topology lives through all examples, so that owners must be the same in all of them."""
    running = started(type_, key, parallel)
    owners: defaultdict[str, set[str]] = defaultdict(set)
    many = 3 if " as " in key else 1  # an event goes to the owner of each of its labels
    first = 0

    @given(st.lists(st.lists(st.none() | st.sampled_from(KEYS[type_]), min_size=1, max_size=9), min_size=1, max_size=6))
    @example([[None, *KEYS[type_]]])  # all of them are spread, whatever is drawn
    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=[HealthCheck.nested_given])
    def check(frames: list[list[object]]) -> None:
        nonlocal first
        running.taken.clear()
        running.out.clear()
        sent = 0
        for keys in frames:
            running.send("S", frame(type_, list(zip(keys, range(first, first + len(keys)), strict=True))), first)
            first += len(keys)
            sent += len(keys)
        got = taken(running, "keyed")
        for name, events in got.items():
            assert all(one < other for (_, one), (_, other) in pairwise(events))
            for word, _ in events:
                owners[word].add(name)
        assert all(len(names) <= many for names in owners.values())
        assert many > 1 or sum(map(len, got.values())) == sent
        given_out: defaultdict[str, list[int]] = defaultdict(list)
        for _, (_, word, number, before) in running.out:
            assert isinstance(number, int)
            assert before <= number
            given_out[repr(word)].append(number)
        assert many > 1 or all(one < other for numbers in given_out.values() for one, other in pairwise(numbers))

    check()
    assert len(set().union(*owners.values())) > 1, "the keys are spread"


STAMPED = """@Plan:name('P')
@Import('S:1.0.0') define stream S (_timestamp long, _kind string);
@Export('Out:1.0.0') define stream Out (_timestamp long, _kind string, n long);
@name('filter') from S[_timestamp > 0] select * insert into Filtered;
@name('keyed') @dist(parallel='3') partition with ({key} of Filtered) begin
from Filtered select _timestamp, _kind, count() as n insert into Out; end;"""


@pytest.mark.parametrize(
    "key", ["_timestamp", "_kind", "_timestamp % 5", "_timestamp < 5 as 'a' or _timestamp > 4 as 'b'"]
)
def test_keys_may_be_called_as_the_columns_of_batches(key: str) -> None:
    running = InProcessTopology(write_xml(build(analyse(parse(STAMPED.format(key=key))))), StageSettings())
    running.open(0)
    schema = running.topology.streams["S"]
    events = [
        {"_timestamp": 100 + number, "_kind": CURRENT, "`_timestamp`": number, "`_kind`": f"k{number}"}
        for number in range(10)
    ]
    for start in (0, 5):
        batch = pa.RecordBatch.from_pylist(events[start : start + 5], schema=arrow_schema(schema))
        running.send("S", batch, 100 + start)
    running.finish(200)
    assert len([name for name in running.taken if name.startswith("keyed#")]) > 1
    out = sorted(row for _, row in running.out)
    assert [row[:3] for row in out] == [(100 + number, number, f"k{number}") for number in range(1, 10)]
    if key in ("_timestamp", "_kind"):
        assert {row[3] for row in out} == {1}


def test_of_a_hundred_thousand_keys_each_is_seen_by_exactly_one_instance_and_none_is_lost() -> None:
    running = started("long", "k", 4, window="")
    keys = [number * 2_654_435_761 % 2**40 for number in range(100_000)]
    for round_ in range(2):
        for start in range(0, len(keys), 10_000):
            part = keys[start : start + 10_000]
            running.send("S", frame("long", [(key, round_) for key in part]), round_)
    seen = [[key for key, _ in events] for events in taken(running, "keyed").values()]
    assert sum(len(set(one)) for one in seen) == len(set(keys)) == len(keys)
    assert all(len(one) == 2 * len(set(one)) for one in seen)
    assert len(running.out) == 2 * len(keys)
    assert all(20_000 < len(set(one)) < 30_000 for one in seen)
