"""Events out of texts."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_formats import EVERYTHING, impossible, paths, problems, read, refused

from cep_worker.formats.source_mappers.text_mapper import named_groups

A, B = (9, "WSO2", 55.5, 100), (9, "IBM", 75.5, 10)
ONE = b'symbol:"WSO2",\nprice:55.5,\nvolume:100\n'
TWO = ONE + b"~~~~~~~~~~\nvolume : 1,0 ,\r\nsymbol:'IBM',\nprice:75.5"
GROUPED = {"event.grouping.enabled": "true"}
MATCHED = {"regex.A": r"(\w+)\s([-.0-9]+)", "regex.B": r"volume (?<v>[0-9,]+)"} | paths(
    symbol="A[1]", price="A[2]", volume="B"
)


def test_a_line_tells_an_attribute() -> None:
    assert read("text", ONE) == [A]
    assert read("text", b'more:1,\nno name,\nsymbol:"WSO2",\nprice:55.5,\nvolume:100,\nvolume:7') == [A]
    assert read("text", b"\n") == []


def test_lines_part_events() -> None:
    assert read("text", TWO, GROUPED) == [A, B]
    assert read("text", TWO.replace(b"~~~~~~~~~~", b"---"), {**GROUPED, "delimiter": "---"}) == [A, B]


def test_every_type_is_read() -> None:
    body = b"s:\"a 'b' \\\",\ni:1,\nl:-2,\nf:0.5,\nd:1e3,\nb:true,\no:WzFd"
    assert read("text", body, schema=EVERYTHING) == [(9, "a 'b' \\", 1, -2, 0.5, 1000.0, True, b"[1]")]
    nulls = b"s:null,\ni:null,\nl:null,\nf:null,\nd:null,\nb:null,\no:null"
    assert read("text", nulls, schema=EVERYTHING) == [(9, *[None] * 7)]


def test_a_missing_attribute_is_refused_or_null() -> None:
    body = b"price:,\nvolume:1"
    assert problems("text", body) == [(0, "symbol", "is missing (string)"), (0, "price", "is missing (float)")]
    assert read("text", body, {"fail.on.missing.attribute": "false"}) == [(9, None, None, 1)]


@pytest.mark.parametrize(
    ("body", "attribute", "problem"),
    [
        (b"symbol:WSO2,\nprice:1,\nvolume:2", "symbol", "must be in quotes"),
        (b'symbol:",\nprice:1,\nvolume:2', "symbol", "must be in quotes"),
        (b'symbol:"a,\nb",\nprice:1,\nvolume:2', "symbol", "must be in quotes"),
        (b'symbol:"a",\nprice:1,\nvolume:x', "volume", "must be long, not 'x'"),
        (b'price:1,\nvolume:2,\nsymbol:"a"\n~~~~~~~~~~\nsymbol:"b"', "symbol", "set event.grouping.enabled='true'"),
    ],
)
def test_values_that_do_not_fit_are_named(body: bytes, attribute: str, problem: str) -> None:
    ((_, named, told),) = problems("text", body)
    assert named == attribute
    assert problem in told


def test_what_does_not_fit_is_numbered_by_event() -> None:
    assert [index for index, *_ in problems("text", ONE + b"~~~~~~~~~~\nx\n~~~~~~~~~~\n" + ONE, GROUPED)] == [1, 1, 1]


def test_patterns_find_attributes() -> None:
    assert read("text", b"  WSO2 55.5 volume 1,00\n", MATCHED) == [A]
    body = b"WSO2 55.5 volume 100\n~~~~~~~~~~\nIBM 75.5 volume 10\n"
    assert read("text", body, {**GROUPED, **MATCHED}) == [A, B]
    whole = {"regex.A": r"\d+"} | paths(symbol="A[0]", price="A[0]", volume="A[0]")
    assert read("text", b"x 12", whole) == [(9, "12", 12.0, 12)]


def test_what_no_pattern_finds_is_refused_or_null() -> None:
    assert problems("text", b"WSO2 55.5", MATCHED) == [(0, "volume", "is not found (long)")]
    assert read("text", b"WSO2 55.5", {**MATCHED, "fail.on.missing.attribute": "false"}) == [(9, "WSO2", 55.5, None)]
    assert problems("text", b"WSO2 - volume 1", MATCHED) == [(0, "price", "must be float, not '-'")]


def test_a_pattern_that_would_take_for_ever_elsewhere_does_not() -> None:
    evil = {"regex.A": r"^((a+)+)+$", "fail.on.missing.attribute": "false"}
    assert read("text", b"a" * 50_000 + b"!", evil | paths(symbol="A", price="A", volume="A")) == [
        (9, None, None, None)
    ]


def test_a_body_that_is_no_text_is_refused() -> None:
    error = refused("text", b"symbol:\xff")
    assert error.reason_code == "broken-text"
    assert "is not UTF-8" in error.message


def test_the_time_stands_in_an_attribute() -> None:
    assert read("text", ONE, timestamp="volume") == [(100, *A[1:])]


@pytest.mark.parametrize(
    ("pattern", "named", "count"),
    [
        (r"(\w+)\s([-.0-9]+)", r"(?P<g0>(?P<g1>\w+)\s(?P<g2>[-.0-9]+))", 2),
        (r"\((?:a)(?<b>[(\]]\()", r"(?P<g0>\((?:a)(?P<g1>[(\]]\())", 1),
        (r"[](](x)[^]()]\Q(\E(?i)(?P<n>y)", r"(?P<g0>[](](?P<g1>x)[^]()]\Q(\E(?i)(?P<g2>y))", 2),
        (r"\Q(", r"(?P<g0>\Q()", 0),
    ],
)
def test_groups_get_names(pattern: str, named: str, count: int) -> None:
    assert named_groups(pattern) == (named, count)


@settings(deadline=None)
@given(st.text(alphabet="(a)[]^?:|*+\\.Q", max_size=12))
def test_any_pattern_keeps_its_groups(pattern: str) -> None:
    text, count = named_groups(pattern)
    with warnings.catch_warnings(), suppress(re.error):  # no pattern, or one that means something else elsewhere
        warnings.simplefilter("ignore", FutureWarning)
        compiled = re.compile(pattern)
        assert re.compile(text).groups == compiled.groups + 1 == count + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regex.A": "(x)"}, "regex.A='…' and @attributes(attribute='A[1]') go together"),
        (paths(symbol="A", price="A", volume="A"), "go together"),
        (
            MATCHED | {"attributes.symbol": "C[1]"},
            "symbol: must name a pattern and its group, as A[1], B[1], not 'C[1]'",
        ),
        (MATCHED | {"attributes.symbol": "A[3]"}, "symbol: regex.A has no group 3"),
        (MATCHED | {"regex.A": "(x"}, "regex.A: '(x' cannot be used: missing )"),
        (
            MATCHED | {"regex.A": "(?=x)(y)(z)"},
            "lookaround, backreferences and possessive quantifiers are not supported",
        ),
        ({"delimiter": " "}, "delimiter: must be a separate line"),
        ({"new.line.character": ";"}, "new.line.character: must be"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, str], message: str) -> None:
    assert message in impossible("text", options)
