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
    ],
)
def test_a_java_pattern_matches_what_java_matches(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).fullmatch(text)


def test_short_classes_mean_ascii() -> None:
    assert not compile_pattern(r"\w").fullmatch("ä")
    assert not compile_pattern(r"\d").fullmatch("٣")


@pytest.mark.parametrize("pattern", ["(", "[a&&b]", "[a[b]]", r"\p{Greek}", r"\G", "*"])
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
