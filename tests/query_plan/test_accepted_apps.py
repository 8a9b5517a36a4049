"""Apps that Siddhi accepts: they compile, and each stage is an app that the engine can build."""

from __future__ import annotations

import pytest

from query_plan.databases.stores import store_of
from query_plan.examination import Compiled, Examination, examine
from query_plan.findings import Severity
from query_plan.model import stage_app
from query_plan.plan_names import named_after
from query_plan.xml import read_xml
from siddhi.analysis.analyser import analyse


def compiled(text: str) -> Compiled:
    """Return the plan of `text` after analysing each of its stages as an executor does."""
    found = examine(text)
    assert found.compiled is not None, [one.problem for one in found.findings]
    plan = read_xml(found.compiled.xml)
    for stage in plan.processors:
        analyse(stage_app(plan, stage))
    return found.compiled


def codes(found: Examination, severity: Severity) -> list[str]:
    return [problem.code for problem in found.problems(severity)]


IN = "define stream In (k string, v int); "


def test_the_names_of_queries_are_a_matter_of_their_partition() -> None:
    partitions = """partition with (k of In) begin
    @info(name='q') from In select k, sum(v) as s insert into Mid; end;
    partition with (k of Mid) begin
    @info(name='q') from Mid#window.length(2) select k, max(s) as m insert into Out; end;
    @info(name='q') from Out select m insert into Last;"""
    plan = compiled("@app:name('P') " + IN + partitions)
    (stage,) = plan.plan.processors
    assert len(stage.elements) == 3


def test_a_name_given_twice_in_one_partition_or_outside_is_refused() -> None:
    query = "@name('q') from In select k insert into Out; "
    assert codes(examine("@app:name('P') " + IN + query + query), Severity.ERROR) == ["duplicate-name"]
    inside = f"partition with (k of In) begin {query} {query} end;"
    assert codes(examine("@app:name('P') " + IN + inside), Severity.ERROR) == ["duplicate-name"]


def test_definitions_alone_are_kept_for_questions() -> None:
    plan = compiled("@app:name('P') @PrimaryKey('id') define table Settings (id string, value string);").plan
    (stage,) = plan.processors
    assert ([table.id for table in stage.tables], stage.enforce_parallel) == (["Settings"], True)


@pytest.mark.parametrize("dist", ["", "@dist(parallel='2') "])
def test_a_table_that_no_query_uses_is_kept_by_one_stage(dist: str) -> None:
    plan = compiled(
        "@app:name('P') define table T (id string); " + IN + f"{dist}from In[v > 1] select k insert into Out;"
    ).plan
    (keeper,) = (stage for stage in plan.processors if stage.tables)
    assert (keeper.parallel, len(plan.processors)) == (1, 2 if dist else 1)


def test_the_last_of_a_connectors_options_given_twice_counts() -> None:
    plan = compiled("@app:name('P') " + IN + "@sink(type='log', prefix='a', prefix='b') define stream Out (k string); "
                    "from In select k insert into Out;")  # fmt: skip
    sink = plan.app.streams["Out"].syntax
    assert sink is not None
    assert sink.annotations[0].value("prefix") == "b"


@pytest.mark.parametrize("store", ["@store(type='rdbms', jdbc.url='jdbc:sqlite:/tmp/t.db')"])
def test_the_key_of_a_table_in_a_database_may_be_written_in_any_case(store: str) -> None:
    table = f"{store} @PrimaryKey('Host') @Index('V') define table T (host string, v int); "
    query = "from In select k as host, v update or insert into T on T.host == host;"
    plan = compiled("@app:name('P') " + IN + table + query)
    assert (plan.app.tables["T"].primary_key, plan.app.tables["T"].indexes) == (("host",), ("v",))
    in_memory = examine("@app:name('P') " + IN + table.replace(store, "") + query)
    assert "unknown-attribute" in codes(in_memory, Severity.ERROR)


def test_in_execution_plans_the_first_letter_of_built_ins_may_have_any_case() -> None:
    query = "from In#window.Length(5) select k, Sum(v) as s, MinForever(v) as m insert into Out;"
    compiled("@Plan:name('P') " + IN + query)
    assert codes(examine("@app:name('P') " + IN + query), Severity.ERROR) == [
        "unknown-window",
        *["unknown-function"] * 2,
    ]


def test_in_execution_plans_a_partition_may_name_streams_that_there_are_not() -> None:
    partition = "partition with (k of In, k of Nowhere) begin from In select k, sum(v) as s insert into Out; end;"
    (stage,) = compiled("@Plan:name('P') " + IN + partition).plan.processors
    assert len(stage.elements) == 1
    assert codes(examine("@app:name('P') " + IN + partition), Severity.ERROR) == ["unknown-stream"]
    alone = partition.replace("k of In, ", "")
    assert codes(examine("@Plan:name('P') " + IN + alone), Severity.ERROR) == ["unknown-stream"]


def test_a_partition_may_have_keys_of_streams_that_it_does_not_read() -> None:
    partition = "@dist(parallel='2') partition with (k of In, k of Other) begin from In select k insert into Out; end; "
    other = "@dist(parallel='2') from Other select k insert into Out;"
    compiled("@app:name('P') define stream Other (k string); " + IN + partition + other)


def test_streams_that_are_exported_in_vain_are_warned_about() -> None:
    streams = """@Import('A:1.0.0', arbitrary.data='true') define stream A (k string);
    @Import('C:1.0.0') define stream C (k string); @Export('D:1.0.0') define stream D (k string);
    @Export('B:1.0.0', arbitrary.data='true') define stream B (k string);"""
    found = examine(f"@Plan:name('P') {streams} from A select k insert into B;")
    assert codes(found, Severity.ERROR) == []
    assert sorted(codes(found, Severity.WARNING)) == [
        "arbitrary-data-unsupported",
        "arbitrary-data-unsupported",
        "exported-stream-not-produced",
        "imported-stream-unread",
    ]


@pytest.mark.parametrize("name", ["Batching&Processing", "plan name", "a (b), c+d@e=f!"])
def test_names_of_plans_and_queries_may_have_blanks_and_signs(name: str) -> None:
    query = "@name('query 1') @dist(parallel='4') from In[v > 1] select k insert into Out;"
    plan = compiled(f"@app:name('{name}') {IN} {query}").plan
    assert (plan.name, [stage.name for stage in plan.processors]) == (name, ["query 1"])


def test_a_plan_without_a_name_has_one_of_its_text_or_its_file() -> None:
    text = f"{IN}from In select k insert into Out;"
    found = examine(text)
    assert "plan-name-missing" in codes(found, Severity.WARNING)
    name = compiled(text).plan.name
    assert compiled(text.replace(" ", "\n")).plan.name == name
    assert compiled(text.replace("Out", "Out2")).plan.name != name
    assert compiled(named_after(text, "my rooms")).plan.name == "my_rooms"
    assert compiled(named_after(f"@app:name('P') {text}", "rooms")).plan.name == "P"
    assert compiled(named_after(f"@Plan:trace('true') {text}", "rooms")).plan.dialect_3x


@pytest.mark.parametrize("written", ["ref='stocks'", "type='rdbms', ref='stocks'"])
def test_the_store_of_a_table_may_be_what_the_operator_calls_so(written: str) -> None:
    plan = compiled(f"@app:name('P') @store({written}) define table T (k string);")
    store = store_of(plan.app.tables["T"])
    assert store is not None
    assert (store.datasource, store.url, store.table_name) == ("stocks", "", "T")
    assert codes(examine(f"@app:name('P') @store({written}) define table T (k string);"), Severity.WARNING) == [
        "plan-without-queries"
    ]
