"""What goes wrong with sources, sinks and connections is counted from how they are found."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_worker.runtime.error_tracking import ErrorTracker, PlanError

KEY = PlanKey(-1234, "Storms")


def sink(text: str, dropped: int = 0) -> PlanError:
    return PlanError(KEY, "sink http of Alerts", "sink", text, dropped)


def counts(errors_found: ErrorTracker) -> list[tuple[str, int]]:
    return [(one.text, one.count) for one in errors_found.of(KEY)]


def test_what_stays_wrong_counts_once_and_again_when_it_was_right_in_between() -> None:
    errors_found = ErrorTracker()
    for day_ms, text in enumerate(("", "no answer", "no answer", "", "no answer")):
        errors_found.look([sink(text)], day_ms)
    assert counts(errors_found) == [("no answer", 2)]
    assert (errors_found.of(KEY)[0].first_ms, errors_found.of(KEY)[0].last_ms) == (1, 4)


def test_a_text_in_which_only_numbers_change_is_the_same_trouble() -> None:
    errors_found = ErrorTracker()
    for attempt in range(5):
        errors_found.look([sink(f"no answer, attempt {attempt}")], attempt)
    assert counts(errors_found) == [("no answer, attempt 0", 1)]


def test_dropped_events_count_as_many() -> None:
    errors_found = ErrorTracker()
    errors_found.look([sink("")], 0)
    errors_found.look([sink("1000 events dropped, the last because: 500", 1_000)], 1)
    errors_found.look([sink("1000 events dropped, the last because: 500", 1_000)], 2)
    errors_found.look([sink("1400 events dropped, the last because: 500", 1_400)], 3)
    assert counts(errors_found) == [("1400 events dropped, the last because: 500", 1_400)]


def test_two_sinks_of_one_type_on_one_stream_are_told_apart() -> None:
    errors_found = ErrorTracker()
    for day_ms in range(3):
        errors_found.look([sink("full"), sink("no answer")], day_ms)
    assert counts(errors_found) == [("full", 1), ("no answer", 1)]


def test_a_plan_that_is_gone_is_forgotten() -> None:
    errors_found = ErrorTracker()
    errors_found.look([sink("full")], 0)
    errors_found.keep([])
    assert errors_found.of(KEY) == ()
