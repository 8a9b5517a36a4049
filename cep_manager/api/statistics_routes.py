"""The calls of the REST API for statistics by window."""

from __future__ import annotations

import msgspec

from cep_common.task_messages import StatisticsLevel
from cep_manager.api.calls import Api, json_body, plan_key
from cep_manager.errors import StoreError, UnknownPlanError
from cep_manager.manager_view import ManagerView, Outcome
from cep_manager.plan_commands import unknown_plan
from cep_manager.statistics.plan_statistics import PlanStatistics, plan_statistics


class Counting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a plan's stages are to count."""

    level: StatisticsLevel


def statistics_routes(api: Api, view: ManagerView) -> None:
    """Adds them to `api`."""

    @api.get(
        "/plans/<name>/statistics",
        "What the plan's stages did in the last ten minutes, three hours, day, and in all",
        answers=PlanStatistics,
        fails=(UnknownPlanError,),
    )
    def show_statistics(name: str) -> PlanStatistics:
        key = plan_key(name)
        snapshot = view.overview().snapshot
        if key not in snapshot.plans:
            raise unknown_plan(key)
        return plan_statistics(snapshot, key)

    @api.post(
        "/plans/<name>/statistics-level",
        "The plan's stages count at that level; nothing is restarted",
        answers=Outcome,
        body=json_body(Counting),
        fails=(UnknownPlanError, StoreError),
    )
    def set_statistics_level(name: str, body: Counting) -> Outcome:
        return view.set_statistics(plan_key(name), body.level)
