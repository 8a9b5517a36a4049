"""Cron windows and cron triggers in a running app."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse
from siddhi.testing import record_batch

STREAM = "@app:playback define stream In (k string, v int); "


class App:
    """A running app; `taken` returns the output of query `q` since the last call, as `+timestamp:value,value`."""

    def __init__(self, text: str) -> None:
        self.app = analyse(parse(text))
        self.rows: list[str] = []
        self.runtime = self._built()
        self.runtime.start(0)

    def _built(self) -> AppRuntime:
        runtime = AppRuntime(self.app)
        runtime.add_query_callback("q", self._receive)
        return runtime

    def _receive(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            stamp, kind = row.pop("_timestamp"), row.pop("_kind")
            self.rows.append(f"{'-' if kind else '+'}{stamp}:{','.join(map(str, row.values()))}")

    def send(self, *rows: tuple[int, list[Any]]) -> None:
        events = [{"timestamp": stamp, "data": data} for stamp, data in rows]
        self.runtime.send("In", record_batch(self.app.streams["In"].schema, events))

    def restart(self) -> None:
        state = self.runtime.snapshot()
        self.runtime = self._built()
        self.runtime.restore(state)

    def taken(self) -> list[str]:
        taken, self.rows = self.rows, []
        return taken


def test_events_pass_when_the_text_fires_and_expire_at_the_next_firing_that_has_events() -> None:
    run = App(STREAM + "@info(name='q') from In#window.cron('*/10 * * * * ?') select k, v insert all events into Out;")
    run.send((1_000, ["a", 1]), (4_000, ["b", 2]))
    assert run.taken() == []
    run.send((10_000, ["c", 3]))
    assert run.taken() == ["+1000:a,1", "+4000:b,2"]
    run.restart()
    run.runtime.advance_time(39_999)
    assert run.taken() == ["-20000:a,1", "-20000:b,2", "+10000:c,3"]
    run.send((40_000, ["d", 4]))
    assert run.taken() == []
    run.runtime.advance_time(50_000)
    assert run.taken() == ["-50000:c,3", "+40000:d,4"]


def test_aggregates_over_a_cron_window_forget_the_period_before() -> None:
    run = App(STREAM + "@info(name='q') from In#window.cron('*/10 * * * * ?') select sum(v) as s insert into Out;")
    run.send((1_000, ["a", 1]), (4_000, ["b", 2]), (12_000, ["c", 10]), (23_000, ["d", 20]))
    run.runtime.advance_time(30_000)
    assert run.taken() == ["+4000:3", "+12000:10", "+23000:20"]


def test_each_key_of_a_partition_has_its_own_cron_window() -> None:
    run = App(
        STREAM + "partition with (k of In) begin @info(name='q') "
        "from In#window.cron('*/10 * * * * ?') select k, sum(v) as s insert all events into Out; end;"
    )
    run.send((1_000, ["a", 1]), (2_000, ["b", 5]), (3_000, ["a", 2]), (11_000, ["b", 6]))
    run.runtime.advance_time(20_000)
    assert run.taken() == ["+3000:a,3", "+2000:b,5", "+11000:b,6"]


def test_an_event_behind_the_last_time_of_the_text_is_let_go() -> None:
    run = App(STREAM + "@info(name='q') from In#window.cron('0 0 0 2 1 ? 1970') select k insert into Out;")
    run.send((1_000, ["a", 1]), (90_000_000, ["b", 2]))
    assert run.taken() == ["+1000:a"]
    assert run.runtime.next_deadline_ms() is None


def test_a_cron_trigger_fires_at_the_times_of_its_text() -> None:
    run = App(
        STREAM + "define trigger Tick at '*/10 * * * * ?'; "
        "@info(name='q') from Tick select triggered_time insert into Out;"
    )
    assert run.runtime.next_deadline_ms() == 10_000
    run.runtime.advance_time(10_000)
    run.restart()
    run.runtime.advance_time(35_000)
    assert run.taken() == ["+10000:10000", "+20000:20000", "+30000:30000"]


def test_a_trigger_whose_text_cannot_be_read_is_refused_with_its_place() -> None:
    text = "define trigger Tick\nat '*/10 * * * *'; from Tick select triggered_time insert into Out;"
    with pytest.raises(SiddhiAnalysisError) as refused:
        analyse(parse(text))
    (problem,) = refused.value.problems
    assert problem.code == "wrong-cron-text"
    assert problem.span is not None
    assert (problem.span.line, problem.hint is not None) == (1, True)
