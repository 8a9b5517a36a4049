"""There are no warnings about patterns that continue to match."""

from __future__ import annotations

import pytest

from query_plan.examination import examine

STREAMS = """@Plan:name('P')
@Import('A:1.0.0') define stream A (k string, v int, b bool);
@Import('C:1.0.0') define stream C (k string, v int, b bool);
@Export('B:1.0.0') define stream B (one int);
from A select 1 as one insert into B;
from C select 1 as one insert into B;
"""


@pytest.mark.parametrize(
    "pattern",
    [
        "every e1=A -> not C for 1 sec",
        "every e1=A -> not C for 1 sec within 1 sec",
        "every not A for 5 sec -> e2=C within 1 sec",
        "every not C for 1 sec",
        "every not C and e1=A",
        "every (e1=A -> not C for 1 sec or e2=A)",
        "every e1=A -> not C for 5 sec or e2=A within 1 sec",
        "every (A)",
        "e1=A -> e2=C",
        "every e1=A, e2=C<2>, e3=A and e4=C, e5=C+",
        "every e1=A<0:2>, e2=C",
        "every e1=A -> e2=C<0:2> -> e3=A",
        "every e1=A[v > 2 and v < 5 and k == 'x' and k != 'y' and b == true] -> e2=C[v > e1.v and v < 3]",
        "every e1=A[v >= 3 and v <= 3][v != 4] -> e2=C[1 < 2 and true]",
        "every e1=A[1 > 2] or e2=C",
        "every e1=A -> e2=C[v > 5 and e1.v < 3]",
        "every e1=A[e1[last].v is null or v > e1[last].v]<2:> -> e2=C[v > e1[last].v]",
    ],
)
def test_what_goes_on_to_match_has_no_warning(pattern: str) -> None:
    assert examine(f"{STREAMS}from {pattern} select 1 as one insert into B;").findings == ()


def test_patterns_in_partitions_are_looked_at() -> None:
    text = f"{STREAMS}partition with (k of A, k of C) begin from e1=A, e2=C select 1 as one insert into B; end;"
    assert [one.problem.code for one in examine(text).findings] == ["sequence-without-every"]
