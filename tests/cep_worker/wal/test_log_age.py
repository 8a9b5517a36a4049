"""For how long the oldest event of a log has been there."""

from __future__ import annotations

from cep_worker.inflows.wal.age import MOST_MARKS, SPACING_MS, OldestAge


def test_the_age_is_that_of_the_oldest_event_that_is_not_secured() -> None:
    age = OldestAge()
    for second in range(10):
        age.note(second + 1, 0, second * 1_000)
    assert age.age_ms(9_000) == 9_000
    age.note(10, 4, 9_000)
    assert age.age_ms(9_000) == 5_000
    age.note(10, 10, 9_500)
    assert age.age_ms(9_500) == 0


def test_a_log_that_does_not_grow_ages() -> None:
    age = OldestAge()
    for now_ms in range(0, 60_000, 100):
        age.note(7, 0, now_ms)
    assert age.age_ms(60_000) == 60_000


def test_the_bookkeeping_is_bounded_and_never_tells_too_little() -> None:
    age = OldestAge()
    last = 4 * MOST_MARKS
    for turn in range(last + 1):
        age.note(turn + 1, 0, turn * SPACING_MS)
    now_ms = last * SPACING_MS
    for secured in range(0, last, 997):
        age.note(last + 1, secured, now_ms)
        true_age_ms = now_ms - secured * SPACING_MS
        assert true_age_ms <= age.age_ms(now_ms) <= true_age_ms + 8 * SPACING_MS
