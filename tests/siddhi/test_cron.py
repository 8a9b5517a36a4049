"""Quartz cron expressions: their meaning, and rejected ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from siddhi.cron import CronError, parse_cron

SATURDAY_NOON = datetime(2026, 11, 21, 12, 0, 3, 200_000, tzinfo=UTC)


def next_times(text: str, count: int) -> list[str]:
    """Return the first times after `SATURDAY_NOON`, as `Sat 2026-11-21 12:00:05`."""
    schedule, found = parse_cron(text), []
    time_ms: int | None = int(SATURDAY_NOON.timestamp() * 1000)
    for _ in range(count):
        assert time_ms is not None
        time_ms = schedule.next_after(time_ms)
        found.append("never" if time_ms is None else f"{datetime.fromtimestamp(time_ms / 1000, UTC):%a %Y-%m-%d %X}")
    return found


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("*/5 * * * * ?", ["Sat 2026-11-21 12:00:05", "Sat 2026-11-21 12:00:10"]),
        ("50/5 * * * * ?", ["Sat 2026-11-21 12:00:50", "Sat 2026-11-21 12:00:55", "Sat 2026-11-21 12:01:50"]),
        ("0 0 9 ? * MON-FRI", ["Mon 2026-11-23 09:00:00", "Tue 2026-11-24 09:00:00"]),
        ("0 0 9 ? * 2-6", ["Mon 2026-11-23 09:00:00", "Tue 2026-11-24 09:00:00"]),
        ("0 0 0 ? * fri-mon", ["Sun 2026-11-22 00:00:00", "Mon 2026-11-23 00:00:00", "Fri 2026-11-27 00:00:00"]),
        ("0 0 0 ? * 1,SAT", ["Sun 2026-11-22 00:00:00", "Sat 2026-11-28 00:00:00"]),
        ("0 0 0 ? * 2/2", ["Mon 2026-11-23 00:00:00", "Wed 2026-11-25 00:00:00", "Fri 2026-11-27 00:00:00"]),
        ("0 0 0 ? * SUN-SUN", ["Sun 2026-11-22 00:00:00", "Sun 2026-11-29 00:00:00"]),
        ("0 0 0 ? * L", ["Sat 2026-11-28 00:00:00", "Sat 2026-12-05 00:00:00"]),
        ("0 0 0 ? * 6L", ["Fri 2026-11-27 00:00:00", "Fri 2026-12-25 00:00:00"]),
        ("0 0 0 ? * FRI#3", ["Fri 2026-12-18 00:00:00", "Fri 2027-01-15 00:00:00"]),
        ("0 0 0 L * ?", ["Mon 2026-11-30 00:00:00", "Thu 2026-12-31 00:00:00"]),
        ("0 0 0 L-30 * ?", ["Tue 2026-12-01 00:00:00", "Fri 2027-01-01 00:00:00", "Mon 2027-03-01 00:00:00"]),
        ("0 0 0 LW * ?", ["Mon 2026-11-30 00:00:00", "Thu 2026-12-31 00:00:00", "Fri 2027-01-29 00:00:00"]),
        ("0 0 0 1W 5 ?", ["Mon 2027-05-03 00:00:00"]),
        ("0 0 22-1 * NOV ?", ["Sat 2026-11-21 22:00:00", "Sat 2026-11-21 23:00:00", "Sun 2026-11-22 00:00:00"]),
        ("0 0 0 29 2 ?", ["Tue 2028-02-29 00:00:00"]),
        ("0 0 0 1 1 ? 2027,2099", ["Fri 2027-01-01 00:00:00", "Thu 2099-01-01 00:00:00", "never"]),
    ],
)
def test_a_text_names_the_times_that_quartz_gives_it(text: str, times: list[str]) -> None:
    assert next_times(text, len(times)) == times


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*/5 * * * *", "has 6 or 7 fields, this one has 5"),
        ("0 0 0 1 * MON", "must be ?"),
        ("0 0 0 ? * ?", "must be ?"),
        ("60 * * * * ?", "'60' is not a value of seconds"),
        ("0 0 0 0 * ?", "'0' is not a value of days of the month"),
        ("0 0 0 ? * 8", "'8' is not a value of days of the week"),
        ("0 0 0 ? FEV MON", "'FEV' is not a value of months"),
        ("0 0 0 ? * MON#6", "'MON#6' cannot be read as days of the week"),
        ("0 0 0 1,L * ?", "'L' is not a value of days of the month"),
        ("0 0 0 L-31 * ?", "31 days before its last"),
        ("*/0 * * * * ?", "steps of 0"),
        ("0 0 0 31 2 ?", "never matches a time"),
        ("0 0 0 1 1 ? 2030-2028", "'2030-2028' ends before it begins"),
    ],
)
def test_what_is_no_cron_text_is_refused_with_a_hint(text: str, words: str) -> None:
    with pytest.raises(CronError) as refused:
        parse_cron(text)
    assert words in str(refused.value)
    assert refused.value.hint


def test_the_time_asked_about_is_not_after_itself_and_times_beyond_the_calendar_have_no_next() -> None:
    schedule = parse_cron("*/10 * * * * ?")
    assert schedule.next_after(9_999) == 10_000
    assert schedule.next_after(10_000) == 20_000
    assert schedule.next_after(10**18) is None
