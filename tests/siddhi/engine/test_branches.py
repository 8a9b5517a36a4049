"""The order in which a stream is fed over several ways: an event runs through the first query and all that follows it
before the second sees it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.runtime import AppRuntime
from siddhi.language.parser import parse

STREAMS = "@app:playback " + "".join(f"define stream {name} (way string); " for name in ("A", "B", "X", "Y", "M"))


def fed(ways: str, stream: str) -> str:
    """The queries by which two events of `stream` that are sent alone come to M, in the order in which they come.

    `ways` says which stream each query reads and which it feeds: query 1 first.
    """
    queries = [
        f"from {source} select '{number}' as way insert into {target};"
        for number, (source, target) in enumerate(ways.split(), start=1)
    ]
    runtime = AppRuntime(analyse(parse(STREAMS + " ".join(queries))))
    runtime.start(0)
    found: list[str] = []
    runtime.add_stream_callback("M", lambda batch: found.extend(batch.column("way").to_pylist()))
    runtime.send(stream, pa.RecordBatch.from_pydict({"_timestamp": [1, 2], "way": ["", ""]}))
    return "".join(found)


@pytest.mark.parametrize(
    ("ways", "numbers"),
    [
        ("AX AM XM", "32"),
        ("AX XM AM XM", "243"),
        ("AX XM XM AM", "234"),
        ("AX AM XM AM XM", "3524"),
        ("AM AX XM AM XM", "1354"),
        ("AX XY YM XM AM YM", "3645"),
    ],
)
def test_a_stream_is_fed_in_the_order_of_a_walk_into_depth(ways: str, numbers: str) -> None:
    assert fed(ways, "A") == 2 * numbers


def test_ways_that_cross_keep_the_order_of_the_event_that_goes_them() -> None:
    crossing = "AX AY BY BX XM YM"
    assert fed(crossing, "A") == "5656"
    assert fed(crossing, "B") == "6565"
