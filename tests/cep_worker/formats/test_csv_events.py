"""Events out of CSV."""

from __future__ import annotations

import pytest
from source_formats import EVERYTHING, impossible, paths, problems, read, refused

from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import MOST_DETAILS

A, B = (9, "WSO2", 55.5, 100), (9, "IBM", 75.5, 10)


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (b"WSO2,55.5,100\nIBM,75.5,10\n", {}),
        (b"\xef\xbb\xbfWSO2,55.5,100\r\n\r\nIBM, 75.5 , 10", {}),
        (b'"WSO2","55.5","100"\n"IBM","75.5","10"', {"event.grouping.enabled": "true"}),
        (b"WSO2;55.5;100\nIBM;75.5;10", {"delimiter": ";"}),
        (b"WSO2\t55.5\t100\nIBM\t75.5\t10", {"delimiter": "\\t"}),
        (b"symbol,price,volume\nWSO2,55.5,100\nIBM,75.5,10", {"header.present": "true"}),
        (b"just a headline\nWSO2,55.5,100\nIBM,75.5,10", {"header": "TRUE"}),
        (b"55.5,100,WSO2\n75.5,10,IBM", paths(symbol="2", price="0", volume="1")),
        (b"x,55.5,100,WSO2,y\n,75.5,10,IBM,", paths(symbol="3", price="1", volume="2")),
        (b"WSO2,55.5,100\nIBM,75.5,10", {"attributes.0": "0", "attributes.1": "1", "attributes.2": "2"}),
    ],
)
def test_each_line_is_an_event(body: bytes, options: dict[str, str]) -> None:
    assert read("csv", body, options) == [A, B]


def test_every_type_is_read_and_an_empty_field_is_null() -> None:
    body = b'x,1,2,0.5,1e3,True,WzFd\n,,,,,,\n"","3",4,-0.5,.5,false,\n'
    assert read("csv", body, schema=EVERYTHING) == [
        (9, "x", 1, 2, 0.5, 1000.0, True, b"[1]"),
        (9, *[None] * 7),
        (9, "", 3, 4, -0.5, 0.5, False, None),
    ]


def test_quotes_hold_delimiters_quotes_and_line_ends() -> None:
    assert read("csv", b'"a, ""b""\nc",1,2\nd"e,3,4') == [(9, 'a, "b"\nc', 1.0, 2), (9, 'd"e', 3.0, 4)]


@pytest.mark.parametrize("body", [b"", b"\n\r\n", b"symbol,price,volume"])
def test_a_body_without_lines_has_no_events(body: bytes) -> None:
    assert read("csv", body, {"header.present": "true"}) == []


def test_lines_that_are_too_short_or_too_long_are_refused_with_all_others() -> None:
    body = b"WSO2,55.5,100\nIBM\n\nSUN,1,2,3\nHP,x,1\n"
    assert problems("csv", body) == [
        (1, "", "has 1 values where 3 are expected"),
        (2, "", "has 4 values where 3 are expected"),
        (3, "price", "must be float, not 'x'"),
    ]
    assert refused("csv", body).message == "3 of 4 events do not fit stream Stocks; none was accepted"
    assert problems("csv", b"symbol\n1,2,x\n1", {"header.present": "true"})[0][0] == 0


def test_what_a_line_is_short_of_is_null_when_that_is_asked_for() -> None:
    lenient = {"fail.on.unknown.attribute": "false"}
    body = b'"I\nBM"\r\nWSO2,55.5,100\r\nSUN,1\r\n'
    assert read("csv", body, lenient) == [(9, "I\nBM", None, None), A, (9, "SUN", 1.0, None)]
    assert problems("csv", b"a\nb,1,2,3", lenient) == [(1, "", "has 4 values where 3 are expected")]
    assert read("csv", b"100,WSO2\n5", {**lenient, **paths(symbol="1", price="2", volume="0")}) == [
        (9, "WSO2", None, 100),
        (9, None, None, 5),
    ]


def test_not_all_of_a_hopeless_body_is_looked_at() -> None:
    error = refused("csv", b"a\n" * 5_000)
    assert error.message == "101 of 5000 events do not fit stream Stocks; none was accepted"
    assert len(error.details) == MOST_DETAILS
    assert refused("csv", b"a\n" * 5_000, {"header": "true"}).details[0].index == 0
    mixed = refused("csv", b"a\n" * 90 + b"a,x,1\n" * 90)
    assert [len(mixed.details), mixed.details[-1].index] == [MOST_DETAILS, 99]


def test_a_small_body_does_not_become_a_large_one() -> None:
    options = {"fail.on.unknown.attribute": "false", **paths(symbol="0", price="1", volume="9999")}
    assert "too many values are missing" in refused("csv", b"a\n" * 2_000, options).message
    assert read("csv", b"a\n" * 2, options) == [(9, "a", None, None)] * 2


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'WSO2,55.5,"100', "is not CSV: a quote is not closed"),
        (b'WSO2,55.5,"100\n', "is not CSV: a quote is not closed"),
        (b'"WSO2\nIBM,1,2\n', "is not CSV: a quote is not closed"),
        (b"\xff,1,2", "is not UTF-8"),
    ],
)
def test_a_body_that_is_no_csv_is_refused(body: bytes, problem: str) -> None:
    error = refused("csv", body)
    assert error.reason_code == "broken-csv"
    assert problem in error.message


def test_a_stream_of_one_attribute_and_the_character_that_ends_a_body_are_nothing_special() -> None:
    one = StreamSchema("One", (("s", "string"),))
    assert read("csv", b"a\n\x03\n\x03", schema=one) == [(9, "a"), (9, "\x03"), (9, "\x03")]
    assert problems("csv", b"a\nb,c", schema=one) == [(1, "", "has 2 values where 1 are expected")]


def test_the_time_stands_in_an_attribute() -> None:
    assert read("csv", b"WSO2,55.5,100", timestamp="volume") == [(100, *A[1:])]
    assert problems("csv", b"WSO2,55.5,", timestamp="volume")[0][1:] == (
        "volume",
        "is the event's timestamp and may not be null",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": "::"}, "delimiter: must be one ASCII character"),
        ({"delimiter": '"'}, "delimiter: must be one ASCII character"),
        (paths(symbol="a", price="0", volume="1"), "symbol: must be the number of a column, from 0, not 'a'"),
        (paths(symbol="99999", price="0", volume="1"), "symbol: must be the number of a column"),
        (paths(symbol="0", price="trp:x", volume="1"), "price: only sources http and kafka have transport properties"),
        (paths(symbol="0"), "@attributes: no path for price, volume"),
        ({"header.presnt": "true"}, "did you mean 'header.present'?"),
        ({"header.present": "maybe"}, "must be true or false"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, str], message: str) -> None:
    assert message in impossible("csv", options)
