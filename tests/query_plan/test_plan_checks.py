"""Each rule of distribution, with its exact place: what stands between « and » is what the finding points at."""

from __future__ import annotations

import pytest

from query_plan.builder import build
from query_plan.errors import QueryPlanError
from query_plan.findings import Severity
from query_plan.survey import survey
from query_plan.validation import PLAN_CHECKS, SYNTAX_CHECKS, validate
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

STREAMS = """
@Import('A:1.0.0') define stream A (k string, v int);
@Import('C:1.0.0') define stream C (k string, v int);
@Export('B:1.0.0') define stream B (k string, v int);
"""
NAMED = "@Plan:name('P')" + STREAMS
PASS = "\nfrom A select * insert into B; from C select * insert into B;"

# (code, severity, plan with the place marked)
CASES = [
    ("plan-name-missing", "error", "«@»Import('A:1.0.0') define stream A (k int); @Export('B:1.0.0') define stream B (k int);"
     "from A select * insert into B;"),
    ("plan-name-empty", "error", "«@Plan:name(' ')»" + STREAMS + PASS),
    ("plan-name-whitespace", "error", "«@Plan:name('my plan')»" + STREAMS + PASS),
    ("plan-name-invalid", "error", "«@app:name('a/b')»" + STREAMS + PASS),
    ("plan-name-repeated", "error", "@Plan:name('P') «@app:name('Q')»" + STREAMS + PASS),
    ("parallel-not-positive", "error", NAMED + PASS + "@name('q') @dist(«parallel='0'») from A select * insert into B;"),
    ("parallel-not-positive", "error", NAMED + PASS + "@name('q') @dist(«parallel='abc'») from A select * insert into B;"),
    ("parallel-not-positive", "error", NAMED + PASS + "@name('q') @dist(«parallel='-1'») from A select * insert into B;"),
    ("parallel-not-positive", "error", "@Plan:name('P') @Plan:dist(«receiverParallelism='-3'»)" + STREAMS + PASS),
    ("parallel-not-positive", "error", "@Plan:name('P') @Plan:dist(«workers='1.5'»)" + STREAMS + PASS),
    ("dist-repeated", "error", NAMED + PASS
     + "@name('q') @dist(parallel='1') @dist(«parallel='2'») from A select * insert into B;"),
    ("dist-without-key", "error", NAMED + PASS + "@name('q') @dist(«'2'») from A select * insert into B;"),
    ("dist-unknown-key", "warning", NAMED + PASS + "@name('q') @dist(«paralel='2'») from A select * insert into B;"),
    ("dist-inside-partition", "error", NAMED + PASS
     + "partition with (k of A) begin «@dist(parallel='2')» from A select * insert into B; end;"),
    ("dist-without-effect", "warning", "@Plan:name('P')" + STREAMS + "«@dist(parallel='2')» define table T (k int);" + PASS),
    ("name-whitespace", "error", NAMED + PASS + "@dist(«execGroup='my group'») from A select * insert into B;"),
    ("name-whitespace", "error", NAMED + PASS + "@name(«'my query'») from A select * insert into B;"),
    ("name-empty", "error", NAMED + PASS + "@dist(«execGroup=''») from A select * insert into B;"),
    ("import-empty", "error", NAMED.replace("@Import('A:1.0.0')", "«@Import('')»") + PASS),
    ("import-malformed", "error", NAMED.replace("'A:1.0.0'", "«'A'»") + PASS),
    ("import-malformed", "error", NAMED.replace("'A:1.0.0'", "«'A:1..0'»") + PASS),
    ("export-malformed", "error", NAMED.replace("'B:1.0.0'", "«'B b:1.0.0'»") + PASS),
    ("arbitrary-data-unsupported", "error",
     NAMED.replace("'A:1.0.0'", "'A:1.0.0', «arbitrary.data='true'»") + PASS),
    ("imported-and-exported", "error", NAMED.replace("@Import('C:1.0.0')", "@Import('C:1.0.0') «@Export('D:1.0.0')»") + PASS),
    ("imported-and-exported", "error", NAMED.replace("'B:1.0.0'", "«'A:1.0.0'»") + PASS),
    ("plan-without-queries", "error", "@Plan:name('P') define stream A (k int);"),
    ("stream-without-producer", "error",
     "@Plan:name('P') @Export('B:1.0.0') define stream B (k int); define stream A (k int); from «A» select * insert into B;"),
    ("exported-stream-not-produced", "error", NAMED + "«@Export('D:1.0.0')» define stream D (k int);" + PASS),
    ("reserved-attribute", "error", NAMED.replace("A (k string", "A («_kind string»")
     + "from A select _kind as k, v insert into B; from C select * insert into B;"),
    ("reserved-name", "error", NAMED + PASS + "@dist(«execGroup='EventReceiver'») from A select * insert into B;"),
    ("reserved-name", "error", NAMED + "«define trigger EventPublisher at every 1 sec»;" + PASS
     + "from EventPublisher select 'x' as k, 1 as v insert into B;"),
    ("duplicate-name", "error", NAMED
     + "@name('q') from A select * insert into B; @name(«'q'») from C select * insert into B;"),
    ("duplicate-name", "error", NAMED
     + "@dist(execGroup='q') from A select * insert into B; @name(«'q'») from C select * insert into B;"),
    ("duplicate-name", "error", NAMED + "«define trigger g at every 1 sec»;"
     + "@dist(execGroup='g') from A select * insert into B; from C select * insert into B;"
     + "from g select 'x' as k, 1 as v insert into B;"),
    ("parallel-differs-in-group", "error", NAMED
     + "@dist(execGroup='g', parallel='2') from A select * insert into B;"
     + "@dist(execGroup='g', «parallel='3'») from C select * insert into B;"),
    ("parallel-differs-in-group", "error", NAMED
     + "@dist(execGroup='g', parallel='2') from A select * insert into B;"
     + "«@dist(execGroup='g') from C select * insert into B»;"),
    ("stateful-parallel", "error", NAMED + PASS + "@dist(«parallel='2'») from A#window.length(5) select * insert into B;"),
    ("stateful-parallel", "error", NAMED + PASS
     + "@dist(«parallel='2'») from A#window.length(5) join C#window.length(5) on A.k == C.k "
     + "select A.k as k, C.v as v insert into B;"),
    ("stateful-parallel", "error", NAMED + PASS
     + "@dist(«parallel='2'») from every e1=A -> e2=C select e1.k as k, e2.v as v insert into B;"),
    ("stateful-parallel", "error", NAMED + PASS
     + "@dist(«parallel='2'») from every e1=A, e2=A select e1.k as k, e2.v as v insert into B;"),
    ("stateful-parallel", "error", NAMED + PASS
     + "@dist(«parallel='2'») from A select k, max(v) as v insert into B;"),
    ("stateful-parallel", "error", NAMED + PASS
     + "@dist(«parallel='2'») from A select k, v group by k insert into B;"),
    ("stateful-parallel", "error", NAMED + PASS
     + "@dist(«parallel='2'») from A select * output last every 5 events insert into B;"),
    ("shared-state-parallel", "error", NAMED + "define table T (k string, v int);" + PASS
     + "@dist(«parallel='2'») from A[(k == T.k) in T] select * insert into B;"),
    ("partition-key-not-attribute", "error", NAMED + PASS
     + "@dist(parallel='2') partition with («v % 10 of A») begin from A select * insert into B; end;"),
    ("partition-key-not-attribute", "error", NAMED + PASS
     + "@dist(parallel='2') partition with («v > 10 as 'high' or v <= 10 as 'low' of A»)"
     + " begin from A select * insert into B; end;"),
    ("partition-reads-own-group", "error", NAMED + PASS
     + "@dist(execGroup='g', parallel='2') from A select * insert into M;"
     + "@dist(execGroup='g', parallel='2') partition with (k of M) begin from «M» select * insert into B; end;"),
    ("groupings-conflict", "error", NAMED + PASS
     + "@dist(execGroup='g', parallel='2') partition with (k of A) begin from A select * insert into B; end;"
     + "@dist(execGroup='g', parallel='2') partition with (v of A) begin from «A» select * insert into B; end;"),
    ("groupings-conflict", "error", NAMED
     + "@dist(execGroup='g', parallel='2') partition with (k of A) begin"
     + " from every e1=A -> e2=C select e1.k as k, e2.v as v insert into B; end;"
     + "@dist(execGroup='g', parallel='2') from «C» select * insert into B;"),
    ("state-shared-between-groups", "error", NAMED + "define table T (k string, v int);" + PASS
     + "@dist(execGroup='g') from A select * insert into T;"
     + "@dist(«execGroup='h'») from C join T on C.k == T.k select C.k as k, T.v as v insert into B;"),
    ("state-shared-between-groups", "error", NAMED + "define window W (k string, v int) length(5);" + PASS
     + "@dist(execGroup='g') from A select * insert into W;"
     + "@dist(«execGroup='h'») from W select * insert into B;"),
    ("loop-across-groups", "error", NAMED + PASS
     + "@dist(execGroup='g') from A select * insert into M; @dist(execGroup='g') from N select * insert into B;"
     + "@dist(«execGroup='h'») from M select * insert into N;"),
    ("stream-received-and-produced", "error", NAMED + PASS
     + "@dist(execGroup='g') from A select * insert into M;"
     + "@dist(execGroup='h') from M#window.length(2) select k, v insert into N;"
     + "«@dist(execGroup='h') from C select * insert into M»;"
     + "@dist(execGroup='i') from M select * insert into B; @dist(execGroup='i') from N select * insert into B;"),
    ("imported-stream-unread", "warning", NAMED + "«@Import('D:1.0.0')» define stream D (k int);" + PASS),
    ("result-unused", "warning", NAMED + PASS + "«@name('q') from A select k insert into Lost»;"),
    ("result-returned", "warning", NAMED + PASS + "«@name('q') from A select k return»;"),
    ("bindings-by-default", "warning", "@Plan:name('P') define stream A (k int); from A select * insert into B;"),
]  # fmt: skip


def unmarked(marked: str) -> tuple[str, tuple[int, int] | None]:
    start, end = marked.find("«"), marked.find("»")
    place = None if start < 0 else (start, end - 1)
    return marked.replace("«", "").replace("»", ""), place


@pytest.mark.parametrize(("code", "severity", "marked"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_each_rule_is_found_alone_and_at_its_place(code: str, severity: str, marked: str) -> None:
    text, place = unmarked(marked)
    findings = validate(text)
    assert [(one.problem.code, one.severity) for one in findings] == [(code, Severity(severity))]
    problem = findings[0].problem
    assert problem.hint
    found = None if problem.span is None else text[problem.span.start : problem.span.end]
    assert found == (None if place is None else text[slice(*place)])
    assert place is None or problem.span is not None
    if place is not None and problem.span is not None:
        assert (problem.span.start, problem.span.end) == place


def test_every_check_has_a_case_that_it_alone_reports() -> None:
    silent = {check.__name__ for check in (*SYNTAX_CHECKS, *PLAN_CHECKS)}
    for _, _, marked in CASES:
        text, _ = unmarked(marked)
        app = parse(text)
        found = {check.__name__ for check in SYNTAX_CHECKS if any(True for _ in check(app))}
        silent -= found or _plan_checks_that_speak(text)
    assert silent == set()


def _plan_checks_that_speak(text: str) -> set[str]:
    plan = survey(analyse(parse(text)))
    return {check.__name__ for check in PLAN_CHECKS if any(True for _ in check(plan))}


def test_errors_of_language_and_distribution_come_together_in_text_order() -> None:
    text = "@Plan:name('my plan')" + STREAMS + "@dist(parallel='x') from A select nothing as k, v insert into B;"
    codes = [finding.problem.code for finding in validate(text)]
    assert codes[0] == "plan-name-whitespace"
    assert codes[1] == "parallel-not-positive"
    assert len(codes) == 3


def test_a_text_that_is_no_siddhiql_has_one_error() -> None:
    (finding,) = validate("@Plan:name('P') define stream A (k int); from A select")
    assert finding.severity is Severity.ERROR


def test_building_refuses_with_all_errors_at_once() -> None:
    text = "@Plan:name('my plan')" + STREAMS + "@dist(parallel='x') from A select * insert into B;"
    with pytest.raises(QueryPlanError) as refused:
        build(analyse(parse(text)))
    assert [problem.code for problem in refused.value.problems] == ["plan-name-whitespace", "parallel-not-positive"]


def test_a_plan_with_warnings_only_is_built() -> None:
    plan = build(analyse(parse("@Plan:name('P') define stream A (k int); from A select * insert into B;")))
    assert [stream.id for stream in plan.receiver.streams] == ["A"]
    assert [stream.id for stream in plan.publisher.streams] == ["B"]
