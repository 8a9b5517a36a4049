"""The list of execution plans in texts. Pure."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_common.task_messages import StatisticsLevel
from cep_manager.console.presenters import STATE_TONES, Line, present_status
from cep_manager.console.text import duration, latency, plural, rate
from cep_manager.manager_view import PlanSummary
from cep_manager.plan_figures import plan_figure
from cep_manager.plan_state import PlanState
from cep_manager.snapshot import Snapshot

NOT_AT_WORK = (PlanState.INACTIVE, PlanState.WAITING, PlanState.FAILED, PlanState.KILLED)


class PlanLine(msgspec.Struct, frozen=True):
    """A plan in the list. `reason` says why it is not active, `trouble` what else is wrong with it. `words` is what the
    list is searched in."""

    name: str
    tenant: int
    description: str
    state: str
    tone: str
    since: str
    reason: str
    trouble: str
    inflow: tuple[Line, ...]
    outflow: Line
    received: str
    emitted: str
    p99: str
    tasks: str
    intake: bool
    trace: bool
    statistics: StatisticsLevel
    words: str


class PlanLists(msgspec.Struct, frozen=True):
    """The plans that are at work, and those that are not: deactivated, waiting, failed."""

    active: tuple[PlanLine, ...]
    inactive: tuple[PlanLine, ...]
    tally: str


def present_plans(plans: tuple[PlanSummary, ...], snapshot: Snapshot) -> PlanLists:
    """The lists; a plan that `snapshot` does not have any more is left out."""
    known = [(one, snapshot.key_named(one.tenant, one.plan)) for one in plans]
    lines = [
        (one.status.topology.state in NOT_AT_WORK, _line(one, key, snapshot)) for one, key in known if key is not None
    ]
    active = tuple(line for rests, line in lines if not rests)
    inactive = tuple(line for rests, line in lines if rests)
    return PlanLists(
        active=active,
        inactive=inactive,
        tally=f"{plural(len(active), 'active plan', 'active plans')}, {len(inactive)} inactive",
    )


def _line(plan: PlanSummary, key: PlanKey, snapshot: Snapshot) -> PlanLine:
    status = present_status(plan.status)
    topology = plan.status.topology
    figure = plan_figure(snapshot, [key])
    level = snapshot.plans[key].statistics_level()
    return PlanLine(
        name=plan.plan,
        tenant=plan.tenant,
        description=plan.description,
        state=topology.state.value,
        tone=STATE_TONES[topology.state],
        since=duration(topology.since_ms),
        reason=topology.reason,
        trouble=status.change_error or topology.last_error,
        inflow=status.inflow,
        outflow=status.outflow,
        received=rate(figure.received_per_second),
        emitted=rate(figure.emitted_per_second),
        p99=latency(figure.p99_ms),
        tasks=f"{topology.tasks_live}/{topology.tasks_required}",
        intake=topology.intake,
        trace=topology.trace,
        statistics=level,
        words=f"{plan.plan} {plan.description} {topology.state.value}".lower(),
    )
