"""What goes wrong with sources, sinks and connections is counted from how they are found."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_worker.runtime.error_tracking import ErrorTracker, PlanError

KEY = PlanKey(-1234, "Storms")


def sink(text: str, dropped: int = 0) -> PlanError:
    return PlanError(KEY, "sink http of Alerts", "sink", text, dropped)


def counts(troubles: ErrorTracker) -> list[tuple[str, int]]:
    return [(one.text, one.count) for one in troubles.of(KEY)]


def test_what_stays_wrong_counts_once_and_again_when_it_was_right_in_between() -> None:
    troubles = ErrorTracker()
    for day_ms, text in enumerate(("", "no answer", "no answer", "", "no answer")):
        troubles.look([sink(text)], day_ms)
    assert counts(troubles) == [("no answer", 2)]
    assert (troubles.of(KEY)[0].first_ms, troubles.of(KEY)[0].last_ms) == (1, 4)


def test_a_text_in_which_only_numbers_change_is_the_same_trouble() -> None:
    troubles = ErrorTracker()
    for attempt in range(5):
        troubles.look([sink(f"no answer, attempt {attempt}")], attempt)
    assert counts(troubles) == [("no answer, attempt 0", 1)]


def test_dropped_events_count_as_many() -> None:
    troubles = ErrorTracker()
    troubles.look([sink("")], 0)
    troubles.look([sink("1000 events dropped, the last because: 500", 1_000)], 1)
    troubles.look([sink("1000 events dropped, the last because: 500", 1_000)], 2)
    troubles.look([sink("1400 events dropped, the last because: 500", 1_400)], 3)
    assert counts(troubles) == [("1400 events dropped, the last because: 500", 1_400)]


def test_two_sinks_of_one_type_on_one_stream_are_told_apart() -> None:
    troubles = ErrorTracker()
    for day_ms in range(3):
        troubles.look([sink("full"), sink("no answer")], day_ms)
    assert counts(troubles) == [("full", 1), ("no answer", 1)]


def test_a_plan_that_is_gone_is_forgotten() -> None:
    troubles = ErrorTracker()
    troubles.look([sink("full")], 0)
    troubles.keep([])
    assert troubles.of(KEY) == ()
