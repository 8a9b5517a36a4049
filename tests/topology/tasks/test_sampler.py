"""Sampling in stages: little is told, whatever goes through, and it ends by itself."""

import json

import pyarrow as pa

from cep_common.protocol.tasks import SampleOrder
from topology.events.bundle import Bundle
from topology.events.frames import CURRENT, arrow_schema
from topology.model import StreamSchema
from topology.stages.tasks.sampler import EVENTS_A_SECOND, LONGEST_EVENT, MOST_BYTES, MOST_KEPT, Sampler

SCHEMA = arrow_schema(StreamSchema("Late", (("origin", "string"), ("delay", "int"))))
NOW_MS = 1_767_225_600_000


def bundle(rows: int, text: str = "ORD") -> Bundle:
    columns = [
        pa.array([NOW_MS] * rows),
        pa.array([CURRENT] * rows, pa.int8()),
        pa.array([text] * rows),
        pa.array(range(rows), pa.int32()),
    ]
    return Bundle("lateness#0", "lateness#0", 0, batches=(("Late", pa.record_batch(columns, schema=SCHEMA)),))


def sampling(percent: float = 100, left_ms: int = 60_000, at_ms: int = 0) -> Sampler:
    sampler = Sampler()
    sampler.follow((SampleOrder("lateness", percent, left_ms),), at_ms)
    return sampler


def test_what_is_told_says_where_when_and_what_without_the_event_kind() -> None:
    sampler = sampling()
    sampler.note("lateness#1", "out", bundle(1), NOW_MS, 0)
    (event,) = sampler.take()
    assert (event.instance, event.direction, event.stream, event.at_ms) == ("lateness#1", "out", "Late", NOW_MS)
    assert json.loads(event.event) == {"_timestamp": NOW_MS, "origin": "ORD", "delay": 0}
    assert sampler.take() == ()


def test_an_attribute_called_as_the_time_is_told_in_its_place() -> None:
    schema = arrow_schema(StreamSchema("Late", (("_timestamp", "string"), ("_kind", "int"))))
    row = {"_timestamp": NOW_MS, "_kind": CURRENT, "`_timestamp`": "five", "`_kind`": 7}
    batch = pa.RecordBatch.from_pylist([row], schema=schema)
    sampler = sampling()
    sampler.note("lateness#1", "in", Bundle("a#0", "a#0", 0, batches=(("Late", batch),)), NOW_MS, 0)
    (event,) = sampler.take()
    assert json.loads(event.event) == {"_timestamp": "five", "_kind": 7}


def test_a_share_is_kept_over_many_small_bundles() -> None:
    sampler = sampling(percent=10)
    for second in range(50):
        sampler.note("lateness#0", "in", bundle(1), NOW_MS, second * 1_000)
    assert len(sampler.take()) == 5


def test_a_second_tells_so_many_events_from_all_over_a_bundle_however_many_come() -> None:
    sampler = sampling()
    sampler.note("lateness#0", "in", bundle(10_000), NOW_MS, 0)
    sampler.note("lateness#0", "in", bundle(10_000), NOW_MS, 999)
    delays = [json.loads(event.event)["delay"] for event in sampler.take()]
    assert delays == list(range(0, 10_000, 10_000 // EVENTS_A_SECOND))
    sampler.note("lateness#0", "in", bundle(1), NOW_MS, 1_000)
    assert len(sampler.take()) == 1


def test_stages_that_nobody_asked_for_are_left_alone() -> None:
    sampler = sampling()
    sampler.note("storms#0", "in", bundle(5), NOW_MS, 0)
    assert sampler.take() == ()


def test_an_order_ends_by_itself_and_one_that_is_gone_at_once() -> None:
    sampler = sampling(left_ms=1_000, at_ms=5_000)
    sampler.note("lateness#0", "in", bundle(1), NOW_MS, 5_999)
    assert len(sampler.take()) == 1
    sampler.note("lateness#0", "in", bundle(1), NOW_MS, 6_000)
    assert sampler.take() == ()
    assert sampler.on
    sampler.follow((), 6_100)
    assert not sampler.on


def test_an_order_that_goes_on_does_not_begin_its_share_anew() -> None:
    sampler = sampling(percent=50)
    for second in range(4):
        sampler.note("lateness#0", "in", bundle(1), NOW_MS, second * 1_000)
        sampler.follow((SampleOrder("lateness", 50, 60_000),), second * 1_000)
    assert len(sampler.take()) == 2


def test_a_registration_carries_bounded_bytes_and_the_next_one_the_rest() -> None:
    sampler = sampling()
    for second in range(10):
        sampler.note("lateness#0", "in", bundle(10, text="x" * 5_000), NOW_MS, second * 1_000)
    first = sampler.take()
    assert all(len(event.event) == LONGEST_EVENT + 1 for event in first)
    assert MOST_BYTES <= sum(len(event.event) for event in first) + 100 * len(first) < MOST_BYTES + 3_000
    assert 0 < len(sampler.take()) < 100


def test_what_nobody_takes_is_forgotten_the_oldest_first() -> None:
    sampler = sampling()
    for second in range(MOST_KEPT // 10 + 5):
        sampler.note("lateness#0", "in", bundle(10), NOW_MS + second, second * 1_000)
    told = []
    while more := sampler.take():
        told.extend(more)
    assert len(told) == MOST_KEPT
    assert told[0].at_ms == NOW_MS + 5
