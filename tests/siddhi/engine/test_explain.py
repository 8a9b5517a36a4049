"""`AppRuntime.explain()`: it describes the running operators and the choices that built them."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.base.choices import Choices, Execution, NotApplicable
from siddhi.explanation import ExplainedQuery, ExplainedStage, explanation_text
from siddhi.language.parser import parse

STREAMS = "@app:playback define stream S (k string, v long); define stream T (k string, v long); "
FAST = (Execution.COMPILED.value, Execution.BATCHES.value)


def explained(text: str) -> tuple[ExplainedQuery, ...]:
    return AppRuntime(analyse(parse(STREAMS + text))).explain().queries


def test_a_choice_notes_why_an_operator_does_not_apply() -> None:
    choices = Choices()
    assert choices.applicable("input", "Fast", NotApplicable("it is slow")) is None
    assert choices.applicable("input", "Other", 7) == 7
    assert choices.ruled_out == {("input", "Fast"): "it is slow"}


def test_queries_come_in_text_order_with_the_parts_that_events_pass() -> None:
    first, second = explained(
        "@info(name='a') from S[v > 1]#window.length(5) select k, v output last every 2 events insert into A;"
        "@info(name='b') from A select k, v insert into Out;"
    )
    assert (first.name, second.name) == ("a", "b")
    assert [one.part for one in first.operators] == ["input", "input", "selection", "output rate"]


def test_a_sliding_aggregate_is_compiled_and_sorting_rules_that_out() -> None:
    (compiled,) = explained("from S#window.length(5) select k, sum(v) as t group by k insert into Out;")
    assert [one.execution for one in compiled.operators] == [Execution.COMPILED.value]
    assert not compiled.operators[0].ruled_out
    assert not compiled.warnings
    (held_back,) = explained("from S#window.length(5) select k, sum(v) as t order by t insert into Out;")
    reasons = [other.reason for one in held_back.operators for other in one.ruled_out]
    assert any("order by" in reason for reason in reasons)


def test_every_operator_that_works_event_by_event_is_warned_of() -> None:
    for text in (
        "from S#window.expression(k) select k, v insert into Out;",
        "partition with (k of S) begin from S#window.expression(k) select k, v insert into Out; end;",
    ):
        (query,) = explained(text)
        slow = [one for one in query.operators if one.execution not in FAST]
        assert len(query.warnings) == len(slow) > 0


def test_windows_by_an_expression_are_compiled_or_say_why_not() -> None:
    for window in ("expression('count() < 3')", "expressionBatch('last.v - first.v < 3 or sum(v) > 2', v > 1, true)"):
        for text in ("{}", "partition with (k of S) begin {} end;"):
            (query,) = explained(text.format(f"from S#window.{window} select k, v insert into Out;"))
            assert (query.operators[0].operator, query.warnings) == ("CompiledExpressionWindow", ())
    for condition, reason in (
        ("sum(v + last.v) < 3", "the argument of an aggregate reads 'first' or 'last'"),
        ("not (v > 1 and count() < 3)", "an aggregate follows 'and' or 'or' inside another operator"),
        ("currentTimeMillis() > 3", "'currentTimeMillis' returns varying values"),
    ):
        (query,) = explained(f"from S#window.expression('{condition}') select k, v insert into Out;")
        assert [one.reason for one in query.operators[0].ruled_out] == [f"the expression of the window: {reason}"]


def test_a_window_of_many_keys_is_compiled() -> None:
    (query,) = explained("partition with (k of S) begin from S#window.sort(2, v) select k, v insert into Out; end;")
    assert query.operators[0].operator == "KeyedWindow"
    assert not query.warnings


def test_functions_that_are_called_row_by_row_are_named() -> None:
    (query,) = explained(
        "from S select convert(k, 'double') as t, str:upper(k) as u, convert(v, 'double') as d insert into Out;"
    )
    assert query.warnings == ("called in Python for each event, or each different value: convert, upper",)
    (grouped,) = explained("from S#window.length(5) select str:groupConcat(k) as t insert into Out;")
    assert grouped.warnings == ("called in Python for each event, or each different value: groupConcat",)
    for columnar in ("convert(v, 'double')", "convert(v, 'string')", "str:concat(k, v)", "UUID()"):
        (whole,) = explained(f"from S select {columnar} as d insert into Out;")
        assert not whole.warnings


def test_events_that_go_one_by_one_are_warned_of_at_each_query_that_they_reach() -> None:
    first, second = explained(
        "from S[v > 0] select k, v - 1L as v insert into M; from M[v > 0] select k, v insert into S;"
    )
    assert all(any("in a cycle" in one for one in query.warnings) for query in (first, second))


def test_joins_go_chunk_by_chunk_only_where_their_condition_may_fail() -> None:
    text = "from S#window.{0} as a join T#window.{0} as b on a.k == b.k select a.k as k, b.v as v insert into Out;"
    for window in ("length(5)", "timeBatch(1 sec)", "session(1 sec)", "unique:ever(k)", "sort(5, v)", "delay(5)"):
        (compiled,) = explained(text.format(window))
        assert compiled.operators[0].execution == Execution.COMPILED.value
        assert not compiled.warnings
    (careful,) = explained(text.format("sort(5, v)").replace("a.k == b.k", "cast(a.v, 'int') == b.v"))
    assert careful.operators[0].execution == Execution.CHUNKS.value
    assert careful.warnings


def test_queries_that_share_an_index_say_so() -> None:
    queries = explained("".join(f"from S[k == '{n}'] select k, v insert into Out;" for n in range(20)))
    assert {query.shared for query in queries} == {"shares an index over the conditions of 20 queries of S"}


def test_explaining_changes_nothing() -> None:
    runtime = AppRuntime(analyse(parse(STREAMS + "from S#window.length(5) select sum(v) as t insert into Out;")))
    runtime.start(0)
    before = runtime.snapshot()
    assert runtime.explain() == runtime.explain()
    assert runtime.snapshot() == before


@pytest.mark.parametrize(
    "text",
    [
        "from S[v > 1] select k, v insert into Out;",
        "from S#window.length(50) select k, sum(v) as t group by k insert into Out;",
        "from S#window.timeBatch(1 sec) select k, sum(v) as t group by k insert into Out;",
        "from every a=S[v > 90] -> b=S[k == a.k] within 1 sec select a.k as k insert into Out;",
    ],
)
def test_what_is_not_warned_of_calls_no_python_function_for_each_event(text: str) -> None:
    runtime = AppRuntime(analyse(parse(STREAMS + text)))
    assert not runtime.explain().queries[0].warnings
    runtime.start(0)
    count, calls = 1_000, 0
    numbers = range(3 * count)
    rows = {"_timestamp": numbers, "k": [str(n % 9) for n in numbers], "v": [n % 100 for n in numbers]}
    batches = pa.record_batch({name: pa.array(values) for name, values in rows.items()})
    for part in range(2):  # loads what is compiled
        runtime.send("S", batches.slice(part * count, count))

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        runtime.send("S", batches.slice(2 * count))
    finally:
        sys.setprofile(None)
    assert calls < count


def test_the_text_has_a_paragraph_for_each_query() -> None:
    text = explanation_text([ExplainedStage("main", explained("from S select k, v insert into Out;"))])
    assert text.splitlines()[0].startswith("main: query query_1")
    assert "  selection    Selector (whole batches)" in text
