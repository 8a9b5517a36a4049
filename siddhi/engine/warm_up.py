"""Compile the engine's state loops ahead of their first use.

The machine code is cached on disk beside the modules, so this costs a minute once and a second from then on. A process
that calls `warm_up` has the loops loaded as well, and its first plan starts at once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.arrow_c.split_by_owner import share_by_owner, text_hashes
from siddhi.engine.columnar.strings import take_strings
from siddhi.engine.tuning import MAX_UNMEASURED_STRING_BYTES
from siddhi.language.parser import parse

STREAM = "define stream S (key string, whole int, part double, flag bool, ts long);"

AGGREGATES = (
    "key, sum(whole) as a, sum(part) as b, avg(part) as c, count() as d, min(whole) as e, max(part) as f,"
    " stdDev(part) as g, distinctCount(key) as h, and(flag) as i, or(flag) as j, minForever(part) as k,"
    " avg(whole) as l, min(part) as m, max(whole) as n, maxForever(whole) as o, distinctCount(whole) as p"
)

FUSED = "key, avg(part) as a, max(whole) as b, distinctCount(key) as c"
"""Aggregates that are fused with the preceding window when only current events are emitted."""

PLANS = (
    f"from S#window.length(2) select {FUSED} group by key insert into Out;",
    f"from S#window.externalTimeBatch(ts, 1 sec) select {FUSED} group by key insert into Out;",
    f"from S#window.timeBatch(1 sec) select {FUSED} group by key, whole insert into Out;",
    f"partition with (key of S) begin from S#window.length(2) select {FUSED} insert into Out; end;",
    f"partition with (key of S) begin from S#window.time(1 sec) select {FUSED} group by whole insert into Out; end;",
    "from S#window.sort(2, part) select key, whole insert all events into Out;",
    "from S[whole > 2]#window.length(2) select avg(part) as a insert into Out;",  # by the fast path, without strings
    "from S[whole > 2 and part * 2.0 > 1.0] select part * whole as a insert into Out;",
    "from S[whole > 0] select key, whole insert into Out;",
    "from S[whole > 0 and flag] select key, part * whole + 1 as a insert into Out;",
    "from S#window.length(2) select key, math:percentile(part, 50.0) as a group by key insert into Out;",
    "from S select key, whole order by whole limit 5 insert into Out;",
    f"from S select {AGGREGATES} group by key insert into Out;",
    f"from S#window.length(2) select {AGGREGATES} insert into Out;",
    f"from S#window.length(2) select {AGGREGATES} group by key insert all events into Out;",
    f"from S#window.lengthBatch(2) select {AGGREGATES} group by key insert all events into Out;",
    f"from S#window.lengthBatch(2, true) select {AGGREGATES} group by key insert all events into Out;",
    f"from S#window.lengthBatch(0) select {AGGREGATES} group by key insert all events into Out;",
    f"from S#window.lengthBatch(3) select {FUSED}, minForever(part) as d, stdDev(part) as e insert into Out;",
    f"from S#window.time(1 sec) select {AGGREGATES} group by key insert all events into Out;",
    f"from S#window.timeBatch(1 sec) select {AGGREGATES} group by key insert all events into Out;",
    f"from S#window.timeBatch(1 sec, true) select {AGGREGATES} group by key insert all events into Out;",
    (
        "from S#window.session(1 sec, key) select key, sum(whole) as a, count() as b group by key having b > 1"
        " insert all events into Out;"
    ),
    "from S#window.time(1 sec) select key, whole group by key order by whole limit 1 offset 1 insert into Out;",
    f"from S#window.timeLength(1 sec, 2) select {AGGREGATES} group by key insert into Out;",
    f"from S#window.externalTime(ts, 1 sec) select {AGGREGATES} group by key insert into Out;",
    f"from S#window.externalTimeBatch(ts, 1 sec) select {AGGREGATES} group by key insert all events into Out;",
    (
        "from every e1=S[part > 0.5] -> e2=S[key == e1.key and part > e1.part] within 1 sec"
        " select e1.key as key, e2.part as part insert into Out;"
    ),
    "from e1=S[part > 0.5] -> e2=S[part > e1.part] select e1.key as key, e2.part as part insert into Out;",
    "from every e1=S[whole > 0], e2=S[whole > e1.whole] select e1.key as key, e2.whole as whole insert into Out;",
    (
        "partition with (key of S) begin from every e1=S[part > 0.5] -> e2=S[part > e1.part] within 1 sec"
        " select e1.key as key, e2.part as part insert into Out; end;"
    ),
    (
        "@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (key of S) begin"
        " from every e1=S[part > 0.5] -> e2=S[part > e1.part] select e1.key as key, e2.part as part insert into Out;"
        " from every e1=S[part > 0.5] -> not S[whole > e1.whole] for 1 sec select e1.key as key insert into Silent;"
        " from S#window.length(2) select key, sum(whole) as a, distinctCount(key) as b group by key"
        " output last every 1 sec insert into Other; end;"
    ),
    (
        "from S#window.length(5) as l join S#window.length(5) as r on l.key == r.key"
        " select l.key as key, r.whole as whole insert into Out;"
    ),
    (
        "from S#window.timeBatch(1 sec) as l full outer join S#window.batch() as r on l.key == r.key"
        " select l.key as key, r.whole as whole insert all events into Out;"
    ),
    (
        "from S#window.time(1 sec) as l full outer join S as r on l.key == r.key and l.whole == r.whole"
        " select l.key as key, r.whole as whole insert all events into Out;"
    ),
    (
        "@PrimaryKey('key') define table Keyed (key string, whole int); define table Plain (key string, part double);"
        " from S select key, whole update or insert into Keyed on Keyed.key == key;"
        " from S select key, part insert into Plain;"
        " from S join Keyed on S.key == Keyed.key select S.key as key, Keyed.whole as whole insert into Out;"
        " from S join Plain on S.key == Plain.key and S.part == Plain.part select Plain.part as part insert into Other;"
        " from S select key, part delete Plain on Plain.part == part and Plain.key == key;"
    ),
    (
        "@PrimaryKey('key') define table Known (key string, whole int);"
        " from S[not (Known.key == key in Known)] select key, whole insert into Known;"
    ),
    (
        "from S#window.length(2) select key, sum(whole) as a, part output snapshot every 1 sec insert into Out;"
        " from S select key, whole output first every 2 events insert into Other;"
    ),
    ("@PrimaryKey('key') define table Written (key string, whole int); from S select key, whole insert into Written;"),
    (
        "from S#window.expression('count() <= 2') select key, sum(whole) as a, avg(part) as b, min(part) as c,"
        " stdDev(part) as d, distinctCount(key) as e insert all events into Out;"
    ),
    " ".join(f"from S[key == 'k{n}' and part > 0.{n}] select key, whole insert into Out;" for n in range(10)),
)

AGGREGATION = (
    "define aggregation A from S select key, sum(whole) as a, avg(part) as b, min(whole) as c, max(part) as d,"
    " count() as e, distinctCount(key) as f group by key aggregate by ts every sec ... year;"
)

MANY_PARTIAL_MATCHES = (
    "from every e1=S -> e2=S[whole < e1.whole - 100] select e2.whole as whole insert into Out;",
    "from every e1=S -> e2=S[part < 0.0] and e3=S[whole < 0] select e2.whole as whole insert into Out;",
)
"""They hold more than the least limit, so that some are dropped: by the operator of chains, and by the other one."""

BACKLOG = f"from S#window.time(1 sec) select {FUSED} group by key insert into Out;"
"""It is given events that are older than its clock."""


def warm_up() -> None:
    """Compile every loop, or load it from the cache, by running small plans on a few sample events.

    The events are also divided among instances, as stages do. Each plan is continued by another runtime half way, so
    that the loops of a restore are compiled as well.
    """
    texts = [f"@app:playback {STREAM} {plan}" for plan in PLANS]
    texts.append(f"@app:playback {STREAM} {AGGREGATION} from S select key insert into Out;")
    for text in texts:
        app = analyse(parse(text))
        runtime = AppRuntime(app)
        runtime.start()
        runtime.send("S", _events(1_000))
        saved, runtime = runtime.snapshot(), AppRuntime(app)
        runtime.restore(saved)
        if "Out" in app.streams:
            runtime.add_stream_callback("Out", _drop)
        for start_ms in (3_000, 6_000):  # columns whose values were requested once are read differently from then on
            runtime.send("S", _events(start_ms))
        runtime.advance_time(10_000)
    for text in MANY_PARTIAL_MATCHES:
        many = AppRuntime(analyse(parse(f"@app:playback {STREAM} {text}")), max_partial_matches=4)
        many.start()
        many.send("S", _events(1_000))
    late = AppRuntime(analyse(parse(f"{STREAM} {BACKLOG}")))
    late.start(0)
    late.send("S", _events(1_000), 4_000)
    late.advance_time(10_000)
    late.send("S", _events(9_000), 10_000)
    take_strings(pa.array(["long" * MAX_UNMEASURED_STRING_BYTES]), np.zeros(1, dtype=np.int64))
    events = _events(1_000)
    text_hashes(events.column("key"), 0)
    share_by_owner(events, np.arange(events.num_rows) % 2, 2)


def _drop(records: pa.RecordBatch) -> None:
    """Read and discard results, so that they are computed."""


def _events(start_ms: int) -> pa.RecordBatch:
    count = 8
    times = [start_ms + 300 * place for place in range(count)]
    return pa.record_batch(
        {
            "_timestamp": pa.array(times, pa.int64()),
            "_kind": pa.array([0] * count, pa.int8()),
            "key": ["a", "b"] * (count // 2),
            "whole": pa.array(range(1, count + 1), pa.int32()),
            "part": [0.1 + 0.2 * place for place in range(count)],
            "flag": [True, False] * (count // 2),
            "ts": pa.array(times, pa.int64()),
        }
    )
