"""`within` and `per`: the meaning of their texts, and refused ones."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siddhi.engine.operators.incremental_aggregation.calendar import bucket_end, bucket_starts, sizes_of
from siddhi.engine.operators.incremental_aggregation.period import (
    parse_duration,
    time_or_none,
    within_bounds,
    within_pattern,
)
from siddhi.errors import SiddhiRuntimeError


def ms(year: int, month: int = 1, day: int = 1, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2024-**-** **:**:**", ms(2024), ms(2025)),
        ("2024-02-** **:**:**", ms(2024, 2), ms(2024, 3)),
        ("2024-12-** **:**:**", ms(2024, 12), ms(2025)),
        ("2024-02-29 **:**:**", ms(2024, 2, 29), ms(2024, 3)),
        ("2024-02-29 23:**:**", ms(2024, 2, 29, 23), ms(2024, 3)),
        ("2024-02-29 23:59:**", ms(2024, 2, 29, 23, 59), ms(2024, 3)),
        (" 2024-02-29 23:59:59 ", ms(2024, 2, 29, 23, 59, 59), ms(2024, 3)),
        ("2024-03-01 01:**:** +05:30", ms(2024, 2, 29, 19, 30), ms(2024, 2, 29, 20, 30)),
        ("2024-03-** **:**:** -02:00", ms(2024, 3, 1, 2), ms(2024, 4, 1, 2)),
    ],
)
def test_a_pattern_reaches_from_its_first_to_its_last_moment(text: str, start: int, end: int) -> None:
    assert within_pattern(text) == (start, end)


@pytest.mark.parametrize(
    "text",
    [
        "2024-**-04 **:**:**",
        "****-**-** **:**:**",
        "2024-2-3",
        "2024-02-30 **:**:**",
        "2024-01-01 25:**:**",
        "",
        "2024",
    ],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(SiddhiRuntimeError) as caught:
        within_pattern(text)
    assert caught.value.problems[0].code == "wrong-period"
    assert caught.value.problems[0].hint


def test_bounds_may_be_texts_and_longs_side_by_side() -> None:
    assert within_bounds(["2024-01-01 00:00:00 +01:00", ms(2024)]) == (ms(2023, 12, 31, 23), ms(2024))


@pytest.mark.parametrize("bounds", [[5, 5], [6, 5], [None, 5], ["2024-**-** **:**:**", 5], [5]])
def test_bounds_that_bound_nothing_are_refused(bounds: list[str | int | None]) -> None:
    with pytest.raises(SiddhiRuntimeError, match="wrong-period"):
        within_bounds(bounds)


@pytest.mark.parametrize("text", ["a", "2024-01-01", "2024-01-01 00:00:00 +19:00", "2024-13-01 00:00:00"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert time_or_none(text) is None


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("sec", "sec"),
        ("SECONDS", "sec"),
        ("minute", "min"),
        ("Hours", "hour"),
        ("H", "hour"),
        ("DAYS", "day"),
        ("years", "year"),
    ],
)
def test_durations_have_several_spellings(text: str, duration: str) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["yr", "weeks", "secs", "", " hours"])
def test_other_spellings_of_durations_are_refused(text: str) -> None:
    with pytest.raises(SiddhiRuntimeError, match="unknown-duration"):
        parse_duration(text)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.integers(ms(1), ms(9999)), min_size=1, max_size=30))
def test_buckets_begin_where_the_calendar_says(times: list[int]) -> None:
    moments = np.array(times, dtype=np.int64)
    units = {"sec": "s", "min": "m", "hour": "h", "day": "D", "month": "M", "year": "Y"}
    starts = bucket_starts(moments, sizes_of(list(units)))
    for level, (duration, unit) in enumerate(units.items()):
        expected = moments.astype("M8[ms]").astype(f"M8[{unit}]")
        assert (starts[:, level] == expected.astype("M8[ms]").astype(np.int64)).all()
        following = (expected + 1).astype("M8[ms]").astype(np.int64)
        assert [bucket_end(int(start), duration) for start in starts[:, level]] == following.tolist()
