"""The overview in texts. Pure: what the manager tells in, what the page says out."""

from __future__ import annotations

import msgspec

from cep_common.ids import SUPER_TENANT
from cep_manager.monitoring.overview.alerts import Alert, AlertSeverity
from cep_manager.monitoring.overview.plan_metrics import Traffic
from cep_manager.monitoring.overview.system_overview import SystemOverview, SystemView
from cep_manager.plans.state import PlanState
from cep_manager.web.console.texts.formats import duration, latency, percent, plural, rate, short
from cep_manager.web.console.texts.presenters import STATE_TONES

SEVERITY_TONES = {AlertSeverity.CRITICAL: "bad", AlertSeverity.WARNING: "wait", AlertSeverity.NOTICE: "busy"}

_PAGES = {
    "plan": ("console.show_plan", "name"),
    "checkpoint-failed": ("console.show_plan_checkpoints", "name"),
    "checkpoint-old": ("console.show_plan_checkpoints", "name"),
    "former-checkpoints": ("console.show_plan_checkpoints", "name"),
    "errors": ("console.show_plan_exceptions", "name"),
    "plan-interrupted": ("console.show_plan_exceptions", "name"),
    "checkpoint-store": ("console.show_configuration", ""),
    "process-failed": ("console.show_exceptions", ""),
    "worker-silent": ("console.show_worker", "worker"),
    "no-worker": ("console.show_workers", ""),
}
"""The page with details of an alert, by its code or subject: endpoint, and the parameter that takes its name."""

SPARK_WIDTH, SPARK_HEIGHT = 120, 30


class Spark(msgspec.Struct, frozen=True):
    """A sparkline of a rate.

    `line` and the `ground` below it are SVG paths in a box of 120 by 30, `words` its description for screen readers.
    The paths are empty while there is nothing to draw.
    """

    line: str
    ground: str
    words: str


class StateCount(msgspec.Struct, frozen=True):
    """The number of plans in a state."""

    state: str
    tone: str
    plans: int


class AlertRow(msgspec.Struct, frozen=True):
    """An alert; `page` is the endpoint that shows its subject, `part` that endpoint's parameters."""

    severity: str
    tone: str
    subject: str
    name: str
    what: str
    advice: str
    since_ms: int | None
    page: str
    part: dict[str, str | int]


class OverviewText(msgspec.Struct, frozen=True):
    """Everything on the overview. `health` says in a word how all of it is."""

    health: str
    health_tone: str
    received: str
    emitted: str
    received_spark: Spark
    emitted_spark: Spark
    p99: str
    p50: str
    capacity: str
    waiting: str
    oldest: str
    plans: int
    states: tuple[StateCount, ...]
    alerts: tuple[AlertRow, ...]
    system: SystemView | None
    slots_used: int
    leader: str
    spark_url: str


def present_overview(overview: SystemOverview) -> OverviewText:
    """Return the overview page."""
    now = overview.metrics
    worst = overview.alerts[0].severity if overview.alerts else None
    system = overview.system
    leader = next((one for one in system.managers if one.role == "leader"), None) if system is not None else None
    return OverviewText(
        health=_health(worst, len(overview.alerts)),
        health_tone=SEVERITY_TONES[worst] if worst is not None else "good",
        received=short(now.received_per_second),
        emitted=short(now.emitted_per_second),
        received_spark=spark(overview.traffic, overview.traffic.received_per_second),
        emitted_spark=spark(overview.traffic, overview.traffic.emitted_per_second),
        p99=latency(now.p99_ms),
        p50=latency(now.p50_ms),
        capacity=percent(now.capacity),
        waiting=short(now.waiting_events),
        oldest=duration(now.oldest_ms) if now.oldest_ms else "",
        plans=sum(overview.plans.values()),
        states=tuple(
            StateCount(state, STATE_TONES[PlanState(state)], plans) for state, plans in overview.plans.items()
        ),
        alerts=tuple(_alert(one) for one in overview.alerts),
        system=system,
        slots_used=system.slots_total - system.slots_free if system is not None else 0,
        leader=f"{leader.control.host}:{leader.control.port}" if leader is not None else "",
        spark_url=_web(system.spark_url) if system is not None else "",
    )


def spark(traffic: Traffic, rates: tuple[float | None, ...]) -> Spark:
    """Return the line of `rates` since counting began, from zero to their highest."""
    known = [one for one in rates if one is not None]
    if len(known) < 2:
        return Spark("", "", "no history yet")
    highest = max(known) or 1.0
    step = SPARK_WIDTH / (len(known) - 1)
    points = [
        f"{at * step:.1f} {SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 3) * one / highest:.1f}" for at, one in enumerate(known)
    ]
    line = f"M{' L'.join(points)}"
    span = duration(traffic.step_s * len(known) * 1_000)
    words = f"the last {span}, between {rate(min(known))} and {rate(max(known))}"
    return Spark(line, f"{line} L{SPARK_WIDTH} {SPARK_HEIGHT} L0 {SPARK_HEIGHT} Z", words)


def _health(worst: AlertSeverity | None, alerts: int) -> str:
    if worst is None:
        return "No alerts"
    return f"{plural(alerts, 'alert', 'alerts')}"


def _alert(one: Alert) -> AlertRow:
    page, key = _PAGES.get(one.code) or _PAGES.get(one.subject, ("console.show_cluster", ""))
    part: dict[str, str | int] = {key: one.name} if key else {}
    if one.subject == "plan" and one.tenant != SUPER_TENANT:
        part["tenant"] = one.tenant
    return AlertRow(
        severity=one.severity.value,
        tone=SEVERITY_TONES[one.severity],
        subject=one.subject,
        name=one.name,
        what=one.what,
        advice=one.advice,
        since_ms=one.since_ms,
        page=page,
        part=part,
    )


def _web(address: str) -> str:
    return address if address.startswith(("http://", "https://")) else ""
