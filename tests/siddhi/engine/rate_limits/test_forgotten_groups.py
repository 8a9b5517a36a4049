"""Rates of finished groups use no memory: a query whose keys change does not grow with their number."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

AT_ONCE, SPACING_MS = 2_000, 10


@pytest.mark.parametrize("rate", ["first every 100 milliseconds", "last every 100 milliseconds"])
def test_groups_whose_rows_and_rates_are_over_are_forgotten(rate: str) -> None:
    query = f"from S#window.length(3) select k, count() as n group by k output {rate} insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string); {query}")))
    runtime.start(0)
    sizes = []
    for begin in range(0, 20 * AT_ONCE, AT_ONCE):
        numbers = range(begin, begin + AT_ONCE)
        times = pa.array([SPACING_MS * number for number in numbers], pa.int64())
        runtime.send("S", pa.record_batch({TIMESTAMP: times, "k": pa.array([f"k{number}" for number in numbers])}))
        runtime.compact()
        sizes.append(len(runtime.snapshot()))
    assert sizes[-1] < 2 * sizes[1]
