"""Longs against floats are ordered as floats and compared for equality as doubles, in any expression."""

from __future__ import annotations

import pytest

from siddhi.testing import Case, run_case

BIG = 2**24 + 1
"""The least whole number that a float cannot hold; as one it is 2**24."""

PLACES = {
    "filter": "from R[n {sign} x] select n insert into Out;",
    "pattern": "from every a=L -> b=R[a.n {sign} x] select a.n as n insert into Out;",
    "sequence": "from every a=L, b=R[x {turned} a.n] select a.n as n insert into Out;",
    "join": "from L#window.length(1) as a join R#window.length(1) as b on a.n {sign} b.x select a.n insert into Out;",
    "table": "from L insert into T; from R as b join T as a on a.n {sign} b.x select a.n insert into Out;",
}
TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
STREAMS = "@app:playback define stream L (n long); define stream R (n long, x float); define table T (n long);"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("sign", "holds"), [("==", False), ("!=", True), ("<", False), (">", False), ("<=", True), (">=", True)]
)
def test_a_long_and_a_float_of_nearly_its_value(place: str, sign: str, holds: bool) -> None:
    query = PLACES[place].format(sign=sign, turned=TURNED[sign])
    events = [
        {"stream": "L", "timestamp": 1, "data": [BIG]},
        {"stream": "R", "timestamp": 2, "data": [BIG, BIG - 1]},
    ]
    expect = {"streams": {"Out": [[2, [BIG]]] if holds else []}}
    document = {"events": events, "listen": {"streams": ["Out"]}, "expect": expect}
    assert run_case(Case("nearly", "", STREAMS + query, document)).differences == ()
