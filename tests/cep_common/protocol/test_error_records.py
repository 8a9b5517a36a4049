"""Errors are grouped where they arise."""

from __future__ import annotations

import msgspec

from cep_common.protocol.error_records import LONGEST_TEXT, LONGEST_TRACEBACK, ErrorLog, ErrorRecord, group_of


def test_a_million_errors_that_differ_in_numbers_only_are_one_record() -> None:
    log = ErrorLog()
    for turn in range(1_000):
        log.note("event-dropped", f"row {turn}: value 0x{turn:x} is {turn}.5", 5_000 + turn, count=1_000)
    (record,) = log.records()
    assert (record.count, record.first_ms, record.last_ms) == (1_000_000, 5_000, 5_999)
    assert record.text == "row 999: value 0x3e7 is 999.5"


def test_instance_code_and_words_tell_groups_apart() -> None:
    log = ErrorLog()
    log.note("a", "one", 1)
    log.note("b", "one", 1)
    log.note("a", "two", 1)
    log.note("a", "one", 1, instance="storms#0")
    assert [record.count for record in log.records()] == [1, 1, 1, 1]


def test_the_group_that_was_seen_last_longest_ago_goes_first() -> None:
    log = ErrorLog(most=2)
    log.note("a", "old", 1)
    log.note("a", "newer", 2)
    log.note("a", "old", 3)
    log.note("a", "newest", 4)
    assert [(record.text, record.count) for record in log.records()] == [("old", 2), ("newest", 1)]


def test_what_was_given_out_does_not_change() -> None:
    log = ErrorLog()
    log.note("a", "one", 1)
    before = log.records()
    log.note("a", "one", 2)
    assert (before[0].count, log.records()[0].count) == (1, 2)


def test_long_texts_keep_their_beginning_and_tracebacks_their_end() -> None:
    log = ErrorLog()
    log.note("a", "t" * 5_000, 1, traceback="x" * 50_000 + "ValueError: here")
    (record,) = log.records()
    assert len(record.text) == LONGEST_TEXT
    assert len(record.traceback) == LONGEST_TRACEBACK + len("…\n")
    assert record.traceback.endswith("ValueError: here")
    log.note("code", "other", 1, traceback="  File …, line 1\n" * 1_000 + "ValueError: here")
    assert log.records()[-1].traceback.startswith("…\n  File …, line 1\n")


def test_an_error_of_a_text_that_no_message_can_hold_is_told_all_the_same() -> None:
    log = ErrorLog()
    log.note("script", "unknown unit " + chr(0xD800), 1, traceback="ValueError: unknown unit " + chr(0xD800))
    (record,) = log.records()
    assert (record.text, record.traceback) == ("unknown unit \\ud800", "ValueError: unknown unit \\ud800")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=ErrorRecord) == record


def test_dates_addresses_and_counts_are_numbers() -> None:
    assert group_of("10.0.0.1:9092 lost after 3,000 ms at 12:30") == group_of("10.0.0.22:9093 lost after 5 ms at 1:00")
