"""On-demand queries as the manager passes them on: to the right stage, and back as REST and the console's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import KEY, FakeView, World, plan, task

from cep_common.ids import Endpoint, InspectionAddress
from cep_common.protocol.inspection import QueryRunningState, StateFound
from cep_common.protocol.registry import Message
from cep_common.protocol.tasks import ComponentReport
from cep_common.security.roles import Role
from cep_manager.authoring.compiler import compile_plan
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import InsightBusyError, PlanNotRunningError, ProcessSilentError, QueryInvalidError
from cep_manager.monitoring.logs.client import NoAnswer, ProcessQuestion
from cep_manager.plans.record import PlanRecord
from cep_manager.state_queries.model import StateQuestion, StateRows
from cep_manager.state_queries.questions import StateQueries, asked_stage, state_list
from cep_manager.web.app import create_app
from query_plan.xml import read_xml
from siddhi.scripts.language import ScriptPolicy

PLAN = """
@Plan:name('Storms') @Import('A:1.0.0') define stream A (name string, number long);
@Export('Out:1.0.0') define stream Out (name string);
define table Totals (name string, number long);
define window Lately (name string, number long) length(2);
define aggregation Sums from A select name, sum(number) as total group by name aggregate every min, hour;
@dist(execGroup='tables') from A select name, number insert into Totals;
@dist(execGroup='windows') from A select name, number insert into Lately;
@dist(execGroup='windows') from Lately select name insert into Out;
@dist(execGroup='sums') from A join Sums on A.name == Sums.name within 0L, 1L per 'hours'
select A.name as name insert into Out;
"""
SCRIPTS = ScriptPolicy()
COMPILED = compile_plan(PLAN, SCRIPTS)
WHERE = InspectionAddress(Endpoint("10.0.0.9", 13_003), "run-3")


class Tasks:
    """Answers as tasks do, or as it is told to."""

    def __init__(self) -> None:
        self.questions: list[ProcessQuestion] = []
        self.answer: Message | NoAnswer = StateFound((("name", "string"), ("number", "long")), '[["a",1],[null,2]]', 7)

    def ask(self, questions: Sequence[ProcessQuestion]) -> list[Message | NoAnswer]:
        self.questions += questions
        return [self.answer for _ in questions]


def running(stage: str = "tables", address: InspectionAddress | None = WHERE) -> tuple[ClusterSnapshot, PlanRecord]:
    """The plan, whose task has told what it has."""
    world = World()
    world.put(plan(compiled=COMPILED))
    told = (ComponentReport(f"{stage}#0", stage, "processor"),)
    world.hear(msgspec.structs.replace(task(), components=told, insight=address))
    snapshot = world.snapshot()
    return snapshot, snapshot.plans[KEY]


def test_all_that_has_state_with_a_name_can_be_asked_about() -> None:
    _, record = running()
    told = [(one.name, one.kind, one.stage, [(c.name, c.type) for c in one.columns], one.periods)
            for one in state_list(record).sources]  # fmt: skip
    columns = [("name", "string"), ("number", "long")]
    assert told == [
        ("Lately", "window", "windows", columns, ()),
        ("Sums", "aggregation", "sums", [], ("min", "hour")),
        ("Totals", "table", "tables", columns, ()),
    ]


@pytest.mark.parametrize(
    ("query", "stage"),
    [
        ("from Totals select *", "tables"),
        ("from Lately on number > 1 select name", "windows"),
        ("from Sums within 0L, 1L per 'hours' select name, total", "sums"),
    ],
)
def test_a_question_goes_to_the_stage_that_has_what_it_asks_for(query: str, stage: str) -> None:
    assert asked_stage(read_xml(COMPILED.query_plan), query, SCRIPTS).name == stage


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("from Total select *", "'Total' is not a table, named window or aggregation that a query of Storms uses"),
        ("from Total select *", "did you mean 'Totals'?"),
        ("from Q select *", "there are: Lately, Sums, Totals"),
        ("from Totals select nmae", "did you mean 'name'?"),
        ("from Totals select", "line 1"),
        ("delete Totals on Totals.name == 'a'", "only queries that read are allowed"),
    ],
)
def test_a_question_that_cannot_be_answered_is_told_with_its_place(query: str, told: str) -> None:
    with pytest.raises(QueryInvalidError) as refused:
        asked_stage(read_xml(COMPILED.query_plan), query, SCRIPTS)
    (problem,) = refused.value.problems
    assert told in f"{refused.value.message}; {problem.hint}"
    assert problem.line == 1


def test_the_task_with_the_stage_is_asked_and_its_rows_are_told() -> None:
    tasks = Tasks()
    rows = StateQueries(tasks.ask, SCRIPTS).put(*running(), StateQuestion("from Totals select *", 2))
    assert (rows.stage, [one.name for one in rows.columns], rows.found) == ("tables", ["name", "number"], 7)
    assert rows.rows == (("a", 1), (None, 2))
    (question,) = tasks.questions
    assert (question.role, question.endpoint) == (Role.STAGE, WHERE.endpoint)
    assert question.message == QueryRunningState("run-3", "tables", "from Totals select *", 2, KEY)


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (NoAnswer("did not answer", hung=True), ProcessSilentError, "the stage tables in task 0"),
        (NoAnswer("the stage had no time", code="busy"), ProcessSilentError, "had no time"),
        (NoAnswer("it overflows", code="query-failed"), QueryInvalidError, "it overflows"),
    ],
)
def test_what_comes_instead_of_rows_is_told(answer: NoAnswer, error: type[Exception], told: str) -> None:
    tasks = Tasks()
    tasks.answer = answer
    with pytest.raises(error, match=told):
        StateQueries(tasks.ask, SCRIPTS).put(*running(), StateQuestion("from Totals select *"))


def test_a_plan_that_does_not_run_or_tells_not_where_is_not_asked() -> None:
    queries = StateQueries(Tasks().ask, SCRIPTS)
    with pytest.raises(PlanNotRunningError, match="no task runs the stage tables of Storms"):
        queries.put(*running(stage="windows"), StateQuestion("from Totals select *"))
    with pytest.raises(ProcessSilentError, match="has not reported where"):
        queries.put(*running(address=None), StateQuestion("from Totals select *"))


def test_a_plan_that_cannot_be_compiled_any_more_says_so() -> None:
    world = World()
    world.put(plan(compiled="no such window"))
    record = world.snapshot().plans[KEY]
    with pytest.raises(PlanNotRunningError, match="can no longer be compiled"):
        state_list(record)
    with pytest.raises(PlanNotRunningError, match="can no longer be compiled"):
        StateQueries(Tasks().ask, SCRIPTS).put(world.snapshot(), record, StateQuestion("from Totals select *"))


def test_a_change_of_a_plan_without_stages_is_refused_as_any_other() -> None:
    nothing = replace(read_xml(COMPILED.query_plan), processors=())
    with pytest.raises(QueryInvalidError, match="only queries that read are allowed"):
        asked_stage(nothing, "delete Totals on Totals.name == 'a'", SCRIPTS)


def test_only_so_many_questions_are_put_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep_manager.state_queries.questions.AT_ONCE", 0)
    monkeypatch.setattr("cep_manager.state_queries.questions.PATIENCE_MS", 1)
    with pytest.raises(InsightBusyError):
        StateQueries(Tasks().ask, SCRIPTS).put(*running(), StateQuestion("from Totals select *"))


# ---- REST and console


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active(events=1_000)
    return FakeView(world)


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, 50_000).test_client()


def test_rest_gives_rows_and_says_what_can_be_asked(client: FlaskClient, view: FakeView) -> None:
    answer = client.post("/api/v1/plans/Storms/query", json={"query": "from Airports select *", "limit": 2})
    rows = msgspec.json.decode(answer.data, type=StateRows)
    assert (rows.stage, rows.found, rows.rows) == ("storms", 9, (("<b>ORD</b>", 7), (None, None)))
    assert view.questions == [StateQuestion("from Airports select *", 2)]
    assert client.get("/api/v1/plans/Storms/state").get_json()["sources"][0]["name"] == "Airports"
    assert client.get("/api/v1/plans/Nothing/state").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": "broken"}, 422, "query-invalid"),
        ({"query": "busy"}, 504, "process-silent"),
        ({"query": ""}, 400, "bad-request"),
        ({"query": "x", "limit": 0}, 400, "bad-request"),
        ({"query": "x" * 3_001}, 400, "bad-request"),
    ],
)
def test_rest_says_what_is_wrong(client: FlaskClient, body: dict[str, object], status: int, code: str) -> None:
    answer = client.post("/api/v1/plans/Storms/query", json=body)
    assert (answer.status_code, answer.get_json()["code"]) == (status, code)


def test_the_page_shows_what_there_is_and_the_rows_that_were_asked_for(client: FlaskClient) -> None:
    page = client.get("/plans/Storms/state").get_data(as_text=True)
    assert 'href="/plans/Storms/state?query=from+Airports+select+*+limit+20"' in page
    assert "within+0L,+4102444800000L+per+&#39;sec&#39;" in page or "per+'sec'" in page or "per+%27sec%27" in page
    assert 'id="rows"' not in page
    page = client.get("/plans/Storms/state?query=from Airports select *").get_data(as_text=True)
    assert "from Airports select *</textarea>" in page
    assert 'id="rows"' not in page, "an address asks nothing by itself"
    page = client.post("/plans/Storms/state", data={"query": "from Airports select *"}).get_data(as_text=True)
    assert "&lt;b&gt;ORD&lt;/b&gt;" in page
    assert "9 rows in stage storms; the first 2 are shown" in page
    assert "from Airports select *</textarea>" in page


@pytest.mark.parametrize(("query", "status", "told"), [("broken", 422, "is not defined"), ("busy", 504, "had no time")])
def test_the_page_keeps_a_question_that_failed_and_says_why(
    client: FlaskClient, query: str, status: int, told: str
) -> None:
    answer = client.post("/plans/Storms/state", data={"query": query})
    assert answer.status_code == status
    page = answer.get_data(as_text=True)
    assert told in page
    assert f"{query}</textarea>" in page
