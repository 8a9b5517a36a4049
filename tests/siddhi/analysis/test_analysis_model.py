"""The analysed model of valid apps."""

import pytest

from siddhi.analysis import model
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.definition.windows import analyse_window_condition
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.errors import SiddhiAnalysisError
from siddhi.language import ast
from siddhi.language.ast import AttributeType, EventIndex, EventType
from siddhi.language.parser import parse, parse_on_demand_query

INT, LONG, FLOAT, DOUBLE, BOOL, STRING, OBJECT = (
    AttributeType.INT,
    AttributeType.LONG,
    AttributeType.FLOAT,
    AttributeType.DOUBLE,
    AttributeType.BOOL,
    AttributeType.STRING,
    AttributeType.OBJECT,
)
DEFINITIONS = """define stream S (i int, l long, f float, d double, b bool, s string, o object);
define stream T (i int, s string);
define table Tb (k string, v int);
"""


def app_of(queries: str) -> model.AnalysedApp:
    return analyse(parse(DEFINITIONS + queries))


def query_of(text: str, position: int = 0) -> model.AnalysedQuery:
    query = app_of(text).elements[position]
    assert isinstance(query, model.AnalysedQuery)
    return query


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("i + i", INT), ("i + l", LONG), ("l * f", FLOAT), ("f - d", DOUBLE), ("i / 2", INT), ("s + i", INT),
        ("i > d", BOOL), ("5 sec", LONG), ("sum(i)", LONG), ("sum(f)", DOUBLE), ("avg(i)", DOUBLE), ("max(f)", FLOAT),
        ("count()", LONG), ("distinctCount(s)", LONG), ("stdDev(l)", DOUBLE), ("convert(i, 'Double')", DOUBLE),
        ("coalesce(l, 3L)", LONG), ("ifThenElse(b, f, f)", FLOAT), ("createSet(s)", OBJECT), ("eventTimestamp()", LONG),
        ("sum(i) * 2 + count()", LONG), ("s is null", BOOL),
    ],
)  # fmt: skip
def test_types_follow_from_operators_and_declarations(expression: str, expected: AttributeType) -> None:
    assert query_of(f"from S select {expression} as x insert into O").output.schema.attributes == (("x", expected),)


def test_a_stream_is_defined_by_the_first_query_that_inserts_into_it() -> None:
    app = app_of("from S select s, sum(d) as total group by s insert into M; from M[total > 2.0] insert into N;")
    assert app.streams["N"].schema.attributes == (("s", STRING), ("total", DOUBLE))
    assert not app.streams["N"].defined
    assert [query.name for query in app.elements] == ["query_1", "query_2"]
    assert app.elements[0].selection.aggregates  # type: ignore[union-attr]


def test_a_comparison_knows_the_type_in_which_it_compares() -> None:
    query = query_of("from S[i < d] insert into O")
    assert isinstance(query.input, model.SourceInput)
    condition = query.input.before[0]
    assert condition == model.FilterStep(
        model.Comparison("<", model.AttributeValue(0, "i", INT), model.AttributeValue(0, "d", DOUBLE), DOUBLE)
    )


def test_handlers_stand_before_or_behind_the_window() -> None:
    query = query_of("from S[i > 1]#window.length(5)[b]#pol2Cart(d, d) select x, y insert into O")
    assert isinstance(query.input, model.SourceInput)
    assert len(query.input.before) == 1
    assert query.input.window is not None
    assert query.input.window.arguments == (model.ConstantValue(5, INT),)
    assert len(query.input.after) == 2
    assert query.input.output.attributes[-2:] == (("x", DOUBLE), ("y", DOUBLE))


def test_having_reads_the_output_and_in_joins_the_inputs_too() -> None:
    single = query_of("from S select i + 1 as i having i > 3 insert into O")
    assert isinstance(single.selection.having, model.Comparison)
    assert single.selection.having.left == model.OutputValue("i", INT)
    join = query_of("from S#window.length(1) join T on S.i == T.i select S.i as n having T.s == 'x' insert into O")
    assert isinstance(join.selection.having, model.Comparison)
    assert join.selection.having.left == model.AttributeValue(1, "s", STRING)


@pytest.mark.parametrize(
    ("join", "triggers"),
    [
        ("S#window.length(1) join T", (True, True)),
        ("S#window.length(1) unidirectional join T", (True, False)),
        ("S left outer join Tb", (True, False)),
        ("Tb join S", (False, True)),
        ("S join T unidirectional", (False, True)),
    ],
)
def test_a_join_knows_which_sides_look_up_the_other(join: str, triggers: tuple[bool, bool]) -> None:
    query = query_of(f"from {join} select 1 as x insert into O")
    assert isinstance(query.input, model.Join)
    assert query.input.triggers == triggers


def test_a_pattern_is_a_flat_chain_over_slots_in_text_order() -> None:
    query = query_of(
        "from every e1=S[i > 1]<2:4> -> (e2=T[i == e1[last].i] and not S for 1 sec) -> e4=T within 1 min "
        "select e1.i as all, e1[0].i as first, e2.i as second, e4.s as s insert into O"
    )
    machine = query.input
    assert isinstance(machine, model.StateMachine)
    assert machine.within_ms == 60_000
    every, pair, last = machine.steps
    assert isinstance(every, model.EveryScope)
    assert isinstance(pair, model.LogicalPair)
    assert isinstance(last, model.PatternElement)
    assert [element.slot for element in machine.slots] == [0, 1, 2, 3]
    assert (machine.slots[0].minimum, machine.slots[0].maximum, machine.slots[0].counted) == (2, 4, True)
    assert (machine.slots[2].absent, machine.slots[2].waiting_ms) == (True, 1000)
    assert [attribute.expression for attribute in query.selection.attributes] == [
        model.AttributeValue(0, "i", OBJECT, all_events=True),
        model.AttributeValue(0, "i", INT, EventIndex(0)),
        model.AttributeValue(1, "i", INT),
        model.AttributeValue(3, "s", STRING),
    ]
    condition = machine.slots[1].input.before[0]
    assert isinstance(condition, model.FilterStep)
    assert isinstance(condition.condition, model.Comparison)
    assert condition.condition.left == model.AttributeValue(1, "i", INT)
    assert condition.condition.right == model.AttributeValue(0, "i", INT, EventIndex(0, from_last=True))


def test_two_elements_written_alike_are_two_slots() -> None:
    element = ast.StreamElement(ast.SingleInput("S"))
    source = ast.StateInput(ast.NextElement((element, element)), sequence=False)
    query = ast.Query(source, ast.InsertInto("O"), ast.Selection((ast.OutputAttribute(ast.Constant(1, INT), "x"),)))
    app = analyse(ast.App(definitions=parse(DEFINITIONS).definitions, elements=(query,)))
    machine = app.elements[0].input  # type: ignore[union-attr]
    assert isinstance(machine, model.StateMachine)
    assert [slot.slot for slot in machine.slots] == [0, 1]


def test_a_whole_event_can_be_asked_for_its_time_or_its_absence() -> None:
    query = query_of("from e1=S or e2=T select e1 is null as none, eventTimestamp(e2) as at insert into O")
    none, at = (attribute.expression for attribute in query.selection.attributes)
    assert none == model.IsEmptySlot(0)
    assert isinstance(at, model.Call)
    assert at.arguments == (model.EventReference(1),)


def test_conditions_on_tables_tell_rows_from_outputs() -> None:
    query = query_of("from T select s as k, i as v update or insert into Tb set Tb.v = v + Tb.v on Tb.k == k")
    assert query.output.action == "update or insert"
    assert query.output.on == model.Comparison(
        "==", model.TableValue("Tb", "k", STRING), model.OutputValue("k", STRING), STRING
    )
    assert query.output.assignments == (
        model.Assignment(
            "v", model.Arithmetic("+", model.OutputValue("v", INT), model.TableValue("Tb", "v", INT), INT)
        ),
    )


def test_without_set_every_output_is_assigned_to_the_attribute_of_its_name() -> None:
    query = query_of("from T select i as v update Tb on Tb.v < v")
    assert query.output.assignments == (model.Assignment("v", model.OutputValue("v", INT)),)


def test_inner_streams_belong_to_their_partition() -> None:
    app = app_of(
        "partition with (s of S, i < 3 as 'low' or i >= 3 as 'high' of T) begin "
        "from S select s insert into #M; from #M insert into O; end;"
        "partition with (s of S) begin from S select i insert into #M; end"
    )
    first, second = app.elements
    assert isinstance(first, model.AnalysedPartition)
    assert isinstance(second, model.AnalysedPartition)
    assert first.inner_streams == (model.Schema("M", (("s", STRING),)),)
    assert second.inner_streams == (model.Schema("M", (("i", INT),)),)
    assert first.queries[0].output.kind is model.TargetKind.INNER_STREAM
    assert [label for _, label in first.keys[1].ranges] == ["low", "high"]
    assert [query.position for query in (*first.queries, *second.queries)] == [0, 1, 2]
    assert "O" in app.streams
    assert "M" not in app.streams


def test_a_snapshot_gives_all_events_and_other_queries_the_current_ones() -> None:
    assert query_of("from S select i output snapshot every 1 sec insert into O").output.events is EventType.ALL
    assert query_of("from S select i insert into O").output.events is EventType.CURRENT


def test_app_annotations_become_settings() -> None:
    app = analyse(
        parse("@app:name('n') @app:playback(idle.time='1 sec', increment='20 millisec') define stream S (a int)")
    )
    assert (app.name, app.playback, app.playback_idle_ms, app.playback_increment_ms) == ("n", True, 1000, 20)
    assert analyse(parse("@Plan:name('p') @Plan:playback define stream S (a int)")).playback


def test_a_fault_stream_has_the_error_behind_the_attributes() -> None:
    app = analyse(parse("@OnError(action='stream') define stream S (a int); from !S insert into O"))
    assert app.streams["O"].schema.attributes == (("a", INT), ("_error", OBJECT))


def test_an_aggregation_reads_as_its_buckets_start_and_what_it_selects() -> None:
    app = app_of("from S insert into Q")
    assert app.aggregations == {}
    text = "define aggregation A from S[i > 1] select s, avg(d) as mean group by s aggregate by l every sec...hour"
    aggregation = analyse(parse(f"{DEFINITIONS}{text}")).aggregations["A"]
    assert aggregation.schema.attributes == (("AGG_TIMESTAMP", LONG), ("s", STRING), ("mean", DOUBLE))
    assert aggregation.durations == ("sec", "min", "hour")
    assert aggregation.by == model.AttributeValue(0, "l", LONG)


def test_the_condition_of_an_expression_window_sees_its_ends() -> None:
    schema = model.Schema("S", (("v", INT),))
    condition = analyse_window_condition("last.v - first.v < 5 and v > 0", schema, 0, builtin_registry())
    assert isinstance(condition, model.Logical)
    assert isinstance(condition.left, model.Comparison)
    assert condition.left.left == model.Arithmetic(
        "-",
        model.AttributeValue(0, "v", INT, EventIndex(0, from_last=True)),
        model.AttributeValue(0, "v", INT, EventIndex(0)),
        INT,
    )
    query = query_of("from S#window.expression('count() < 3') insert into O")
    assert isinstance(query.input, model.SourceInput)
    assert query.input.window is not None
    assert isinstance(query.input.window.condition, model.Comparison)


def test_names_of_the_older_dialect_are_known_in_execution_plans_only() -> None:
    text = "define stream S (a int); from S select stddev(a) as x insert into O"
    query = analyse(parse(f"@Plan:name('P') {text}")).elements[0]
    assert isinstance(query, model.AnalysedQuery)
    aggregate = query.selection.attributes[0].expression
    assert isinstance(aggregate, model.Aggregate)
    assert aggregate.name == "stdDev"
    with pytest.raises(SiddhiAnalysisError, match="unknown-function"):
        analyse(parse(text))


@pytest.mark.parametrize("window", ["frequent(2, i, s)", "lossyFrequent(0.4, 0.1, i)", "sort(2, i, l)", "sort(2, b)"])
def test_windows_look_at_more_attributes_in_execution_plans(window: str) -> None:
    query = f"from S#window.{window} insert into O"
    assert analyse(parse(f"@Plan:name('P') {DEFINITIONS}{query}")).elements
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        analyse(parse(f"{DEFINITIONS}{query}"))


def test_count_takes_all_attributes_in_execution_plans() -> None:
    query = "from S select count(*) as n insert into O"
    assert analyse(parse(f"@Plan:name('P') {DEFINITIONS}{query}")).streams["O"].schema.attributes == (("n", LONG),)
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        analyse(parse(f"{DEFINITIONS}{query}"))


@pytest.mark.parametrize(
    "query",
    [
        "from S[e1.i > 2] select s insert into O",
        "from S select s, e3[last].i as i insert into O",
        "from S select s, sum(i) as n group by e1.s having e1.n > 2 order by e1.s insert into O",
        "from S#window.length(1) join T[e1.i > 2]#window.length(1) select T.s as s insert into O",
        "from S select s, i delete Tb on Tb.k == S.s",
    ],
)
def test_a_qualifier_is_not_looked_at_in_execution_plans_where_there_is_one_input(query: str) -> None:
    definitions = DEFINITIONS.replace("define table", "@IndexBy('k') define table")
    assert analyse(parse(f"@Plan:name('P') {definitions}{query}")).elements
    with pytest.raises(SiddhiAnalysisError, match="unknown-reference"):
        analyse(parse(f"{DEFINITIONS}{query}"))


@pytest.mark.parametrize(
    "query",
    [
        "from every e1=S -> e2=S[e3.i > 2] select e1.s insert into O",
        "from e1=S select e2.s insert into O",
        "from S#window.length(1) join T#window.length(1) select e1.s insert into O",
        "from S#window.length(1) join T#window.length(1) on e1.i == T.i select T.s as s insert into O",
        "from S[(e1.s == Tb.k) in Tb] select s insert into O",
        "from S select s, i delete Tb on Tb.k == e1.s",
    ],
)
def test_a_qualifier_must_be_known_in_execution_plans_too_where_there_are_several_inputs(query: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="unknown-reference"):
        analyse(parse(f"@Plan:name('P') {DEFINITIONS}{query}"))


def test_a_counted_element_without_an_index_is_its_first_event_in_execution_plans() -> None:
    text = f"{DEFINITIONS}from e1=S<2:3> -> e2=S select e1.s as first, e1.i + 1 as more, e2.s as s insert into O"
    schema = analyse(parse(f"@Plan:name('P') {text}")).streams["O"].schema
    assert schema.attributes == (("first", STRING), ("more", INT), ("s", STRING))
    query = analyse(parse(f"@Plan:name('P') {text}")).elements[0]
    assert isinstance(query, model.AnalysedQuery)
    assert query.selection.attributes[0].expression == model.AttributeValue(0, "s", STRING, EventIndex(0))


@pytest.mark.parametrize(
    ("sides", "slot"), [("S#window.length(2) as a join Tb", 0), ("Tb join S#window.length(2) as a", 1)]
)
def test_a_bare_name_means_the_event_when_an_execution_plan_joins_with_a_table(sides: str, slot: int) -> None:
    definitions = "define stream S (k string); define table Tb (k string, v int);"
    text = f"{definitions} from {sides} on k == Tb.k select a.k, v insert into O"
    query = analyse(parse(f"@Plan:name('P') {text}")).elements[0]
    assert isinstance(query, model.AnalysedQuery)
    assert isinstance(query.input, model.Join)
    assert isinstance(query.input.on, model.Comparison)
    assert query.input.on.left == model.AttributeValue(slot, "k", STRING)
    with pytest.raises(SiddhiAnalysisError, match="ambiguous-attribute"):
        analyse(parse(text))


def test_a_bare_name_in_two_streams_has_no_meaning_in_execution_plans_either() -> None:
    query = "from S#window.length(2) join T#window.length(2) on i == 2 select S.s insert into O"
    with pytest.raises(SiddhiAnalysisError, match="ambiguous-attribute"):
        analyse(parse(f"@Plan:name('P') {DEFINITIONS}{query}"))


def test_an_execution_plan_names_the_key_of_a_stored_table_in_its_source() -> None:
    source = "@From(eventtable='analytics.table', primary.keys='k, gone ,n')"
    table = analyse(parse(f"@Plan:name('P') {source} define table T (k string, v int, n int)")).tables["T"]
    assert (table.primary_key, table.replaces) == (("k", "n"), True)
    for others in (source.replace("analytics.table", "rdbms"), source.replace("primary.keys", "indices")):
        table = analyse(parse(f"@Plan:name('P') {others} define table T (k string, v int, n int)")).tables["T"]
        assert (table.primary_key, table.replaces) == ((), False)
    assert analyse(parse(f"{source} define table T (k string, v int, n int)")).tables["T"].primary_key == ()


@pytest.mark.parametrize(
    ("source", "key", "indexes"),
    [
        ("", ("k",), ()),
        ("@From(eventtable='hazelcast')", ("k",), ()),
        ("@From(eventtable='rdbms', table.name='t')", (), ("k",)),
        ("@From(eventtable='analytics.table', primary.keys='n')", ("n",), ("k",)),
    ],
)
def test_index_by_names_the_key_of_a_table_in_memory(
    source: str, key: tuple[str, ...], indexes: tuple[str, ...]
) -> None:
    text = f"@Plan:name('P') {source} @IndexBy('k') define table T (k string, n int)"
    table = analyse(parse(text)).tables["T"]
    assert (table.primary_key, table.indexes, table.replaces) == (key, indexes, bool(key))


def test_on_demand_queries_are_typed_against_a_running_app() -> None:
    app = app_of("from S insert into O")
    read = analyse_on_demand_query(parse_on_demand_query("from Tb on v > 3 select k, sum(v) as n group by k"), app)
    assert read.schema.attributes == (("k", STRING), ("n", LONG))
    write = analyse_on_demand_query(parse_on_demand_query("delete Tb on Tb.v == 3"), app)
    assert write.output is not None
    assert write.output.action == "delete"
    for text, code in (
        ("from S select *", "unknown-source"),
        ("from Tb select nope", "unknown-attribute"),
        ("select 1 as k insert into Tb", "schema-mismatch"),
        ("delete Tb", "condition-missing"),
        ("from Tb within 1, 2 per 'days' select k", "period-without-aggregation"),
    ):
        with pytest.raises(SiddhiAnalysisError, match=code):
            analyse_on_demand_query(parse_on_demand_query(text), app)


def test_a_partition_without_a_name_is_none_that_has_its_name() -> None:
    body = "begin from S select * insert into O; end;"
    app = analyse(
        parse(
            "define stream S (a int, b string);"
            f"@info(name='partition_2') partition with (a of S) {body} partition with (b of S) {body}"
        )
    )
    assert [element.name for element in app.elements] == ["partition_2", "unnamed partition_2"]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("5 sec", 5_000),
        ("5sec", 5_000),
        ("2 H", 7_200_000),
        ("minutes 3", 180_000),
        ("1 hour 30 min", 3_600_000),
        ("1 month", 30 * 86_400_000),
        ("0 year", 0),
    ],
)
def test_a_time_of_purge_is_its_first_number_of_what_its_first_words_name(text: str, milliseconds: int) -> None:
    purge = f"@purge(enable='true', interval='{text}', idle.period='{text}')"
    app = analyse(parse(f"define stream S (a int); {purge} partition with (a of S) begin from S insert into O; end;"))
    (partition,) = app.elements
    assert isinstance(partition, model.AnalysedPartition)
    assert (partition.purge_interval_ms, partition.purge_idle_ms) == (milliseconds, milliseconds)
