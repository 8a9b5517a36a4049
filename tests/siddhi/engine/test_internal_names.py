"""Attributes, streams and tables with names that look like those the engine uses itself."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from random_examples import FULL_LENGTH

from siddhi.testing import Case, record_answers

NAMES = (
    "@timestamp", "@present", "@number", "@row", "@group", "@external", "@slot", "@order0", "@order1", "@met0", "@met1",
    "timestamp", "present", "number", "0.v", "1.v", "0[last].v", "0[0].v", "Tab.v", "0", "partition_1#M",
    "partition_1@S", "partition_1@T", "_timestamp", "_kind", "a.b", "T.k", "W.v", "e1.v", "e1[0].v",
)  # fmt: skip
STREAMS = "define stream S (k string, v int, {n} long); define stream T (k string, v int, {n} long);"
OF_ATTRIBUTES = {
    "join": """from S#window.length(2) as x join T#window.time(1 sec) as y on x.k == y.k
        select x.k as k, y.{n} as {n}, x is null as m, eventTimestamp(x) as t insert into O;""",
    "join of batches": """from S#window.lengthBatch(2) as x full outer join T#window.session(1 sec) as y on x.k == y.k
        select x.k as k, y.{n} as {n}, x.{n} as b, x is null as m insert into O;""",
    "join of sorted rows": """from S#window.sort(2, {n}) as x left outer join T#window.unique:ever({n}) as y
        on x.k == y.k and x.{n} < y.{n} select x.k as k, y.{n} as {n}, x.{n} as b insert all events into O;""",
    "external time": "from S#window.externalTime({n}, 3) select k, {n}, sum({n}) as s insert all events into O;",
    "order by": """from S#window.lengthBatch(4) select k, sum({n}) as {n}, max(v) as m group by k order by {n} desc, k
        insert into O;""",
    "output last": "from S select k, {n}, sum(v) as b group by k output last every 3 events insert into O;",
    "snapshot": """from S#window.time(1 sec) select k, {n}, sum(v) as b group by k
        output snapshot every 1 sec insert into O;""",
    "having": "from S#window.length(3) select k, {n}, sum(v) as b group by {n} having {n} > 2 or b > 3 insert into O;",
    "counted pattern": """from every e1=S -> e2=T[{n} > e1.{n}]<1:2> -> e3=S[v > 1]
        select e1.{n} as {n}, e2[0].{n} as b, e2[last].v as c, e3.{n} as d,
        eventTimestamp(e1) as t, e2[1] is null as m insert into O;""",
    "shared patterns": """from every e1=S[{n} > 3] -> e2=T[{n} > 2] select e1.{n} as {n}, e2.{n} as b insert into O;
        from every e1=S[{n} > 4] -> e2=T[{n} > 2] select e1.{n} as {n}, e2.{n} as b insert into O;
        from every e1=S[{n} > 5] -> e2=T[{n} > 2] select e1.{n} as {n}, e2.{n} as b insert into O;""",
    "silence": "from every e1=S -> not T[{n} == e1.{n}] for 100 milliseconds select e1.{n} as {n} insert into O;",
    "function in a pattern": """from every e1=S#pol2Cart(1.0, 2.0)[{n} > 1] -> e2=T
        select e1.{n} as {n}, e1.x as x, e2.k as k insert into O;""",
    "table": """define table Tab (k string, v int, {n} long); from T select k, v, {n} insert into Tab;
        from S[Tab.v == {n} in Tab] select k, {n} insert into O;
        from S select k, v, {n} update Tab set Tab.{n} = Tab.{n} + {n} on Tab.{n} == {n} and Tab.k == k;
        from S join Tab on S.v == Tab.v select S.k as k, Tab.{n} as {n} insert into O;""",
    "table in a join": """define table Tab (k string, v int, {n} long); from T select k, v, {n} insert into Tab;
        from S as x join T#window.length(2) as y on (Tab.v == x.{n} in Tab)
        select x.k as k, y.{n} as {n} insert into O;""",
    "partition": """partition with (k of S) begin from S#window.length(2) select k, sum({n}) as {n} insert into #M;
        from #M[{n} > 1] select k, {n}, count() as c insert into O; end;""",
    "named window": """define window W (k string, v int, {n} long) sort(2, {n}) output all events; from S insert into W;
        from T join W on T.{n} < W.{n} select T.k as k, W.{n} as {n} insert into O;""",
    "expression": """from S#window.expression('last.{n} < 5 and count() < 4') select k, {n}, count() as c
        insert into O;""",
}
OF_NAMES = {
    "stream": """define stream {n} (k string, v int); from S select k, v insert into {n};
        partition with (k of {n}, k of S) begin from {n} select k, sum(v) as w insert into #M;
        from #M select k, w insert into O; from S join {n}#window.length(1) as y on S.v == y.v
        select S.k as k, sum(y.v) as w insert into O; end;""",
    "reference in a join": """from S#window.length(2) as {n} join T#window.length(2) as y on {n}.k == y.k
        select {n}.k as k, y.v as v, {n} is null as m insert into O;""",
    "reference in a pattern": """from every {n}=S -> e2=T[v > {n}.v]<1:2>
        select {n}.k as k, e2[0].v as v, {n}.v as b insert into O;""",
    "table": """define table {n} (k string, v int); from T select k, v insert into {n};
        from S[{n}.v == v in {n}] select k, v insert into O;
        from S as x join T#window.length(2) as y on ({n}.v == x.v in {n}) and x.k == y.k
        select x.k as k, y.v as v insert into O;
        from S select k, v update {n} set {n}.v = {n}.v + v on {n}.k == k;""",
    "window": """define window {n} (k string, v int) length(2) output all events; from T select k, v insert into {n};
        from S join {n} on S.k == {n}.k select S.k as k, {n}.v as v insert into O;""",
    "inner stream": """partition with (k of S) begin from S select k, v insert into #{n};
        from #{n} select k, sum(v) as v insert into O; end;""",
}


def _tried(kinds: Iterable[str], kind: str) -> tuple[str, ...]:
    """Return the names that `kind` is tried with: a quarter of them, or all at full length."""
    return NAMES if FULL_LENGTH else NAMES[list(kinds).index(kind) % 4 :: 4]


def _events() -> list[dict[str, Any]]:
    draw, time = Random(3), 1000  # noqa: S311 - not a secret
    events: list[dict[str, Any]] = []
    for _ in range(24):
        time += draw.choice([0, 5, 10, 400])
        data = [draw.choice("ab"), draw.randint(0, 4), draw.randint(0, 9)]
        events.append({"stream": draw.choice("ST"), "timestamp": time, "data": data})
    return [*events, {"advance_time": time + 5000}]


def _answers(queries: str, name: str, attribute: str) -> list[Any]:
    app = f"@app:playback {STREAMS.format(n=f'`{attribute}`')} {queries.format(n=f'`{name}`')}"
    document = {"events": _events(), "start_time": 1000, "listen": {"streams": ["O"], "queries": []}}
    rows: list[Any] = record_answers(Case("names", "names", app, document))["streams"]["O"]
    return rows


@pytest.mark.parametrize("kind", OF_ATTRIBUTES)
def test_no_attribute_is_taken_for_a_column_of_the_engine(kind: str) -> None:
    expected = _answers(OF_ATTRIBUTES[kind], "plain", "plain")
    assert expected
    for name in _tried(OF_ATTRIBUTES, kind):
        assert _answers(OF_ATTRIBUTES[kind], name, name) == expected, name


@pytest.mark.parametrize("kind", OF_NAMES)
def test_no_name_is_taken_for_one_of_the_engine(kind: str) -> None:
    expected = _answers(OF_NAMES[kind], "plain", "w")
    assert expected
    for name in _tried(OF_NAMES, kind):
        assert _answers(OF_NAMES[kind], name, "w") == expected, name
