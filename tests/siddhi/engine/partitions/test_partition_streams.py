"""A stream with a key in a partition that no query inside reads."""

from __future__ import annotations

from siddhi.testing import Case, run_case

STREAMS = "@app:playback define stream S (k string, v int); define stream T (k string, v int);"


def played(partition: str, events: list[tuple[str, int, str]], expected: list[list[object]]) -> tuple[str, ...]:
    document = {
        "id": "unread",
        "app": STREAMS + partition,
        "start_time": 1000,
        "events": [{"stream": stream, "timestamp": time, "data": [key, 1]} for stream, time, key in events],
        "listen": {"streams": ["O"], "queries": []},
        "expect": {"streams": {"O": expected}},
    }
    return run_case(Case("unread", "partition", str(document["app"]), document)).differences


def test_it_opens_no_instance_whose_silence_could_be_noticed() -> None:
    partition = """partition with (k of S, k of T) begin
        from not S for 100 milliseconds select 'silent' as o insert into O; end;"""
    assert played(partition, [("T", 1000, "a"), ("S", 1500, "b"), ("T", 2000, "c")], [[1600, ["silent"]]]) == ()


def test_it_brings_no_events_without_a_key_to_an_instance() -> None:
    partition = "partition with (k of T) begin from S select k as o insert into O; end;"
    assert played(partition, [("T", 1000, "a"), ("S", 1010, "b")], []) == ()
