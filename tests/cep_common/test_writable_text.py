"""Text of any origin can be sent and stored."""

from __future__ import annotations

import os

from cep_common.writable import one_line, writable


def test_what_is_no_utf_8_is_told_by_its_number() -> None:
    assert writable(os.fsdecode(b"Stra\xdfe")) == "Stra\\udcdfe"
    assert writable("a" + chr(0xD800) + "b") == "a\\ud800b"


def test_other_text_stays_the_same_object() -> None:
    for text in ("", "plain", "Straße 🦀 \0 \\udcdf"):
        assert writable(text) is text


def test_a_line_of_a_log_stays_one() -> None:
    assert one_line("a\nb\r\x1b[A\u2028\x85\tä") == "a\\nb\\r\\x1b[A\\u2028\\x85\tä"
