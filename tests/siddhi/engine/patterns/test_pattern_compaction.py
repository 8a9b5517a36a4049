"""State queries while the string pool is compacted: their string codes change, their results do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

QUERIES = {
    "chain": "every e1=S -> e2=S[k == e1.k and v > e1.v] select e1.k as a, e1.w as b, e2.w as c",
    "constant": "every e1=S[k == 'k3'] -> e2=S[w != e1.w] select e1.k as a, e1.w as b, e2.w as c",
    "sequence": "every e1=S, e2=S[v > e1.v] select e1.k as a, e1.w as b, e2.w as c",
    "counted": "every e1=S<2:3> -> e2=S[k == e1[0].k] select e1[0].w as a, e1[last].w as b, e2.w as c",
    "listed": "e1=S<3:> -> e2=S[k == 'k1'] select e1.k as a, e2.w as b",
    "logical": "every e1=S and e2=S[k == 'k2'] -> e3=S[k == e1.k] select e1.w as a, e2.w as b, e3.w as c",
    "distinct": "every e1=S[distinctCount(w) > 3] -> e2=S[k == e1.k] select e1.w as a, e2.w as b",
    "set": "every e1=S[sizeOfSet(unionSet(createSet(w))) > 3] -> e2=S[k == e1.k] select e1.w as a, e2.w as b",
    "absent": "every e1=S -> not S[k == e1.k] for 3 millisec select e1.k as a, e1.w as b",
}


def answers(query: str, *, partitioned: bool, compacting: bool) -> list[Any]:
    text = f"from {query} insert into O;"
    text = f"partition with (k of S) begin {text} end;" if partitioned else text
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string, w string, v int); {text}")))
    found: list[Any] = []
    runtime.add_stream_callback("O", lambda out: found.extend(out.to_pylist()))
    runtime.start(0)
    draw = np.random.default_rng(7)
    for start in range(0, 60, 5):
        keys = [f"k{number}" for number in draw.integers(0, 5, 5)]
        words = [f"w{number}-{start}" for number in draw.integers(0, 9, 5)]
        values = pa.array(draw.integers(0, 9, 5), pa.int32())
        times = np.arange(start, start + 5) + 1
        runtime.send("S", pa.record_batch({"_timestamp": times, "k": keys, "w": words, "v": values}))
        if compacting:
            runtime.compact()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("name", list(QUERIES))
def test_a_compacted_string_pool_changes_no_match(name: str, partitioned: bool) -> None:
    expected = answers(QUERIES[name], partitioned=partitioned, compacting=False)
    assert answers(QUERIES[name], partitioned=partitioned, compacting=True) == expected
    assert expected
