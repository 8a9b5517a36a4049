"""Problems of retry loops are logged once, then each minute, and when they are over."""

from __future__ import annotations

import logging

import pytest

from cep_common.monitoring.paced_log import AGAIN_S, EVERY_S, MOST_SUBJECTS, MOST_TEXTS, PacedLog


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def paced(time: Time, caplog: pytest.LogCaptureFixture) -> PacedLog:
    caplog.set_level(logging.INFO)
    return PacedLog(logging.getLogger("paced"), time)


def test_a_problem_that_lasts_is_logged_once_then_each_minute(
    paced: PacedLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(16 * 150):
        paced.problem("manager", "no manager: reason=%s", "it is away")
        time.now += 1 / 16
    assert len(caplog.messages) == 3
    assert caplog.messages[0] == "no manager: reason=it is away"
    assert "959 more times" in caplog.messages[1]


def test_alternating_reasons_do_not_flood_the_log(paced: PacedLog, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(100):
        paced.problem("manager", "no manager: reason=%d", number)
    assert len(caplog.messages) == MOST_TEXTS


def test_subjects_do_not_hide_each_other(paced: PacedLog, caplog: pytest.LogCaptureFixture) -> None:
    paced.problem("one", "away")
    paced.problem("other", "away")
    assert caplog.messages == ["away", "away"]


def test_the_end_is_logged_once_and_only_after_a_problem(
    paced: PacedLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    paced.over("manager", "a manager responds again")
    paced.problem("manager", "no manager")
    paced.over("manager", "a manager responds again")
    paced.over("manager", "a manager responds again")
    time.now += AGAIN_S
    paced.problem("manager", "no manager")
    assert caplog.messages == ["no manager", "a manager responds again", "no manager"]


def test_what_fails_and_succeeds_in_turn_does_not_flood_the_log(
    paced: PacedLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(160):
        paced.problem("manager", "no manager")
        paced.over("manager", "a manager responds again")
        time.now += 1 / 16
    assert len(caplog.messages) <= 4


def test_the_end_of_many_subjects_frees_their_memory(paced: PacedLog, time: Time) -> None:
    for number in range(5 * MOST_SUBJECTS):
        paced.problem(str(number), "away")
        time.now += EVERY_S / 100
    assert len(paced._subjects) <= MOST_SUBJECTS
