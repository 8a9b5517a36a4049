"""Each rule of distribution with its exact position: findings point at the text between « and »."""

from __future__ import annotations

from pathlib import Path

import pytest

from query_plan.builder import build
from query_plan.errors import QueryPlanError
from query_plan.examination import examine
from query_plan.findings import Severity
from query_plan.planning.survey import survey
from query_plan.validation import CHECKS, SyntaxCheck
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

STREAMS = """@Import('A:1.0.0') define stream A (k string, v int);
@Import('C:1.0.0') define stream C (k string, v int);
@Export('B:1.0.0') define stream B (k string, v int);"""
BOTH = "from A select * insert into B; from C select * insert into B;"


def cases() -> list[tuple[str, str, str]]:
    """Return (code, severity, plan with the marked position) of each case in the file."""
    found = []
    for case in (Path(__file__).parent / "refused_plans.txt").read_text(encoding="utf-8").split("---- ")[1:]:
        head, text = case.split("\n", 1)
        code, severity = head.split()
        marked = text.replace("PLAN", "@Plan:name('P')\nSTREAMS").replace("STREAMS", STREAMS).replace("BOTH", BOTH)
        found.append((code, severity, marked))
    return found


CASES = cases()


def unmarked(marked: str) -> tuple[str, tuple[int, int] | None]:
    """Return the plan without the marks, and the marked range."""
    start, end = marked.find("«"), marked.find("»")
    return marked.replace("«", "").replace("»", ""), None if start < 0 else (start, end - 1)


@pytest.mark.parametrize(("code", "severity", "marked"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_each_rule_is_found_alone_and_at_its_place(code: str, severity: str, marked: str) -> None:
    text, place = unmarked(marked)
    findings = examine(text).findings
    assert [(one.problem.code, one.severity) for one in findings] == [(code, Severity(severity))]
    problem = findings[0].problem
    assert problem.hint
    assert (None if problem.span is None else (problem.span.start, problem.span.end)) == place


def test_every_check_breaks_each_of_its_rules_and_no_other_in_some_case() -> None:
    silent = {(check.run.__name__, rule.code) for check in CHECKS for rule in check.rules}
    rules = {rule.code: rule for check in CHECKS for rule in check.rules}
    for _, _, marked in CASES:
        app = parse(unmarked(marked)[0])
        plan = survey(analyse(app))
        for check in CHECKS:
            for found in check.run(app) if isinstance(check, SyntaxCheck) else check.run(plan):
                code = found.problem.code
                assert found.severity is rules[code].severity
                assert code in {rule.code for rule in check.rules}
                silent.discard((check.run.__name__, code))
    assert silent == set()


def test_errors_of_language_and_distribution_come_together_in_text_order() -> None:
    text = f"@Plan:name('my/plan') {STREAMS} @dist(parallel='x') from A select nothing as k, v insert into B;"
    codes = [finding.problem.code for finding in examine(text).findings]
    assert codes[0] == "plan-name-invalid"
    assert codes[1] == "parallel-not-positive"
    assert len(codes) == 3


def test_a_text_that_is_no_siddhiql_has_one_error() -> None:
    (finding,) = examine("@Plan:name('P') define stream A (k int); from A select").findings
    assert finding.severity is Severity.ERROR


def test_building_refuses_with_all_errors_at_once() -> None:
    text = f"@Plan:name('my/plan') {STREAMS} @dist(parallel='x') from A select * insert into B;"
    with pytest.raises(QueryPlanError) as refused:
        build(analyse(parse(text)))
    assert [problem.code for problem in refused.value.problems] == ["plan-name-invalid", "parallel-not-positive"]


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("file.url='/a'", "did you mean 'file.uri'?"),
        ("x='1'", "known options: file.uri, append, add.line.separator, on.error"),
        ("@payload('{{v}}')", "write it within @map(…)"),
    ],
)
def test_an_option_that_no_worker_knows_is_told_what_may_be_meant(option: str, hint: str) -> None:
    text = f"@app:name('P') define stream A (v int); @sink(type='file', {option}) define stream B (v int);"
    findings = [one.problem for one in examine(f"{text} from A select v insert into B;").findings]
    assert [one.hint for one in findings if one.code == "connector-option-unknown"] == [hint]


@pytest.mark.parametrize(
    ("mapper", "hint"),
    [("XML", "did you mean 'xml'?"), ("binary", "known types: csv, json, text, xml, avro, jsonschema, protobuf")],
)
def test_a_mapper_that_no_worker_has_is_told_what_may_be_meant(mapper: str, hint: str) -> None:
    source = f"@source(type='http', @map(type='{mapper}'))"
    text = f"@app:name('P') {source} define stream A (v int); from A select v insert into B;"
    findings = [one.problem for one in examine(text).findings if one.problem.code == "mapper-type-unknown"]
    assert [one.hint for one in findings] == [hint]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("inmemory", "did you mean 'inMemory'?"),
        ("Http", "did you mean 'http'?"),
        ("nats", "known types: file, http, inMemory, kafka, zeromq"),
    ],
)
def test_a_type_that_no_worker_has_is_told_what_may_be_meant(written: str, hint: str) -> None:
    text = f"@app:name('P') @source(type='{written}') define stream A (v int); from A select v insert into B;"
    findings = [one.problem for one in examine(text).findings if one.problem.code == "connector-type-unknown"]
    assert [one.hint for one in findings] == [hint]


def test_attributes_may_be_called_as_the_columns_of_batches() -> None:
    text = """@Plan:name('X') @Import('S:1.0.0') define stream S (_timestamp long, a int);
    @Export('O:1.0.0') define stream O (_timestamp long, a int, _kind string);
    from S[a > 1] select _timestamp, a insert into M; from M select _timestamp, a, 'x' as _kind insert into O;"""
    assert examine(text).findings == ()
    plan = build(analyse(parse(text)))
    assert [one.name for one in plan.publisher.streams[0].attributes] == ["_timestamp", "a", "_kind"]


def test_a_plan_with_warnings_only_is_built() -> None:
    plan = build(analyse(parse("@Plan:name('P') define stream A (k int); from A select * insert into B;")))
    assert [stream.id for stream in plan.receiver.streams] == ["A"]
    assert [stream.id for stream in plan.publisher.streams] == ["B"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("define stream A (k int); from A select * insert into B;", "@app:name('MyPlan')"),
        ("@app:name('my#app') define stream A (k int); from A select * insert into B;", "@app:name('my_app')"),
        ("@Plan:name('my/plan') define stream A (k int); from A select * insert into B;", "@Plan:name('my_plan')"),
        ("@Plan:playback define stream A (k int); from A select * insert into B;", "@Plan:name('MyPlan')"),
        ("@App:name('In|Out') define stream A (k int); from A select * insert into B;", "as in @app:name('In_Out')"),
        ("@app:name('***') define stream A (k int); from A select * insert into B;", "at most 128 characters"),
    ],
)
def test_the_name_that_is_asked_for_leaves_a_plan_in_its_dialect(text: str, hint: str) -> None:
    (problem,) = (found.problem for found in examine(text).findings if found.problem.code.startswith("plan-name"))
    assert hint in (problem.hint or "")
