"""Java's regular expressions run by Python's."""

from __future__ import annotations

import pytest

from siddhi.extensions.java_regex import PatternError, compile_pattern, expand, split


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?<year>\d{4})-\k<year>", "2020-2020"),
        (r"\Qa.b\E+", "a.bbb"),
        (r"\p{Alpha}+\p{Punct}", "abc!"),
        (r"[\p{Upper}_]+", "A_B"),
        (r"\P{Digit}", "x"),
        (r"\p{L}+", "äöü"),
        (r"a\hb", "a\tb"),
        (r"[\h]", "\u3000"),
        (r"(?i)abc", "ABC"),
        (r"a++b", "aaab"),
        (r"(?>a|ab)c", "ac"),
        (r"[]a]+", "]a"),
        (r"[^]a]", "b"),
        (r"\w+\z", "ab"),
        (r"[\[]x[ab].", "[xa\t"),
        (r"[\p{L} .'-]+", "Jörg-Peter O'Neill"),
        (r"\p{Lu}\p{Ll}+\p{IsPunctuation}", "Été!"),
        (r"[^\P{L}x]+", "aé"),
        (r"[\P{Digit}]+", "a-é"),
        (r"\v\V", "\u2028x"),
        (r"[\v]", "\x85"),
        (r"\0101\x{42}\cA", "AB\x01"),
        (r"(?s).", "\r"),
        (r"a(?:$)\r\n", "a\r\n"),
        (r"a(?:\Z)\u2028", "a\u2028"),
        (r"(?:.*\b)?café\b.*", "un café noir"),
    ],
)
def test_a_java_pattern_matches_what_java_matches(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).fullmatch(text)


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_dot_stands_for_no_line_end(end: str) -> None:
    assert not compile_pattern("a.b").fullmatch(f"a{end}b")
    assert compile_pattern("b$").search(f"a{end}b{end}")
    assert not compile_pattern("a$").search(f"a{end}b")


def test_no_text_ends_between_the_signs_of_one_line_end() -> None:
    assert compile_pattern("a$").search("a\r\n")
    assert not compile_pattern("\\r$").search("a\r\n")


def test_short_classes_mean_ascii() -> None:
    assert not compile_pattern(r"\w").fullmatch("ä")
    assert not compile_pattern(r"\d").fullmatch("٣")


@pytest.mark.parametrize("pattern", ["(", "[a&&b]", "[a[b]]", r"\p{Greek}", r"\G", r"[\H]", r"\x{110000}", "*"])
def test_what_cannot_be_translated_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "parts"),
    [
        (",", "a,b,,", ["a", "b"]),
        (",", ",a", ["", "a"]),
        ("", "abc", ["a", "b", "c"]),
        (",", "", [""]),
        (",", ",", []),
        ("(,)", "a,b", ["a", "b"]),
    ],
)
def test_a_text_is_split_as_java_splits(pattern: str, text: str, parts: list[str]) -> None:
    assert split(compile_pattern(pattern), text) == parts


def test_replacements_name_groups_by_number_and_name() -> None:
    match = compile_pattern(r"(?<a>x)(y)?").match("x")
    assert match is not None
    assert expand(match, r"${a}-$1-$2-\$") == "x-x--$"
    for wrong in ("$3", "${b}", "$"):
        with pytest.raises(PatternError):
            expand(match, wrong)
