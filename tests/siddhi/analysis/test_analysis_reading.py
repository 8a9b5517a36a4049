"""How queries use values, according to the text of an app."""

from __future__ import annotations

import pytest

from siddhi.analysis import model
from siddhi.analysis.analyser import analyse
from siddhi.analysis.reading import attributes_always_read, computes
from siddhi.language.parser import parse

STREAMS = "define stream S (a string, b string, c int, d double); define stream T (a string, c int);"


@pytest.mark.parametrize(
    ("queries", "found"),
    [
        ("", set()),
        ("from S select a insert into O;", None),
        ("from S[c > 1] select a insert into O;", {"c"}),
        ("from S[c > 1][b == 'x'] select a insert into O;", {"c"}),
        ("from S#window.length(2) select a insert into O;", None),
        ("from S[c > 1] select a insert into O; from S[b == 'x' or not(a is null)] select d insert into P;", {*"abc"}),
        ("from S[c > 1] select a insert into O; from S select d insert into P;", None),
        ("from every e1=S[c > 1] -> e2=S[b == e1.b] select e1.a as a insert into O;", {"b", "c"}),
        ("from every e1=S[c > 1] -> e2=S select e1.a as a insert into O;", None),
        ("from S[c > 1]#window.length(2) as l join T as r on l.a == r.a select l.b as b insert into O;", {"c"}),
        ("from T as l join S#window.length(2) as r on l.a == r.a select r.b as b insert into O;", None),
        ("partition with (a of S) begin from S[c > 1] select b insert into O; end;", {"a", "c"}),
        ("partition with (c > 1 as 'x' of S) begin from S[d > 1] select b insert into O; end;", {"c", "d"}),
        ("partition with (a of S) begin from S[c > 1] select b insert into #S; from #S select b insert into O; end;",
         {"a", "c"}),
        ("define aggregation A from S select a, count() as n group by a aggregate every sec;", None),
    ],
)  # fmt: skip
def test_strings_behind_a_filter_are_not_always_read(queries: str, found: set[str] | None) -> None:
    app = analyse(parse(STREAMS + queries + "from T select a insert into Q;"))
    assert attributes_always_read(app, "S") == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("from S[c > 1 and not(a == 'x')] select a, c insert into O;", False),
        ("from S#window.length(2) select a, d group by a having d > 1.0 insert into O;", False),
        ("from every e1=S[c > 1] -> e2=S[b == e1.b] select e1.a as a insert into O;", False),
        ("from S[c + 1 > 1] select a insert into O;", True),
        ("from S select d / 2 as d insert into O;", True),
        ("from S select a, c having c * 2 > 1 insert into O;", True),
        ("from S select convert(c, 'double') as d insert into O;", True),
        ("from S#window.length(2) as l join T#window.length(2) as r on l.c + 1 == r.c select l.b as b insert into O;",
         True),
        ("from every e1=S[c > 1] -> e2=S[c > e1.c * 2] select e1.a as a insert into O;", True),
        ("from S#log() select a insert into O;", True),
        ("from S#window.expression('count() < 2') select a insert into O;", True),
        ("from S select sum(d) as d insert into O;", True),
    ],
)  # fmt: skip
def test_a_query_that_makes_numbers_of_its_own_is_known(query: str, found: bool) -> None:
    (analysed,) = analyse(parse(STREAMS + query)).elements
    assert isinstance(analysed, model.AnalysedQuery)
    assert computes(analysed, aggregates=True) == found
    if "sum(" in query:
        assert not computes(analysed, aggregates=False)
