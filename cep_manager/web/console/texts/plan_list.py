"""The list of execution plans in texts. Pure."""

from __future__ import annotations

import msgspec

from cep_common.protocol.tasks import StatisticsLevel
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.overview.plan_list import NOT_AT_WORK, PlanEntry, PlanPage
from cep_manager.monitoring.overview.plan_metrics import metrics_of_plan
from cep_manager.monitoring.status import plan_status
from cep_manager.web.console.texts.formats import duration, latency, plural, rate
from cep_manager.web.console.texts.presenters import STATE_TONES, Line, present_status

PAGE = 50
"""The number of plans on a page of the list."""


class PlanLine(msgspec.Struct, frozen=True):
    """A plan in the list.

    `reason` says why it is not active, `problem` what else is wrong with it. `words` is what the list is searched in.
    """

    name: str
    tenant: int
    description: str
    state: str
    tone: str
    since: str
    reason: str
    problem: str
    inflow: tuple[Line, ...]
    outflow: Line
    received: str
    emitted: str
    p99: str
    tasks: str
    intake: bool
    trace: bool
    statistics: StatisticsLevel
    rule_set: str
    words: str


class PlanLists(msgspec.Struct, frozen=True):
    """The plans of a page of the list that are at work, and those that are not: deactivated, waiting, failed.

    `found` says which of all that match are shown, where that is not all; `page` is the number of the page, from 1, of
    `pages`.
    """

    active: tuple[PlanLine, ...]
    inactive: tuple[PlanLine, ...]
    tally: str
    found: str
    page: int
    pages: int
    known: int
    total: int
    states: tuple[str, ...]
    rule_sets: tuple[str, ...]


def present_plans(snapshot: ClusterSnapshot, shown: PlanPage, most: int = PAGE) -> PlanLists:
    """Return the lists of the plans `shown`, at most `most` plans."""
    lines = [(one.state in NOT_AT_WORK, _line(one, snapshot)) for one in shown.entries]
    tally = f"{plural(shown.active, 'active plan', 'active plans')}, {shown.known - shown.active:,} inactive"
    last = shown.first + len(shown.entries)
    found = f"{shown.first + 1:,}–{last:,} of {shown.total:,}" if shown.total > len(shown.entries) else ""
    if shown.total < shown.known:
        found = f"{found or f'{shown.total:,}'} that match"
    return PlanLists(
        active=tuple(line for rests, line in lines if not rests),
        inactive=tuple(line for rests, line in lines if rests),
        tally=tally,
        found=found,
        page=shown.first // most + 1,
        pages=max(1, -(-shown.total // most)),
        known=shown.known,
        total=shown.total,
        states=shown.states,
        rule_sets=shown.rule_sets,
    )


def _line(entry: PlanEntry, snapshot: ClusterSnapshot) -> PlanLine:
    key, record = entry.key, snapshot.plans[entry.key]
    plan = plan_status(snapshot, key)
    status = present_status(plan)
    topology = plan.topology
    metric = metrics_of_plan(snapshot, [key])
    return PlanLine(
        name=key.plan,
        tenant=key.tenant,
        description=record.compiled.description if record.compiled is not None else "",
        state=topology.state.value,
        tone=STATE_TONES[topology.state],
        since=duration(topology.since_ms),
        reason=topology.reason,
        problem=status.change_error or topology.last_error,
        inflow=status.inflow,
        outflow=status.outflow,
        received=rate(metric.received_per_second),
        emitted=rate(metric.emitted_per_second),
        p99=latency(metric.p99_ms),
        tasks=f"{topology.tasks_live}/{topology.tasks_required}",
        intake=topology.intake,
        trace=topology.trace,
        statistics=record.statistics_level(),
        rule_set=entry.rule_set,
        words=entry.words,
    )
