"""The preview of an edit follows from the texts alone."""

from __future__ import annotations

from siddhi.analysis.analyser import analyse
from siddhi.engine.migration.edit_preview import preview_edit
from siddhi.language.parser import parse

NOW = """define stream S (k string, v int); define table T (k string);
@info(name='sums') from S#window.length(9) select k, sum(v) as v group by k insert into A;
@info(name='longs') from S#window.length(8) select sum(v) as v insert into B;
@info(name='plain') from S select k insert into T;"""


def fates(edited: str) -> dict[str, tuple[bool, str]]:
    found = preview_edit(analyse(parse(NOW)), analyse(parse(edited)))
    return {str(fate.part): (fate.kept, fate.reason) for fate in found}


def test_each_part_that_may_hold_something_is_told_of() -> None:
    assert fates(NOW) == {"table T": (True, ""), "query sums": (True, ""), "query longs": (True, "")}


def test_what_would_be_computed_anew_and_what_reset_is_told_with_the_reason() -> None:
    edited = NOW.replace("k, sum(v) as v group by k", "k, avg(v) as v group by k").replace("length(8)", "length(7)")
    assert fates(edited) == {
        "table T": (True, ""),
        "query sums": (True, "its aggregates are computed from its rows"),
        "query longs": (False, "its definition changed"),
    }
