"""The watermark of an inflow under sources that promise, lag, rest and leave. Times are in milliseconds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_worker.inflows.watermarks import InflowWatermark
from topology.events.watermarks import NO_WATERMARK

IDLE_MS = 100


def inflow(out_of_order_ms: int = 0) -> InflowWatermark:
    return InflowWatermark(IDLE_MS, out_of_order_ms, created_ms=0)


def test_the_watermark_is_the_least_that_the_sources_promise() -> None:
    watermark = inflow()
    watermark.advance("a", 9, 9, now_ms=0)
    watermark.advance("b", 6, 6, now_ms=0)
    assert watermark.watermark_ms == 9, "what was promised before b came stays promised"
    watermark.advance("a", 20, 20, now_ms=0)
    assert watermark.watermark_ms == 9
    watermark.advance("b", 15, 15, now_ms=0)
    assert watermark.watermark_ms == 15


def test_a_source_that_has_joined_and_sent_nothing_holds_the_watermark() -> None:
    watermark = inflow()
    watermark.join("silent", now_ms=0)
    watermark.advance("a", 9, 9, now_ms=0)
    assert watermark.watermark_ms == NO_WATERMARK
    watermark.advance("silent", 4, 4, now_ms=0)
    assert watermark.watermark_ms == 4


def test_a_source_without_promises_is_taken_at_its_newest_event_less_the_disorder() -> None:
    watermark = inflow(out_of_order_ms=10)
    watermark.advance("http", 100, NO_WATERMARK, now_ms=0)
    assert watermark.watermark_ms == 90
    watermark.advance("http", 95, NO_WATERMARK, now_ms=0)
    assert watermark.watermark_ms == 90


def test_an_empty_batch_without_a_promise_promises_nothing() -> None:
    watermark = inflow()
    watermark.advance("a", None, NO_WATERMARK, now_ms=0)
    assert watermark.watermark_ms == NO_WATERMARK


def test_a_silent_source_is_idle_exactly_after_its_time() -> None:
    watermark = inflow()
    watermark.advance("slow", 5, 5, now_ms=0)
    watermark.advance("quick", 50, 50, now_ms=1)
    watermark.expire(IDLE_MS - 1)
    assert watermark.watermark_ms == 5
    watermark.expire(IDLE_MS)
    assert (watermark.watermark_ms, watermark.idle) == (50, False)
    watermark.expire(IDLE_MS + 1)
    assert watermark.idle, "quick has been silent long enough too"


def test_the_next_event_makes_an_idle_inflow_active_again_and_the_watermark_stays() -> None:
    watermark = inflow()
    watermark.advance("a", 50, 50, now_ms=0)
    watermark.rest("a")
    assert watermark.idle
    watermark.advance("a", 40, 40, now_ms=1)
    assert (watermark.watermark_ms, watermark.idle) == (50, False)


def test_the_watermark_rises_when_the_slowest_source_leaves() -> None:
    watermark = inflow()
    watermark.join("slow", now_ms=0)
    watermark.advance("quick", 50, 50, now_ms=0)
    watermark.leave("slow")
    assert (watermark.watermark_ms, watermark.idle) == (50, False)


def test_an_inflow_whose_last_source_leaves_is_idle() -> None:
    watermark = inflow()
    watermark.advance("a", 50, 50, now_ms=0)
    watermark.leave("a")
    assert watermark.idle
    watermark.leave("a")
    watermark.rest("nobody")
    watermark.join("b", now_ms=5)
    assert not watermark.idle


def test_an_inflow_that_never_had_a_source_is_idle_after_the_time_of_silence() -> None:
    watermark = inflow()
    watermark.expire(IDLE_MS - 1)
    assert not watermark.idle
    watermark.expire(IDLE_MS)
    assert watermark.idle


def test_who_is_about_to_send_has_time_from_when_the_plan_can_be_reached() -> None:
    """A plan that is slow to start would find its streams idle, and not wait for the one whose sender comes second."""
    watermark = inflow()
    watermark.expire(IDLE_MS)
    watermark.opened(IDLE_MS + 5)
    watermark.expire(IDLE_MS + 6)
    assert not watermark.idle
    watermark.expire(2 * IDLE_MS + 4)
    assert not watermark.idle
    watermark.expire(2 * IDLE_MS + 5)
    assert watermark.idle


def test_a_source_that_rests_already_when_the_plan_can_be_reached_stays_so() -> None:
    watermark = inflow()
    watermark.join("a", now_ms=0)
    watermark.rest("a")
    watermark.opened(5)
    assert watermark.idle


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "advance", "rest", "leave", "expire"]),
        st.sampled_from("abc"),
        st.integers(0, 1_000),
        st.integers(0, 60),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_the_watermark_never_goes_back_and_never_passes_an_active_source(
    steps: list[tuple[str, str, int, int]],
) -> None:
    watermark = inflow()
    now_ms = 0
    active: dict[str, int] = {}
    for step, source, timestamp, passed_ms in steps:
        now_ms += passed_ms
        before = watermark.watermark_ms
        match step:
            case "join":
                watermark.join(source, now_ms)
                active[source] = NO_WATERMARK
            case "advance":
                watermark.advance(source, timestamp, NO_WATERMARK, now_ms)
                active[source] = max(active.get(source, NO_WATERMARK), timestamp)
            case "rest":
                watermark.rest(source)
            case "leave":
                watermark.leave(source)
                active.pop(source, None)
            case "expire":
                watermark.expire(now_ms)
        assert watermark.watermark_ms >= before
        if watermark.watermark_ms > before and step == "advance":
            assert watermark.watermark_ms <= active[source]
        if not active and step == "leave":
            assert watermark.idle or before == NO_WATERMARK


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_order_in_which_sources_speak_does_not_matter(order: tuple[str, str]) -> None:
    watermark = inflow()
    for source in "ab":
        watermark.join(source, now_ms=0)
    for source in order:
        watermark.advance(source, {"a": 7, "b": 12}[source], NO_WATERMARK, now_ms=0)
    assert watermark.watermark_ms == 7


def test_a_plan_that_begins_anew_is_bound_only_by_sources_that_are_still_there() -> None:
    watermark = inflow()
    watermark.advance("gone", 90, 90, now_ms=0)
    watermark.leave("gone")

    watermark.restart(now_ms=1_000)

    assert (watermark.watermark_ms, watermark.idle) == (NO_WATERMARK, False)
    watermark.expire(now_ms=1_000 + IDLE_MS - 1)
    assert not watermark.idle, "a first source has as long as after the first deployment"
    watermark.advance("there", 5, 5, now_ms=1_050)
    watermark.restart(now_ms=2_000)
    assert watermark.watermark_ms == 5


def test_a_source_that_is_kept_waiting_is_not_silent() -> None:
    watermark = InflowWatermark(IDLE_MS, 0, 0)
    watermark.advance("kept waiting", 5, NO_WATERMARK, 0)
    watermark.advance("resting", 5, NO_WATERMARK, 0)
    watermark.rest("resting")
    watermark.hold(IDLE_MS)
    watermark.expire(2 * IDLE_MS - 1)
    assert not watermark.idle
    watermark.expire(2 * IDLE_MS)
    assert watermark.idle


def test_a_source_with_more_to_send_is_waited_for_while_it_is_silent() -> None:
    watermark = InflowWatermark(IDLE_MS, 0, 0)
    watermark.join("behind", 0)
    watermark.advance("ahead", 90, NO_WATERMARK, 0)
    watermark.advance("behind", 10, NO_WATERMARK, 0)
    watermark.note_more("behind", 0, more=True)
    watermark.expire(10 * IDLE_MS)
    assert (watermark.watermark_ms, watermark.idle) == (10, False)
    watermark.note_more("behind", 10 * IDLE_MS, more=False)
    watermark.expire(11 * IDLE_MS - 1)
    assert (watermark.watermark_ms, watermark.idle) == (10, False), "it is silent from now on"
    watermark.expire(11 * IDLE_MS)
    assert watermark.idle


def test_an_idle_source_with_more_to_send_is_waited_for_again() -> None:
    watermark = InflowWatermark(IDLE_MS, 0, 0)
    watermark.join("behind", 0)
    watermark.advance("ahead", 90, NO_WATERMARK, 0)
    watermark.expire(IDLE_MS)
    assert watermark.idle
    watermark.note_more("behind", IDLE_MS, more=True)
    watermark.advance("ahead", 95, NO_WATERMARK, IDLE_MS)
    assert (watermark.watermark_ms, watermark.idle) == (NO_WATERMARK, False), "time does not advance without it"
