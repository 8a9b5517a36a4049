"""The part of the REST API that is about processes, their logs and their configurations."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import request
from msgspec import Meta

from cep_common.ids import PlanKey
from cep_common.protocol.inspection import MOST_FILTER_CHARACTERS, MOST_RECORDS, Level
from cep_manager.errors import InsightBusyError, ProcessSilentError, UnknownPlanError, UnknownProcessError
from cep_manager.monitoring.logs.model import (
    ConfigurationList,
    LogPage,
    LogQuery,
    LogSearch,
    ProcessConfiguration,
    ProcessList,
)
from cep_manager.web.api.calls import Api, plan_key
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.ports import ManagerView

FilterText = Annotated[
    str, Meta(max_length=MOST_FILTER_CHARACTERS, description="Only records that contain this text (case-insensitive)")
]
Limit = Annotated[int, Meta(ge=1, le=MOST_RECORDS, description="Maximum number of records")]
Place = Annotated[str, Meta(max_length=500)]
LeastLevel = Annotated[Level, Meta(description="Only records of at least this level")]


class LogFilter(msgspec.Struct, frozen=True):
    """Which records are wanted."""

    level: LeastLevel = "DEBUG"
    contains: FilterText = ""
    limit: Limit = 200

    def query(self) -> LogQuery:
        """Return the newest of them."""
        return LogQuery(self.level, self.contains, limit=self.limit)


class LogPageQuery(LogFilter, frozen=True):
    """Which records of one process are wanted, and from where on."""

    after: Annotated[
        Place, Meta(description="The oldest records after this position, the `next` of another answer")
    ] = ""
    before: Annotated[
        Place, Meta(description="The newest records before this position, the `previous` of another answer")
    ] = ""

    def query(self) -> LogQuery:
        return LogQuery(self.level, self.contains, self.after, self.before, self.limit)


class LogSearchQuery(LogFilter, frozen=True):
    """Which records of all processes are wanted."""

    plan: Annotated[
        str, Meta(description="Records of this plan's tasks, and records of other processes that mention it")
    ] = ""


def insight_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get("/processes", "All processes, with host, process id, plan and task", answers=ProcessList, of_tenant=False)
    def list_processes() -> ProcessList:
        return ProcessList(view.insights().processes())

    @api.get(
        "/processes/<process>/log",
        "The newest log records of a process, or those from a position on",
        answers=LogPage,
        query=LogPageQuery,
        fails=(UnknownProcessError, ProcessSilentError, InsightBusyError),
        of_tenant=False,
    )
    def read_log(process: str, query: LogPageQuery) -> LogPage:
        return view.insights().log(process, query.query())

    @api.get(
        "/processes/<process>/configuration",
        "The configuration of a process, and where each key was set",
        answers=ProcessConfiguration,
        fails=(UnknownProcessError, InsightBusyError),
        of_tenant=False,
    )
    def read_configuration(process: str) -> ProcessConfiguration:
        return view.insights().configuration(process)

    @api.get(
        "/log",
        "The newest log records of all processes, or those about a plan",
        answers=LogSearch,
        query=LogSearchQuery,
        fails=(InsightBusyError,),
    )
    def search_logs(query: LogSearchQuery) -> LogSearch:
        plan = PlanKey(read_tenant(request), query.plan)
        return view.insights().search(query.query(), plan if query.plan else None)

    @api.get(
        "/plans/<name>/log",
        "The newest log records of the plan's tasks",
        answers=LogSearch,
        query=LogFilter,
        fails=(UnknownPlanError, InsightBusyError),
    )
    def read_plan_log(name: str, query: LogFilter) -> LogSearch:
        key = plan_key(view, name)
        view.plan(key)  # one that is not there is refused
        return view.insights().search(query.query(), key, tasks_only=True)

    @api.get(
        "/configuration",
        "The configurations of all processes; of a plan's tasks only one",
        answers=ConfigurationList,
        fails=(InsightBusyError,),
        of_tenant=False,
    )
    def list_configurations() -> ConfigurationList:
        return view.insights().configurations()
