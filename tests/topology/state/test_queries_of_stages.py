"""On-demand queries to a running task, from another thread."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from topology_builders import KEY, open_links

from cep_common.protocol.inspection import QueryRunningState, StateFound
from cep_common.protocol.registry import Message, Rejected
from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.events.bundle import Bundle
from topology.model import Topology
from topology.stages.kinds.processor import Processor
from topology.stages.settings import StageSettings
from topology.stages.state import state_queries
from topology.stages.state.state_queries import StateQueryService

PLAN = """
@Plan:name('P') @Import('A:1.0.0') define stream A (name string, number long, share double);
@Export('Out:1.0.0') define stream Out (name string);
@PrimaryKey('name') define table Totals (name string, number long, share double);
define window Lately (name string, number long) length(2);
define aggregation Sums from A select name, sum(number) as total group by name aggregate every sec...hour;
from A update or insert into Totals set Totals.number = number on Totals.name == name;
from A select name, number insert into Lately;
from Lately select name insert into Out;
from A join Totals on A.name == Totals.name select A.name as name insert into Out;
from A join Sums on A.name == Sums.name within 0L, 4102444800000L per 'hours' select A.name as name insert into Out;
"""


class Asked:
    """A stage that has taken in three events, and a loop that answers while somebody asks."""

    def __init__(self) -> None:
        plan = read_xml(write_xml(build(analyse(parse(PLAN)))))
        self.stages = {}
        for stage in plan.processors:
            name = f"{stage.name}#0"
            processor = Processor(name, Topology(KEY, 1, plan, 1), stage, [].append, StageSettings())
            processor.open(1_000)
            open_links(processor, 1_000)
            batch = pa.RecordBatch.from_pydict(
                {"name": ["a", "b", "a"], "number": pa.array([1, 2, 3], pa.int64()), "share": [0.5, float("nan"), 0.5]}
            )
            bundle = Bundle("A", "A", 0, "A", ("A",), 1_000, idle=True, batches=(("A", batch),))
            processor.on_bundle(bundle, 1_000)
            self.stages[name] = processor
        self.owner = {
            one.id: stage.name for stage in plan.processors
            for one in (*stage.tables, *stage.windows, *stage.aggregations)
        }  # fmt: skip
        self.rung = threading.Event()
        self.questions = StateQueryService(self.stages, self.rung.set)
        self.works = True
        self.ends = False
        self._loop = threading.Thread(target=self._run)
        self._loop.start()

    def _run(self) -> None:
        while not self.ends:
            self.rung.wait()
            self.rung.clear()
            self.questions.answer(works=self.works)

    def close(self) -> None:
        self.ends = True
        self.rung.set()
        self._loop.join()

    def ask(self, query: str, source: str = "Totals", most_rows: int = 100) -> Message:
        return self.questions.ask(QueryRunningState("run", self.owner[source], query, most_rows))

    def rows(self, query: str, source: str = "Totals") -> list[Any]:
        answer = self.ask(query, source)
        assert isinstance(answer, StateFound), answer
        rows: list[Any] = json.loads(answer.rows)
        return rows


@pytest.fixture
def asked() -> Iterator[Asked]:
    found = Asked()
    yield found
    found.close()


def test_tables_windows_and_aggregations_are_read(asked: Asked) -> None:
    assert asked.rows("from Totals select *") == [["a", 3, 0.5], ["b", 2, None]], "a number that is none is null"
    assert asked.rows("from Totals on number > 2 select name, number * 2 as twice") == [["a", 6]]
    assert asked.rows("from Lately select name, number", "Lately") == [["b", 2], ["a", 3]]
    sums = asked.rows("from Sums within 0L, 4102444800000L per 'hours' select name, total order by name", "Sums")
    assert sums == [["a", 4], ["b", 2]]
    assert asked.rows("from Totals on number > 9 select *") == []


def test_a_question_that_goes_wrong_does_not_end_the_task(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OverflowError("2 GiB of text")

    with monkeypatch.context() as patch:
        patch.setattr(Processor, "query", fail)
        answer = asked.ask("from Totals select *")
    assert isinstance(answer, Rejected)
    assert answer.code == "internal"
    assert asked.rows("from Totals select name") == [["a"], ["b"]]


def test_the_first_rows_are_told_and_how_many_there_are(asked: Asked) -> None:
    answer = asked.ask("from Totals select name", most_rows=1)
    assert answer == StateFound((("name", "string"),), '[["a"]]', 2)


@pytest.mark.parametrize("window", ["expressionBatch('count() <= 2')", "timeBatch(2 sec, true)", "lengthBatch(3)"])
def test_a_question_to_a_window_does_not_change_what_the_plan_gives(window: str) -> None:
    text = """
    @Plan:name('P') @Import('A:1.0.0') define stream A (number long);
    @Export('Out:1.0.0') define stream Out (number long, sum long);
    define window Lately (number long) WINDOW output all events;
    from A select number insert into Lately;
    from Lately select number, sum(number) as sum insert all events into Out;
    """
    plan = read_xml(write_xml(build(analyse(parse(text.replace("WINDOW", window))))))
    given: list[list[Any]] = []
    for asks in (False, True):
        emitted: list[Bundle] = []
        stage = Processor("P#0", Topology(KEY, 1, plan, 1), plan.processors[0], emitted.append, StageSettings())
        stage.open(1_000)
        open_links(stage, 1_000)
        for number in range(9):
            batch = pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int64())})
            now_ms = 1_000 + 700 * number
            stage.on_bundle(Bundle("A", "A", 0, "A", ("A",), now_ms, idle=True, batches=(("A", batch),)), now_ms)
            if asks:
                stage.query(stage.on_demand("from Lately select number"))
        given.append([row for one in emitted for _, batch in one.batches for row in batch.to_pylist()])
    assert given[0] == given[1]
    assert given[0]


def test_texts_that_only_questions_made_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siddhi.engine.columnar.string_compaction.MIN_NEW_STRINGS", 10)
    monkeypatch.setattr("siddhi.engine.columnar.string_compaction.STATE_BYTES_PER_NEW_STRING", 10**9)
    asked = Asked()
    (stage,) = asked.stages.values()
    for _ in range(40):
        stage.query(stage.on_demand("from Totals select UUID() as text"))
    assert asked.rows("from Totals select name") == [["a"], ["b"]]
    asked.close()
    stage.measure()
    assert next(held.rows for held in stage.statistics.held if held.kind == "strings") < 40


def test_no_more_is_told_than_a_message_holds(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_queries, "MOST_BYTES", 7)
    assert asked.ask("from Totals select name") == StateFound((("name", "string"),), '[["a"]]', 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("query", "code", "told"),
    [
        ("from Totals select", "query-invalid", "line 1"),
        ("from Nothing select *", "query-invalid", "'Nothing' is not a table, window or aggregation"),
        ("from Totals select nothing", "query-invalid", "nothing"),
        ("delete Totals on Totals.name == 'a'", "query-invalid", "only queries that read are allowed"),
        ("select 'c' as name, 1L as number, 1.0 as share insert into Totals", "query-invalid", "queries that read"),
    ],
)
def test_what_is_no_question_is_refused_with_its_place(asked: Asked, query: str, code: str, told: str) -> None:
    answer = asked.ask(query)
    assert isinstance(answer, Rejected)
    assert answer.code == code
    assert told in answer.reason
    assert asked.rows("from Totals select name") == [["a"], ["b"]]


def test_who_is_not_there_or_stands_by_or_has_no_time_says_so(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked.questions.ask(QueryRunningState("run", "other", "from Totals select *")) == Rejected(
        "unknown-component", "no instance of the stage other is in this task"
    )
    asked.works = False
    assert asked.ask("from Totals select *") == Rejected("not-working", "the stage is on standby")
    monkeypatch.setattr(state_queries, "PATIENCE_S", 0.01)
    silent = StateQueryService(asked.stages, lambda: None)
    late = silent.ask(QueryRunningState("run", asked.owner["Totals"], "from Totals select *"))
    assert isinstance(late, Rejected)
    assert late.code == "busy"
    silent.answer(works=True)  # nobody waits for it any more


@pytest.mark.parametrize(
    "query",
    ["from Totals select regex:matches('(a+)+b', str:repeat(name, 40)) as m",
     "from Totals on regex:find('(a+)+b', str:repeat('a', 40)) select name"],
)  # fmt: skip
def test_a_question_that_does_not_end_is_stopped_and_holds_nobody_up(
    asked: Asked, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_queries, "PATIENCE_S", 0.5)
    answers: list[Message] = []
    asking = threading.Thread(target=lambda: answers.append(asked.ask(query)))
    asking.start()
    asking.join()
    (answer,) = answers
    assert isinstance(answer, Rejected)
    assert (answer.code, "it took too long" in answer.reason) == ("query-failed", True)
    monkeypatch.setattr(state_queries, "PATIENCE_S", 10.0)
    assert asked.rows("from Totals select name") == [["a"], ["b"]]


def test_a_question_that_takes_all_memory_or_dies_is_refused(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    for fatal in (lambda *_: bytearray(64 * 2**30), lambda *_: os.abort()):
        with monkeypatch.context() as patch:
            patch.setattr(Processor, "query", fatal)
            answer = asked.ask("from Totals select *")
        assert isinstance(answer, Rejected)
        assert answer.code in ("internal", "query-failed")
    assert asked.rows("from Totals select name") == [["a"], ["b"]]
