"""The trigger stage: events that time alone makes."""

from __future__ import annotations

import pytest

from query_plan.model import TriggerStage
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.stages.kinds.trigger import TriggerInstance


def trigger(text: str) -> tuple[TriggerInstance, list[Bundle]]:
    (definition,) = parse(text).definitions
    emitted: list[Bundle] = []
    return TriggerInstance("T#0", TriggerStage(definition), emitted.append), emitted  # type: ignore[arg-type]


def fired(emitted: list[Bundle]) -> list[tuple[int, int]]:
    return [
        (batch.column("_timestamp")[0].as_py(), batch.column("triggered_time")[0].as_py())
        for bundle in emitted
        for _, batch in bundle.batches
    ]


def test_a_trigger_at_the_start_fires_once() -> None:
    stage, emitted = trigger("define trigger T at 'start';")
    stage.open(100)
    assert stage.next_deadline_ms() == 100
    stage.on_time(105)
    assert fired(emitted) == [(100, 100)]
    assert stage.next_deadline_ms() is None


def test_a_periodic_trigger_fires_for_every_period_that_has_gone_by_at_the_time_it_was_due() -> None:
    stage, emitted = trigger("define trigger T at every 5 sec;")
    stage.open(1_000)
    stage.on_time(5_999)
    assert fired(emitted) == []
    stage.on_time(16_500)
    assert fired(emitted) == [(6_000, 6_000), (11_000, 11_000), (16_000, 16_000)]
    assert [bundle.ticket for bundle in emitted] == [0, 1, 2, 3]
    assert stage.next_deadline_ms() == 21_000


def test_a_cron_trigger_fires_at_every_time_that_its_text_names() -> None:
    stage, emitted = trigger("define trigger T at '*/5 * * * * ?';")
    stage.open(5_000)
    assert stage.next_deadline_ms() == 10_000
    stage.on_time(21_000)
    assert fired(emitted) == [(10_000, 10_000), (15_000, 15_000), (20_000, 20_000)]
    assert stage.next_deadline_ms() == 25_000


def test_a_cron_trigger_whose_last_time_is_over_never_fires() -> None:
    stage, emitted = trigger("define trigger T at '0 0 0 1 1 ? 1971';")
    stage.open(40_000_000_000)
    assert stage.next_deadline_ms() is None
    stage.on_time(50_000_000_000)
    assert fired(emitted) == []


def test_nobody_waits_for_a_trigger_neither_before_it_fires_nor_after() -> None:
    stage, emitted = trigger("define trigger T at every 5 sec;")
    stage.open(1_000)
    stage.on_time(6_000)
    assert [(bundle.streams, bundle.idle, bundle.rows()) for bundle in emitted] == [
        (("T",), True, 0),
        (("T",), True, 1),
    ]


@pytest.mark.parametrize(
    ("definition", "due_ms"),
    [("define trigger T at every 7 min;", 7 * 60_000), ("define trigger T at '0 * * * * ?';", 0)],
)
def test_a_trigger_that_comes_back_after_a_month_fires_what_it_missed_within_the_last_hour(
    definition: str, due_ms: int
) -> None:
    stage, emitted = trigger(definition)
    now_ms = 30 * 24 * 3_600_000
    stage.open(now_ms, {"due": str(due_ms).encode()})
    stage.on_time(now_ms)
    times = [time_ms for time_ms, _ in fired(emitted)]
    assert times[0] >= now_ms - 3_600_000
    assert times[0] - (now_ms - 3_600_000) <= (7 * 60_000 if due_ms else 60_000)
    assert all(time_ms % (7 * 60_000 if due_ms else 60_000) == 0 for time_ms in times)
    assert times[-1] <= now_ms


def test_a_trigger_that_fires_often_fires_the_last_3600_times_that_it_missed(caplog: pytest.LogCaptureFixture) -> None:
    stage, emitted = trigger("define trigger T at every 10 millisec;")
    now_ms = 3_600_000
    stage.open(now_ms, {"due": b"10"})
    assert "trigger=T#0 last_ms=36000" in caplog.text
    stage.on_time(now_ms)
    times = [time_ms for time_ms, _ in fired(emitted)]
    assert times == list(range(now_ms - 36_000 + 10, now_ms + 1, 10))
    assert len(times) == 3_600
