"""On-demand queries about what a running plan holds: where the question goes, and what comes back.

question ──► the stage that has the table, window or aggregation ──► the task with its instance ──► its endpoint
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from cep_common.ids import InspectionAddress, PlanKey
from cep_common.protocol.inspection import QueryRunningState, StateFound
from cep_manager.authoring.compiler import plan_problems
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import InsightBusyError, PlanNotRunningError, ProcessSilentError, QueryInvalidError
from cep_manager.monitoring.logs.client import Ask, NoAnswer, ProcessQuestion
from cep_manager.monitoring.logs.processes import KnownProcess, known_processes
from cep_manager.plans.record import PlanRecord
from cep_manager.state_queries.model import QueryableState, StateColumn, StateList, StateQuestion, StateRows
from query_plan.model import ProcessingStage, QueryPlan, stage_app
from query_plan.xml import read_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.query.on_demand import analyse_on_demand_query, parse_question
from siddhi.errors import Problem, SiddhiAnalysisError, SiddhiError, did_you_mean
from siddhi.language.ast import AttributeDefinition, OnDemandQuery
from siddhi.scripts.language import ScriptPolicy

PATIENCE_MS = 2_000
"""How long a stage may take to answer."""
AT_ONCE = 4
"""The number of concurrent queries, so that stages that hang leave threads for other pages."""


class StateQueries:
    """Puts questions to running stages. Any thread may call."""

    def __init__(self, ask: Ask, scripts: ScriptPolicy) -> None:
        self._ask = ask
        self._scripts = scripts
        self._free = threading.BoundedSemaphore(AT_ONCE)

    def put(self, snapshot: ClusterSnapshot, record: PlanRecord, question: StateQuestion) -> StateRows:
        """Send the query to the plan's stage and return its answer.

        Raises QueryInvalidError, PlanNotRunningError, ProcessSilentError, InsightBusyError.
        """
        stage = asked_stage(_query_plan(record), question.query, self._scripts)
        known, address = _at_work(snapshot, record.key, f"{stage.name}#0")
        message = QueryRunningState(address.run, stage.name, question.query, question.limit, record.key)
        with self._turn():
            (answer,) = self._ask([ProcessQuestion(known.role, address.endpoint, message, PATIENCE_MS)])
        if not isinstance(answer, StateFound):
            raise _failure(stage.name, known, answer, question.query)
        columns = tuple(StateColumn(*one) for one in answer.columns)
        rows = msgspec.json.decode(answer.rows, type=tuple[tuple[Any, ...], ...])
        return StateRows(record.key.plan, record.key.tenant, stage.name, columns, rows, answer.found)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._free.acquire(timeout=PATIENCE_MS / 1_000):
            raise InsightBusyError(f"{AT_ONCE} queries are running; try again in a moment")
        try:
            yield
        finally:
            self._free.release()


def state_list(record: PlanRecord) -> StateList:
    """Return the queryable state of the plan. Raises PlanNotRunningError for one whose text no longer compiles."""
    found = (source for stage in _query_plan(record).processors for source in _sources(stage))
    return StateList(record.key.plan, record.key.tenant, tuple(sorted(found, key=lambda one: one.name)))


def asked_stage(plan: QueryPlan, text: str, scripts: ScriptPolicy) -> ProcessingStage:
    """Return the stage that can answer the question `text`. Raises QueryInvalidError."""
    registry = builtin_registry(scripts)
    try:
        query = parse_question(text)
        stage = _stage_of(plan, query)
        analyse_on_demand_query(query, analyse(stage_app(plan, stage), registry), registry)
    except SiddhiError as error:
        raise QueryInvalidError(plan_problems(error.problems, text)) from error
    return stage


def _query_plan(record: PlanRecord) -> QueryPlan:
    if record.compiled is None:
        raise PlanNotRunningError(f"the text of {record.key.plan} can no longer be compiled")
    return read_xml(record.compiled.query_plan)


def _sources(stage: ProcessingStage) -> Iterator[QueryableState]:
    for table in stage.tables:
        yield QueryableState(table.id, "table", stage.name, _columns(table.attributes))
    for window in stage.windows:
        yield QueryableState(window.id, "window", stage.name, _columns(window.attributes))
    for aggregation in stage.aggregations:
        yield QueryableState(aggregation.id, "aggregation", stage.name, periods=aggregation.durations)


def _columns(attributes: Iterable[AttributeDefinition]) -> tuple[StateColumn, ...]:
    return tuple(StateColumn(one.name, one.type.value) for one in attributes)


def _stage_of(plan: QueryPlan, query: OnDemandQuery) -> ProcessingStage:
    """Return the stage that holds what `query` reads. Raises SiddhiAnalysisError."""
    stages = {source.name: stage for stage in plan.processors for source in _sources(stage)}
    source = str(query.source)
    if source not in stages:
        there = f"there are: {', '.join(sorted(stages))}" if stages else "the plan has none"
        message = f"'{source}' is not a table, named window or aggregation that a query of {plan.name} uses"
        raise SiddhiAnalysisError(Problem("unknown-source", message, did_you_mean(source, stages) or there, query.span))
    return stages[source]


def _at_work(snapshot: ClusterSnapshot, key: PlanKey, instance: str) -> tuple[KnownProcess, InspectionAddress]:
    """Return the task that has the instance, and where it can be asked."""
    for known in known_processes(snapshot):
        process = known.process
        if process.plan == key.plan and process.tenant == key.tenant and instance in process.instances:
            if known.address is None:
                raise ProcessSilentError(f"task {process.task} of {key.plan} has not reported where it can be queried")
            return known, known.address
    raise PlanNotRunningError(f"no task runs the stage {instance.partition('#')[0]} of {key.plan} at the moment")


def _failure(stage: str, known: KnownProcess, answer: object, text: str) -> Exception:
    if isinstance(answer, NoAnswer) and answer.code in ("query-invalid", "query-failed"):
        return QueryInvalidError(plan_problems([Problem(answer.code, answer.problem)], text))
    problem = answer.problem if isinstance(answer, NoAnswer) else "sent an invalid response"
    where = f"task {known.process.task} (process {known.process.process_id} on {known.process.host})"
    return ProcessSilentError(f"the stage {stage} in {where}: {problem}")
