"""Events out of XML."""

from __future__ import annotations

import pytest
from source_formats import EVERYTHING, impossible, paths, problems, read, refused

from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import MOST_DETAILS

A = (9, "WSO2", 55.5, 100)
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
PORTFOLIO = b"""<?xml version="1.0"?>
<portfolio xmlns:dt="urn:schemas-microsoft-com:datatypes">
    <stock exchange="nasdaq"><volume n="100"/><company><symbol>WSO2</symbol></company>
        <price dt:type="number">55.5</price></stock>
    <stock><volume n="10"/><company><symbol>IBM</symbol></company><price dt:type="number">75.5</price></stock>
</portfolio>"""
BY_PATH = paths(symbol="company/symbol", price="price", volume="volume/@n")


def test_each_event_is_an_element_with_one_for_each_attribute() -> None:
    body = b"""<events><!-- two -->
        <event><price> 55.5 </price><symbol>WS<!-- -->O2</symbol><more>x</more><volume>100</volume></event>
        <event><symbol><![CDATA[a<b]]>&amp;</symbol><price>1</price><volume>2</volume></event>
    </events>"""
    assert read("xml", body) == [A, (9, "a<b&", 1.0, 2)]
    assert read("xml", b"<events/>") == []


def test_every_type_is_read_and_nil_is_null() -> None:
    tags = [name for name, _ in EVERYTHING.attributes]
    told = ("é", "1", "2", "0.5", "1e3", "TRUE", "WzFd")
    full = "".join(f"<{tag}>{text}</{tag}>" for tag, text in zip(tags, told, strict=True))
    nil = "".join(f'<{tag} xsi:nil="true"/>' for tag in tags)
    body = f"<events {XSI}><event>{full}</event><event>{nil}</event></events>"
    rows = [(9, "é", 1, 2, 0.5, 1000.0, True, b"[1]"), (9, *[None] * 7)]
    assert read("xml", body.encode(), schema=EVERYTHING) == rows
    latin = f"<?xml version='1.0' encoding='iso-8859-1'?>{body}"
    assert read("xml", latin.encode("latin-1"), schema=EVERYTHING) == rows


def test_a_missing_element_is_refused_or_null() -> None:
    body = b"<events><event><symbol/><price/></event></events>"
    assert problems("xml", body) == [(0, "price", "is empty (float)"), (0, "volume", "is missing (long)")]
    assert read("xml", body, {"fail.on.missing.attribute": "false"}) == [(9, "", None, None)]


def test_values_that_do_not_fit_are_named() -> None:
    event = "<event><symbol>a</symbol><price>1</price><volume>{}</volume></event>"
    body = f"<events>{event.format(1)}{event.format('x')}{event.format('<n>1</n>')}</events>"
    assert problems("xml", body.encode()) == [
        (1, "volume", "must be long, not 'x'"),
        (2, "volume", "must be long, not an element with child elements"),
    ]
    assert problems("xml", b"<events><events/><event/></events>")[:2] == [
        (0, "", "must be <event>, not <events>"),
        (1, "symbol", "is missing (string)"),
    ]
    assert problems("xml", b"<stocks/>") == [
        (0, "", "must be <events> with an <event> for each event, not <stocks>"),
    ]


def test_not_all_of_a_hopeless_body_is_looked_at() -> None:
    error = refused("xml", b"<events>" + b"<event/>" * 5_000 + b"</events>")
    assert error.message == "34 of 5000 events do not fit stream Stocks; none was accepted"
    assert len(error.details) == MOST_DETAILS


def test_paths_lead_from_the_children_of_an_element() -> None:
    rows = [A, (9, "IBM", 75.5, 10)]
    namespaces = {"namespaces": "dt=urn:schemas-microsoft-com:datatypes , x=urn:x"}
    assert read("xml", PORTFOLIO, {"enclosing.element": "//portfolio", **BY_PATH}) == rows
    as_event = {"enclosing.element": "/portfolio/stock", "enclosing.element.as.event": "true"}
    assert read("xml", PORTFOLIO, {**as_event, **BY_PATH}) == rows
    typed = paths(symbol="price/@dt:type", price="price[@dt:type='number']", volume="count(company)")
    assert read("xml", PORTFOLIO, {**as_event, **namespaces, **typed})[1] == (9, "number", 75.5, 1)


def test_without_an_enclosing_element_the_outermost_one_is_the_event() -> None:
    assert read("xml", b'<s a="WSO2"><p>55.5</p><v>100</v><v>7</v></s>', paths(symbol="@a", price="p", volume="v")) == [
        A
    ]


def test_a_string_may_be_an_element_as_it_stands() -> None:
    body = b"<stock><company><symbol>a</symbol></company><price>1</price><volume>2</volume></stock>"
    whole = paths(symbol="company", price="price", volume="volume")
    assert read("xml", body, whole) == [(9, "<company><symbol>a</symbol></company>", 1.0, 2)]
    assert problems("xml", body, paths(symbol="x", price="company", volume="volume")) == [
        (0, "symbol", "is missing (string)"),
        (0, "price", "must be float, not an element with child elements"),
    ]


def test_a_body_without_the_enclosing_element_is_refused() -> None:
    options = {"enclosing.element": "//stocks", **BY_PATH}
    assert problems("xml", PORTFOLIO, options) == [(0, "", "has nothing at //stocks")]
    assert read("xml", b"<stocks/>", options) == []


def test_a_body_that_shows_a_path_to_be_wrong_is_refused() -> None:
    options = {"enclosing.element": "//x[count('a') > 0]", **BY_PATH}
    error = refused("xml", b"<stocks><x/></stocks>", options)
    assert (error.reason_code, "cannot be evaluated" in error.message) == ("bad-events", True)


LAUGHS = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "is not XML"),
        (b"<events><event></events>", "is not XML"),
        (b"{}", "is not XML"),
        (b"<events>&nothing;</events>", "is not XML"),
        (b"<!DOCTYPE events [<!ENTITY e 'x'>]><events>&e;</events>", "has a document type"),
        (b"<!DOCTYPE events SYSTEM 'file:///etc/passwd'><events/>", "has a document type"),
        (f"<!DOCTYPE e [<!ENTITY l0 'x'>{LAUGHS}]><events><event a='&l9;'/></events>".encode(), "the body "),
        (b"<a>" * 300 + b"</a>" * 300, "is not XML"),
    ],
)
def test_a_body_that_is_no_xml_or_dangerous_is_refused(body: bytes, problem: str) -> None:
    error = refused("xml", body)
    assert error.reason_code == "broken-xml"
    assert problem in error.message


def test_the_time_stands_in_an_attribute() -> None:
    body = b"<events><event><symbol>WSO2</symbol><price>55.5</price><volume>100</volume></event></events>"
    assert read("xml", body, timestamp="volume") == [(100, *A[1:])]
    named = StreamSchema("S", (("_timestamp", "long"),))
    assert read("xml", b"<t>5</t>", paths(_timestamp="."), schema=named) == [(5, 5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enclosing.element": "//portfolio"}, "enclosing.element: needs @attributes"),
        ({**BY_PATH, "enclosing.element": "//["}, "enclosing.element: '//[' is not XPath"),
        (paths(symbol="x:symbol", price="price", volume="v"), "symbol: 'x:symbol' is not XPath"),
        (paths(symbol="nothing()", price="price", volume="v"), "symbol: 'nothing()' is not XPath"),
        ({**BY_PATH, "namespaces": "dt"}, "namespaces: must be prefix=uri"),
        ({"extract.leaf.node.data": "true"}, "extract.leaf.node.data: must be false, not 'true'"),
        (paths(symbol="trp:symbol", price="price", volume="v"), "have transport properties"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, str], message: str) -> None:
    assert message in impossible("xml", options)
