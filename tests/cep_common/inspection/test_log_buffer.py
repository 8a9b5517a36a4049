"""The newest records are kept, as many as fit, and found again."""

from __future__ import annotations

import logging
import os
import sys
import threading

import pytest

from cep_common.inspection.log_buffer import ANSWER_BYTES, MOST_TEXT, OVERHEAD_BYTES, LogBuffer
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.inspection import LogRead, ReadLog


@pytest.fixture
def ring() -> LogBuffer:
    return LogBuffer(1_000_000)


def logger_of(ring: LogBuffer) -> logging.Logger:
    logger = logging.Logger("cep_test", logging.DEBUG)  # noqa: LOG001 - one that no other test has
    logger.addHandler(ring)
    return logger


def texts(read: LogRead) -> list[str]:
    return [record.text for record in read.records]


def test_a_record_has_its_parts(ring: LogBuffer) -> None:
    logger_of(ring).error("it failed: plan=%s", "P[1]", exc_info=ValueError("password=hunter2"))
    (record,) = ring.read(ReadLog("r")).records
    assert (record.sequence, record.level, record.logger, record.text) == (
        1,
        "ERROR",
        "cep_test",
        "it failed: plan=P[1]",
    )
    assert record.thread == threading.current_thread().name
    assert record.traceback.startswith("ValueError: password=")
    assert "hunter2" not in record.traceback


def test_the_oldest_go_when_the_bytes_are_used_up() -> None:
    ring = LogBuffer(10 * (OVERHEAD_BYTES + sys.getsizeof("1") + sys.getsizeof("")))
    for number in range(25):
        logger_of(ring).info("%d", number % 10)
    read = ring.read(ReadLog("r"))
    assert (read.oldest, read.newest, len(read.records)) == (16, 25, 10)


@pytest.mark.thorough
def test_texts_of_wide_characters_count_for_the_bytes_that_they_take() -> None:
    kept = {}
    for character in "xж蟹🦀":
        ring = LogBuffer(1_000_000)
        for _ in range(1_000):
            logger_of(ring).info("%s", character * 1_000)
        read = ring.read(ReadLog("r"))
        kept[character] = read.newest - read.oldest + 1
    assert 780 < kept["x"] < 830
    assert 430 < kept["ж"] == kept["蟹"] < 450
    assert 225 < kept["🦀"] < 240


def test_what_is_no_utf_8_can_be_told(ring: LogBuffer) -> None:
    name = os.fsdecode(b"plans/Stra\xdfe.siddhi")
    logger = logging.Logger(f"cep.{name}")  # noqa: LOG001 - one that no other test has
    logger.addHandler(ring)
    thread = threading.Thread(target=lambda: logger.error("left: file=%s", name, exc_info=OSError(name)), name=name)
    thread.start()
    thread.join()
    (record,) = ring.read(ReadLog("r")).records
    readable = "plans/Stra\\udcdfe.siddhi"
    assert (record.logger, record.thread, record.text) == (f"cep.{readable}", readable, f"left: file={readable}")
    assert readable in record.traceback
    read = ring.read(ReadLog("r"))
    assert decode(encode(read)).message == read


def test_the_newest_that_fit_are_read_and_then_older_ones(ring: LogBuffer) -> None:
    for number in range(10):
        logger_of(ring).info("%d", number)
    newest = ring.read(ReadLog("r", most_records=3))
    assert texts(newest) == ["7", "8", "9"]
    assert (newest.more, newest.reached) == (True, 10)
    older = ring.read(ReadLog("r", before=newest.records[0].sequence, most_records=100))
    assert texts(older) == [str(number) for number in range(7)]
    assert not older.more


def test_what_follows_a_place_is_read_in_pieces_without_gaps(ring: LogBuffer) -> None:
    for number in range(10):
        logger_of(ring).info("%d", number)
    first = ring.read(ReadLog("r", after=2, most_records=5))
    rest = ring.read(ReadLog("r", after=first.reached, most_records=5))
    assert texts(first) + texts(rest) == [str(number) for number in range(2, 10)]
    assert (first.more, rest.more, rest.reached) == (True, False, 10)


def test_records_that_do_not_fit_are_passed_over_for_good(ring: LogBuffer) -> None:
    for number in range(5):
        logger_of(ring).debug("%d", number)
    read = ring.read(ReadLog("r", after=0, level="WARNING"))
    assert (read.records, read.reached) == ((), 5)


def test_filters_look_at_level_text_traceback_and_logger(ring: LogBuffer) -> None:
    logger = logger_of(ring)
    logger.info("Topology ended: topology=Storms[-1234]")
    logger.warning("other")
    logger.error("failed", exc_info=KeyError("needle"))
    assert texts(ring.read(ReadLog("r", level="WARNING"))) == ["other", "failed"]
    assert texts(ring.read(ReadLog("r", contains="NEEDLE"))) == ["failed"]
    assert len(ring.read(ReadLog("r", contains="cep_test")).records) == 3


def test_a_plan_is_not_mentioned_where_one_that_ends_with_its_name_is(ring: LogBuffer) -> None:
    for name in ("Storms[-1234]", "MyStorms[-1234]", "Storms[-12345]", "my.Storms[-1234]"):
        logger_of(ring).info("topology ended: topology=%s reason=x", name)
    assert texts(ring.read(ReadLog("r", mentions="Storms[-1234]"))) == [
        "topology ended: topology=Storms[-1234] reason=x"
    ]


@pytest.mark.thorough
def test_long_texts_are_cut_and_answers_are_bounded() -> None:
    ring = LogBuffer(100_000_000)
    for _ in range(200):
        logger_of(ring).info("x" * 100_000)
    read = ring.read(ReadLog("r", most_records=1_000))
    assert read.more
    assert len(read.records[0].text) < MOST_TEXT + 100
    assert sum(len(record.text) for record in read.records) <= ANSWER_BYTES


def test_a_record_that_cannot_be_formatted_raises_nothing(ring: LogBuffer, capsys: pytest.CaptureFixture[str]) -> None:
    logger_of(ring).info("%d", "no number")
    assert ring.read(ReadLog("r")).records == ()
    assert "no number" in capsys.readouterr().err
