"""From text to what the manager and the workers are told."""

from dataclasses import replace

import pytest
from manager_world import FLIGHTS

from cep_common.protocol.registry import Connector
from cep_manager.authoring.compiler import compile_plan, validate_plan
from cep_manager.config import ManagerConfig
from cep_manager.errors import PlanInvalidError
from cep_manager.plans.compiled_plan import CompiledPlan, PlannedComponent, PlannedQuery, ScaledStage
from query_plan.xml import read_xml
from siddhi.scripts.language import ScriptPolicy

NO_SCRIPTS = ManagerConfig().scripts

SCRIPTED = """\
@Plan:name('Scripted') @Import('in:1.0.0') define stream S (a int);
@Export('out:1.0.0') define stream T (b int);
define function twice[python] return int { return 2 * data[0] };
from S select twice(a) as b insert into T;
"""

CONNECTED = """\
@Plan:name('Connected')
@source(type='http', receiver.url='http://0.0.0.0:8006/trades',
        @map(type='json', @attributes(symbol='$.s', price='$.p')))
@source(type='zeromq')
define stream Trades (symbol string, price double);

@Export('alerts:2.0.0')
@sink(type='file', file.uri='/tmp/alerts', @map(type='text', @payload('{{symbol}} at {{price}}')))
define stream Alerts (symbol string, price double);

from Trades[price > 10.0] select symbol, price insert into Alerts;
"""


def test_the_sample_plan_has_its_stages_in_order_of_flow() -> None:
    compiled = compile_plan(FLIGHTS.read_text(encoding="utf-8"), NO_SCRIPTS)
    assert [(one.name, one.kind, one.parallel) for one in compiled.components] == [
        ("EventReceiver", "receiver", 1),
        ("carriers", "processor", 1),
        ("aircraft", "processor", 1),
        ("lateness", "processor", 2),
        ("storms", "processor", 1),
        ("EventPublisher", "publisher", 1),
    ]
    assert compiled.components[2] == PlannedComponent(
        name="aircraft",
        kind="processor",
        parallel=1,
        inputs=("Arrivals", "Departures"),
        outputs=("KnockOns",),
        groupings=("global", "global"),
        queries=(PlannedQuery("knockOns", 30, 36),),
    )
    assert compiled.components[3].grouping("Departures") == "shuffle"
    assert [one.event_stream for one in compiled.imported] == ["Arrivals:1.0.0", "Departures:1.0.0"]
    assert compiled.exported[2].attributes == (("origin", "string"), ("late_departures", "long"))
    assert compiled.playback
    assert compiled.publisher_instances() == 1


def test_what_is_guaranteed_is_kept_and_no_reason_to_begin_without_state() -> None:
    plain = compile_plan(CONNECTED, NO_SCRIPTS)
    exact = compile_plan(f"@Plan:delivery('exactly-once')\n{CONNECTED}", NO_SCRIPTS)
    assert (plain.delivery, exact.delivery) == ("at-least-once", "exactly-once")
    assert exact.state_shape == plain.state_shape


SCRIPT = "define function twice[python] return double { return 2 * data[0] };"
SMALL = "define stream S (v double); from S select v insert into T;"


@pytest.mark.parametrize(
    ("text", "workers", "host"),
    [
        (SMALL, 1, "shared"),
        (SMALL, 2, "own"),
        (f"@Plan:host('own') {SMALL}", 1, "own"),
        (f"@Plan:resources(cores='2') {SMALL}", 1, "own"),
        (SMALL.replace("from S", "@dist(parallel='2', execGroup='g') from S"), 1, "own"),
        (f"{SCRIPT} {SMALL}", 1, "own"),
        (f"@Plan:host('shared') {SCRIPT} {SMALL}", 1, "shared"),
    ],
)
def test_a_plan_shares_a_stage_host_unless_it_asks_for_more_or_has_scripts(text: str, workers: int, host: str) -> None:
    compiled = compile_plan(f"@Plan:name('P') {text}", ScriptPolicy())
    assert compiled.host_for(workers, ManagerConfig().topology.host) == host


SCALED = """\
@Plan:name('Scaled') @Import('in:1.0.0') define stream S (key string, a int);
@Export('out:1.0.0') define stream T (key string, a long);
@dist(execGroup='perKey', parallel='AUTO', min='2', max='5')
partition with (key of S) begin from S#window.length(9) select key, sum(a) as a insert into M; end;
@dist(execGroup='after', parallel='auto', max='3') from M[a > 1] select * insert into T;
"""


def test_a_stage_that_follows_the_load_has_its_smallest_number_until_it_is_given_another() -> None:
    compiled = compile_plan(SCALED, NO_SCRIPTS)
    assert compiled.scaled == (ScaledStage("perKey", 2, 5), ScaledStage("after", 1, 3))
    assert numbers(compiled) == {"perKey": 2, "after": 1}
    assert (compiled.workers_for(None, 1), compiled.workers_for(None, 3), compiled.workers_for(4, 1)) == (2, 3, 4)
    assert compiled.host_for(1, "shared", "shared") == "own"

    grown = compiled.with_instances({"perKey": 4, "after": 9, "unknown": 7})
    assert numbers(grown) == {"perKey": 4, "after": 3}
    assert grown.workers_for(None, 1) == 4
    assert read_xml(grown.query_plan) == replace(
        read_xml(compiled.query_plan),
        processors=tuple(
            replace(one, parallel=numbers(grown)[one.name]) for one in read_xml(compiled.query_plan).processors
        ),
    )
    assert (grown.with_instances({"perKey": 1}), grown.state_shape) == (compiled, compiled.state_shape)


def test_a_plan_that_gives_numbers_has_them_whatever_is_wanted() -> None:
    compiled = compile_plan(SCALED.replace("parallel='AUTO', min='2', max='5'", "parallel='2'"), NO_SCRIPTS)
    assert numbers(compiled.with_instances({"perKey": 4})) == {"perKey": 2, "after": 1}


def numbers(compiled: CompiledPlan) -> dict[str, int]:
    return {one.name: one.parallel for one in compiled.components if one.kind == "processor"}


def test_sources_and_sinks_reach_the_workers_with_their_options() -> None:
    compiled = compile_plan(CONNECTED, NO_SCRIPTS)
    assert compiled.sources == (
        Connector(
            stream="Trades",
            type="http",
            options={"receiver.url": "http://0.0.0.0:8006/trades"},
            mapper="json",
            mapper_options={"attributes.symbol": "$.s", "attributes.price": "$.p"},
        ),
        Connector(stream="Trades", type="zeromq", options={}, mapper="", mapper_options={}),
    )
    assert compiled.sinks == (
        Connector(
            stream="Alerts",
            type="file",
            options={"file.uri": "/tmp/alerts"},  # noqa: S108 - never opened
            mapper="text",
            mapper_options={"payload": "{{symbol}} at {{price}}"},
        ),
    )
    assert [(one.stream, one.event_stream) for one in compiled.exported] == [("Alerts", "alerts:2.0.0")]


def test_annotations_within_a_source_are_known_in_any_case_and_dist_is_no_option() -> None:
    compiled = compile_plan(
        CONNECTED.replace("@attributes(symbol='$.s', price='$.p')", "@Attributes(symbol='$.s', price='$.p')").replace(
            "receiver.url=", "@dist(parallel='2'), receiver.url="
        ),
        NO_SCRIPTS,
    )
    assert compiled.sources[0].options == {"receiver.url": "http://0.0.0.0:8006/trades"}
    assert compiled.sources[0].mapper_options == {"attributes.symbol": "$.s", "attributes.price": "$.p"}


def test_values_of_a_mapper_without_names_are_numbered_when_there_are_several() -> None:
    compiled = compile_plan(
        CONNECTED.replace("@attributes(symbol='$.s', price='$.p')", "@attributes('$.s', '$.p')"), NO_SCRIPTS
    )
    assert compiled.sources[0].mapper_options == {"attributes.0": "$.s", "attributes.1": "$.p"}


def distributed(strategy: str) -> list[dict[str, str]]:
    """The options of the sinks that workers run for one with two destinations."""
    compiled = compile_plan(
        "@app:name('P') define stream A (k int); @sink(type='file', file.uri='x', @map(type='csv'), "
        f"@Distribution(strategy='{strategy}', PartitionKey='k', "
        "@destination(file.uri='x'), @Destination(file.uri='y'))) "
        "define stream B (k int); from A select k insert into B;",
        NO_SCRIPTS,
    )
    assert {one.mapper for one in compiled.sinks} == {"csv"}
    return [one.options for one in compiled.sinks]


def test_a_sink_is_one_for_each_destination_unless_these_take_turns() -> None:
    assert distributed("broadcast") == [{"file.uri": "x"}, {"file.uri": "y"}]
    key = {"distribution.partitionKey": "k"}
    assert distributed("PARTITIONED") == [
        {"file.uri": "x", **key, "distribution/share": "0/2"},
        {"file.uri": "y", **key, "distribution/share": "1/2"},
    ]
    turns = {"distribution.strategy": "roundRobin", "distribution/destinations": "2", **key}
    each = {"distribution.destination.0.file.uri": "x", "distribution.destination.1.file.uri": "y"}
    assert distributed("roundRobin") == [{"file.uri": "x", **each, **turns}]


def test_a_trigger_is_a_stage_of_its_own() -> None:
    compiled = compile_plan(
        "@Plan:name('Ticks') define trigger Tick at every 5 sec; "
        "@Export('Ticks:1.0.0') define stream Out (triggered_time long); "
        "from Tick select triggered_time insert into Out;",
        NO_SCRIPTS,
    )
    assert [(one.name, one.kind, one.outputs) for one in compiled.components if one.kind == "trigger"] == [
        ("Tick", "trigger", ("Tick",))
    ]


def test_a_plan_may_say_how_many_workers_it_wants() -> None:
    assert compile_plan(CONNECTED, NO_SCRIPTS).workers is None
    assert compile_plan("@Plan:dist(workers='3') " + CONNECTED, NO_SCRIPTS).workers == 3


def test_all_problems_come_at_once_with_place_and_caret() -> None:
    text = CONNECTED.replace("select symbol, price", "select simbol, price").replace("'Connected'", "'a|b'")
    with pytest.raises(PlanInvalidError) as caught:
        compile_plan(text, NO_SCRIPTS)
    places = {problem.code: (problem.line, problem.column) for problem in caught.value.problems}
    assert places == {"plan-name-invalid": (1, 1), "unknown-attribute": (11, 34)}
    assert all("^" in problem.rendered for problem in caught.value.problems)
    assert caught.value.message.endswith("(and 1 more)")


def test_text_that_is_no_plan_at_all_has_a_problem_too() -> None:
    for text in ("", "hello"):
        with pytest.raises(PlanInvalidError):
            compile_plan(text, NO_SCRIPTS)


def test_scripts_are_refused_with_their_place_until_the_configuration_allows_them() -> None:
    with pytest.raises(PlanInvalidError) as caught:
        compile_plan(SCRIPTED, NO_SCRIPTS)
    (problem,) = caught.value.problems
    assert (problem.code, problem.line) == ("script-language-off", 3)
    assert "script.python: true in the manager's configuration" in problem.hint
    assert validate_plan(SCRIPTED, NO_SCRIPTS).problems == (problem,)
    allowed = ManagerConfig(script={"python": True}).scripts
    assert "twice" in compile_plan(SCRIPTED, allowed).query_plan


def test_validation_of_a_good_plan_names_it() -> None:
    found = validate_plan(CONNECTED, NO_SCRIPTS)
    assert (found.valid, found.plan, found.problems) == (True, "Connected", ())


def test_plans_that_differ_around_their_stages_alone_have_state_of_one_shape() -> None:
    text = FLIGHTS.read_text(encoding="utf-8")
    shape = compile_plan(text, NO_SCRIPTS).state_shape
    around = text.replace(
        "@Plan:description('", "@Plan:dist(workers='3', receiverParallelism='2')\n@Plan:description('More "
    )
    assert around != text
    assert compile_plan(f"-- a remark\n{around}", NO_SCRIPTS).state_shape == shape
    assert compile_plan(text.replace("1 hour", "2 hours"), NO_SCRIPTS).state_shape != shape
