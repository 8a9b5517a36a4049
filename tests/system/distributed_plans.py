"""Twenty plans that are spread in every way that the planner knows, events for them, and all of them as one plan."""

from __future__ import annotations

import random
import re

from distributed_runs import DistributedPlan, Event

EVENTS = 3_000
KEYS = 40
STEP_MS = 20

HEADER = """\
@app:name('{name}')
@app:playback
@Plan:dist({dist})
define stream S (k string, n int, v double, b bool);
"""
SECOND = "define stream T (k string, n int, v double, b bool);\n"

QUERIES = {
    "filter": "@dist(parallel='4') from S[v > 50.0] select k, n, v insert into Out;",
    "filter_chain": """
        @dist(parallel='3') from S[v > 20.0] select k, n, v insert into M;
        @dist(parallel='3') from M[n % 2 == 0] select k, n, v * 2.0 as v insert into Out;""",
    "filter_then_count": """
        @dist(parallel='4') from S[v > 50.0] select k, n insert into M;
        from M#window.length(20) select k, n, count() as c group by k insert into Out;""",
    "length_per_key": """
        @dist(parallel='4') partition with (k of S) begin
          from S#window.length(5) select k, n, avg(v) as a insert into Out;
        end;""",
    "time_per_key": """
        @dist(parallel='4') partition with (k of S) begin
          from S#window.time(3 sec) select k, n, sum(n) as total, count() as c insert into Out;
        end;""",
    "length_batch_per_key": """
        @dist(parallel='2') partition with (k of S) begin
          from S#window.lengthBatch(7) select k, max(v) as top, min(n) as least insert into Out;
        end;""",
    "time_batch_per_key": """
        @dist(parallel='3') partition with (k of S) begin
          from S#window.timeBatch(2 sec) select k, count() as c insert into Out;
        end;""",
    "expired_per_key": """
        @dist(parallel='4') partition with (k of S) begin
          from S#window.length(3) select k, n insert all events into Out;
        end;""",
    "pattern_per_key": """
        @dist(parallel='4') partition with (k of S) begin
          from every e1=S[v > 70.0] -> e2=S[v < 30.0 and n > e1.n] within 10 sec
          select e1.k as k, e1.n as n1, e2.n as n2 insert into Out;
        end;""",
    "sequence_per_key": """
        @dist(parallel='4') partition with (k of S) begin
          from every e1=S, e2=S[v > e1.v]+, e3=S[v < e1.v]
          select e1.k as k, e1.n as n1, e3.n as n3 insert into Out;
        end;""",
    "two_streams_per_key": """
        @dist(parallel='4') partition with (k of S, k of T) begin
          from every e1=S[v > 60.0] -> e2=T[v > e1.v] within 8 sec
          select e1.k as k, e1.n as n1, e2.n as n2 insert into Out;
        end;""",
    "join_per_key": """
        @dist(parallel='2') partition with (k of S, k of T) begin
          from S#window.length(2) join T#window.length(2) on S.b == T.b
          select S.k as k, S.n as n1, T.n as n2 insert into Out;
        end;""",
    "inner_stream": """
        @dist(parallel='4') partition with (k of S) begin
          from S#window.length(4) select k, n, sum(v) as total insert into #M;
          from #M[total > 150.0]#window.length(3) select k, n, max(total) as top insert into Out;
        end;""",
    "by_int": """
        @dist(parallel='4') partition with (n of S) begin
          from S#window.length(3) select k, n, count() as c, avg(v) as a insert into Out;
        end;""",
    "by_bool": """
        @dist(parallel='2') partition with (b of S) begin
          from S#window.lengthBatch(11) select k, b, sum(n) as total insert into Out;
        end;""",
    "by_expression": """
        @dist(parallel='4') partition with (str:concat(k, '-', b) of S) begin
          from S#window.length(6) select str:concat(k, '-', b) as key, n, sum(n) as total
          insert into Out;
        end;""",
    "by_ranges": """
        @dist(parallel='2') partition with (v < 30.0 as 'low' or v >= 30.0 and v < 60.0 as 'middle' or v >= 50.0 as
            'high' of S) begin
          from S#window.length(5) select k, n, count() as c, sum(v) as total insert into Out;
        end;""",
    "keys_twice": """
        @dist(parallel='4') partition with (k of S) begin
          from S#window.length(4) select k, n, avg(v) as a insert into M;
        end;
        @dist(parallel='4') partition with (k of M) begin
          from M[a > 40.0]#window.length(3) select k, n, max(a) as top insert into Out;
        end;""",
    "another_key_behind": """
        @dist(parallel='3') partition with (k of S) begin
          from S#window.length(4) select k, n, v insert into M;
        end;
        @dist(parallel='4') partition with (n of M) begin
          from M#window.length(5) select k, n, sum(v) as total insert into Out;
        end;""",
    "broadcast_into_keys": """
        @dist(parallel='2') from T[v > 95.0] select v as least insert into Limits;
        @dist(parallel='3') partition with (k of S) begin
          from S as s join Limits#window.length(1) as l on s.v + 60.0 > l.least
          select s.k as k, s.n as n, l.least as least insert into Out;
        end;""",
}
"""Name → queries over S and T; `Out` has the key by which the order is kept."""

KEY = {"by_int": "n", "by_bool": "b", "by_expression": "key", "another_key_behind": "n", "by_ranges": None}
"""The attribute of `Out` by which rows keep their order, where that is not `k`. With overlapping ranges an event has
several keys, and none of them stands in the row."""

WAYS_IN_AND_OUT = {"filter_chain": "publisherParallelism='2'", "keys_twice": "receiverParallelism='2'"}
ALL_WAYS = "receiverParallelism='2', publisherParallelism='2', workers='4'"
OWN_STREAMS = re.compile(r"\b(M|Out|Limits)\b")


def plans() -> list[tuple[DistributedPlan, str | None]]:
    """Every plan, and the attribute of `Out` by which its rows keep their order."""
    return [
        (_plan(name, WAYS_IN_AND_OUT.get(name, "workers='4'"), queries), KEY.get(name, "k"))
        for name, queries in QUERIES.items()
    ]


def all_in_one() -> tuple[DistributedPlan, dict[str, str | None]]:
    """All plans as one, in which each has its own streams, and the attribute of each exported stream by which rows keep
    their order: one topology shows as much as twenty."""
    queries = (OWN_STREAMS.sub(rf"{name}_\1", text) for name, text in QUERIES.items())
    keys = {f"{name}_Out": KEY.get(name, "k") for name in QUERIES}
    return _plan("all_in_one", ALL_WAYS, "\n".join(queries)), keys


def _plan(name: str, dist: str, queries: str) -> DistributedPlan:
    second = SECOND if " T" in queries else ""
    return DistributedPlan(name, HEADER.format(name=name, dist=dist) + second + queries, tuple(_events(name)))


def _events(seed: str) -> list[Event]:
    """Events of both streams, no two at one time."""
    random_ = random.Random(seed)  # noqa: S311 - the same events in every run
    return [
        {
            "stream": "S" if number % 3 else "T",
            "timestamp": 1_000_000 + number * STEP_MS,
            "data": [
                f"key-{random_.randrange(KEYS)}",
                random_.randrange(100),
                round(random_.uniform(0, 100), 2),
                random_.random() < 0.5,
            ],
        }
        for number in range(EVENTS)
    ]
