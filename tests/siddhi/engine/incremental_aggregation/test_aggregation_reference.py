"""Aggregations against a plain reference, with random batches and restores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.testing import record_batch

APP = """
@app:playback
define stream S (k string, b bool, v int, p double, ts long);
define aggregation A from S[v is null or v != 13]
select k, b, sum(v) as sv, sum(p) as sp, count() as n, avg(v) as av, avg(p) as ap, min(p) as lo, max(v) as hi,
       distinctCount(k) as dk, distinctCount(v) as dv, v as last, v * 2 as twice, sum(v) * 2 + count() as mixed
group by b{by} every sec...year;
"""
BEGIN = 1_709_164_700_000  # 2024-02-28 23:58:20, two days before a month ends in a leap year
UNITS = {"sec": "s", "min": "m", "hour": "h", "day": "D", "month": "M", "year": "Y"}

events = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 400, 900, 30_000, 2_000_000, 90_000_000]),  # since the event before
        st.sampled_from([0, 0, 0, 700, 70_000, 4_000_000, 200_000_000]),  # how late its own time is
        st.sampled_from(["x", "y", None]),
        st.sampled_from([True, False, None]),
        st.one_of(st.none(), st.integers(-9, 13)),
        st.one_of(st.none(), st.integers(-40, 40).map(lambda n: n / 4)),
    ),
    min_size=1,
    max_size=30,
)


def made(drawn: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    clock, out = BEGIN, []
    for gap, late, k, b, v, p in drawn:
        clock += gap
        out.append({"timestamp": clock, "data": [k, b, v, p, clock - late]})
    return out


def start_of(time: int, duration: str) -> int:
    return int(np.datetime64(time, "ms").astype(f"M8[{UNITS[duration]}]").astype("M8[ms]").astype(np.int64))


def expected(sent: Sequence[dict[str, Any]], duration: str, *, by: bool) -> list[tuple[Any, ...]]:
    buckets: dict[tuple[int, Any], list[tuple[int, Any, Any, Any]]] = defaultdict(list)
    for event in sent:
        k, b, v, p, ts = event["data"]
        if v != 13:
            time = ts if by else event["timestamp"]
            buckets[start_of(time, duration), b].append((time, k, v, p))
    rows = []
    for (start, b), held in buckets.items():
        whole = [v for _, _, v, _ in held if v is not None]
        parts = [p for _, _, _, p in held if p is not None]
        total, count = (sum(whole) if whole else None), len(held)
        _, k, last, _ = max(enumerate(held), key=lambda place: (place[1][0], place[0]))[1]
        rows.append(
            (
                start, k, b, total, sum(parts) if parts else None, count,
                None if total is None else float(int(total / count)),
                sum(parts) / count if parts else None, min(parts, default=None), max(whole, default=None),
                len({k for _, k, _, _ in held}), len({v for _, _, v, _ in held}), last,
                None if last is None else last * 2, None if total is None else total * 2 + count,
            )
        )  # fmt: skip
    return sorted(rows, key=repr)


class Running:
    """An app that is fed piece by piece and can be replaced by its restored snapshot."""

    def __init__(self, text: str) -> None:
        self.app = analyse(parse(text))
        self.runtime = AppRuntime(self.app)
        self.runtime.start(0)

    def send(self, piece: Sequence[dict[str, Any]]) -> None:
        if piece:
            self.runtime.send("S", record_batch(self.app.streams["S"].schema, piece))

    def restore(self) -> None:
        state = self.runtime.snapshot()
        self.runtime = AppRuntime(self.app)
        self.runtime.restore(state)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        found = self.runtime.query(analyse_on_demand_query(parse_on_demand_query(text), self.app))
        if found is None:
            return []
        return list(zip(*(column.to_pylist() for column in found.columns[2:]), strict=True))


@pytest.mark.thorough
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=events, cuts=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=4), by=st.booleans())
def test_every_bucket_holds_what_fell_into_it(
    drawn: list[tuple[Any, ...]], cuts: list[tuple[int, bool]], *, by: bool
) -> None:
    sent = made(drawn)
    running = Running(APP.format(by=" aggregate by ts" if by else " aggregate"))
    begin = 0
    for cut, restored in sorted(cuts):
        running.send(sent[begin : max(cut, begin)])
        begin = max(cut, begin)
        if restored:
            running.restore()
    running.send(sent[begin:])
    for duration in UNITS:
        rows = running.ask(f"from A within 0L, 9999999999999L per '{duration}' select *")
        assert sorted(rows, key=repr) == expected(sent, duration, by=by)


@pytest.mark.parametrize("cut", range(1, 6))
def test_sums_of_doubles_do_not_depend_on_the_cut(cut: int) -> None:
    parts = [0.1, 1e16, 0.7, -1e16, 0.3, 0.9]
    sent = [{"timestamp": BEGIN + n, "data": ["x", True, 1, p, 0]} for n, p in enumerate(parts)]
    whole, split = Running(APP.format(by=" aggregate")), Running(APP.format(by=" aggregate"))
    whole.send(sent)
    split.send(sent[:cut])
    split.restore()
    split.send(sent[cut:])
    question = "from A within 0L, 9999999999999L per 'sec' select sp, ap"
    assert whole.ask(question) == split.ask(question)


def test_an_open_bucket_that_began_too_early_shows_its_open_part_when_events_say_their_time() -> None:
    running = Running(APP.format(by=" aggregate by ts"))
    may, june = 1_714_521_600_000, 1_717_200_000_000
    for time, v in ((may + 5, 1), (june + 5, 2), (june + 6, 3)):
        running.send([{"timestamp": time, "data": ["x", True, v, None, time]}])
    year = start_of(may, "year")
    assert running.ask("from A within '2024-06-** **:**:**' per 'years' select AGG_TIMESTAMP, sv") == [(year, 5)]
    assert running.ask("from A within '2024-05-** **:**:**' per 'years' select AGG_TIMESTAMP, sv") == []
    assert running.ask("from A within '2024-**-** **:**:**' per 'years' select AGG_TIMESTAMP, sv") == [(year, 6)]
