"""The calls of the REST API for statistics by window."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cep_common.protocol.tasks import StatisticsLevel
from cep_manager.errors import BadRequestError, PlanStoreError, UnknownPlanError
from cep_manager.monitoring.metric_tables.history import MOST_STEPS, Metric, PlanHistory, Wanted
from cep_manager.monitoring.plan_statistics import PlanStatistics, plan_statistics
from cep_manager.plans.outcomes import Outcome
from cep_manager.plans.stored_plan import SettingsPatch
from cep_manager.scaling.model import PlanScaling
from cep_manager.web.api.calls import Api, json_body, plan_key
from cep_manager.web.ports import ManagerView


class StatisticsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a plan's stages are to count."""

    level: StatisticsLevel


Moment = Annotated[int, Meta(description="Milliseconds since 1970; 0 or less: relative to now", ge=-(2**53), le=2**53)]


class HistoryQuery(msgspec.Struct, frozen=True):
    """What of a plan's past is wanted."""

    metric: Metric = "received"
    since_ms: Moment = msgspec.field(name="from", default=-900_000)
    until_ms: Moment = msgspec.field(name="to", default=0)
    step_ms: Annotated[
        int, Meta(description="Milliseconds; 0: chosen automatically, at most 300 steps", ge=0, le=2**53)
    ] = msgspec.field(name="step", default=0)

    def wanted(self, now_ms: int, interval_ms: int) -> Wanted:
        """Return the same in times of day. Raises BadRequestError."""
        since_ms, until_ms = (at_ms if at_ms > 0 else now_ms + at_ms for at_ms in (self.since_ms, self.until_ms))
        length_ms = until_ms - since_ms
        step_ms = self.step_ms or max(2 * interval_ms, -(-length_ms // USUAL_STEPS))
        if length_ms <= 0 or length_ms > MOST_STEPS * step_ms:
            raise BadRequestError(f"from must be before to, and both at most {MOST_STEPS:,} steps apart")
        return Wanted(self.metric, since_ms, until_ms, step_ms)


USUAL_STEPS = 300


def statistics_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get(
        "/plans/<name>/statistics",
        "Metrics of the plan's stages for the last ten minutes, three hours, day, and all time",
        answers=PlanStatistics,
        fails=(UnknownPlanError,),
    )
    def show_statistics(name: str) -> PlanStatistics:
        key = plan_key(view, name)
        snapshot = view.overview().snapshot
        snapshot.record(key)
        return plan_statistics(snapshot, key)

    @api.post(
        "/plans/<name>/statistics-level",
        "Set the level of statistics of the plan's stages; nothing is restarted",
        answers=Outcome,
        body=json_body(StatisticsQuery),
        fails=(UnknownPlanError, PlanStoreError),
    )
    def set_statistics_level(name: str, body: StatisticsQuery) -> Outcome:
        return view.change_settings(plan_key(view, name), SettingsPatch(statistics=body.level))

    @api.get(
        "/plans/<name>/history",
        "History of the plan: events per second, latencies, capacity, state, queue",
        answers=PlanHistory,
        query=HistoryQuery,
        fails=(UnknownPlanError,),
    )
    def show_history(name: str, query: HistoryQuery) -> PlanHistory:
        key = plan_key(view, name)
        overview = view.overview()
        overview.snapshot.record(key)
        return view.history(key, query.wanted(overview.now_ms, view.metric_tables().interval_ms))

    @api.get(
        "/plans/<name>/scaling",
        "Stages of the plan whose number of instances follows the load, and why it was changed",
        answers=PlanScaling,
        fails=(UnknownPlanError, PlanStoreError),
    )
    def show_scaling(name: str) -> PlanScaling:
        return view.scaling(plan_key(view, name))
