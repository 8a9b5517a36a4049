"""The active sampling orders of topologies, and the sampled events. Pure.

A command is valid for a time and then expires; it is not stored: a manager that takes over samples nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.tasks import SampledEvent, SampleOrder

MOST_EVENTS = 100
"""The number of newest events of each stage that are kept."""


class PlanSamples(msgspec.Struct, frozen=True):
    """A plan's orders by stage, as (percent, monotonic end), and the events that were seen, oldest first."""

    orders: Mapping[str, tuple[float, int]] = {}
    events: Mapping[str, tuple[SampledEvent, ...]] = {}

    def running(self, now_ms: int) -> tuple[SampleOrder, ...]:
        """Return the orders that are active at `now_ms`."""
        return tuple(
            SampleOrder(component, percent, until_ms - now_ms)
            for component, (percent, until_ms) in self.orders.items()
            if until_ms > now_ms
        )


NONE = PlanSamples()


class SampleReport(msgspec.Struct, frozen=True):
    """The active sampling of a plan, its remaining time, and the newest sampled events, oldest first."""

    plan: str
    tenant: int
    orders: tuple[SampleOrder, ...]
    events: tuple[SampledEvent, ...]


class Samples:
    """Samples by plan. Not thread-safe, but the results of `snapshot` may be shared."""

    def __init__(self) -> None:
        self._plans: dict[PlanKey, PlanSamples] = {}

    def begin(self, key: PlanKey, components: Iterable[str], percent: float, until_ms: int) -> None:
        """Start sampling the stages until `until_ms`, dropping their earlier samples."""
        plan = self._plans.get(key, NONE)
        orders, events = dict(plan.orders), dict(plan.events)
        for component in components:
            orders[component] = (percent, until_ms)
            events[component] = ()
        self._plans[key] = PlanSamples(orders, events)

    def end(self, key: PlanKey, components: Collection[str]) -> None:
        """Stop sampling the stages; their samples stay."""
        plan = self._plans.get(key)
        if plan is not None:
            orders = {component: order for component, order in plan.orders.items() if component not in components}
            self._plans[key] = PlanSamples(orders, plan.events)

    def orders(self, key: PlanKey, now_ms: int) -> tuple[SampleOrder, ...]:
        """Return the sampling orders for the plan's tasks."""
        plan = self._plans.get(key) if self._plans else None  # most of the time nothing is sampled anywhere
        return plan.running(now_ms) if plan is not None else ()

    def heard(self, key: PlanKey, seen: Iterable[SampledEvent]) -> None:
        """Keep the sampled events of a task's report, except those of stages that are not being sampled."""
        plan = self._plans.get(key)
        if plan is None:
            return
        grown: dict[str, deque[SampledEvent]] = {}
        for event in seen:
            component = event.instance.rpartition("#")[0]
            if component in plan.events:
                grown.setdefault(component, deque(plan.events[component], MOST_EVENTS)).append(event)
        if grown:
            events = {**plan.events, **{component: tuple(kept) for component, kept in grown.items()}}
            self._plans[key] = PlanSamples(plan.orders, events)

    def keep(self, key: PlanKey, components: Collection[str]) -> None:
        """Remove all other stages of the plan; without any, remove the plan."""
        plan = self._plans.get(key)
        if plan is None:
            return
        if not components:
            del self._plans[key]
            return
        self._plans[key] = PlanSamples(
            {name: order for name, order in plan.orders.items() if name in components},
            {name: events for name, events in plan.events.items() if name in components},
        )

    def snapshot(self) -> dict[PlanKey, PlanSamples]:
        """Return all that is known now; sharing nothing that changes."""
        return dict(self._plans)


def sample_report(samples: Mapping[PlanKey, PlanSamples], key: PlanKey, component: str, now_ms: int) -> SampleReport:
    """Return the samples of the plan: of all its stages (empty `component`), or of one."""
    plan = samples.get(key, NONE)
    events = [event for name, seen in plan.events.items() if component in ("", name) for event in seen]
    return SampleReport(
        plan=key.plan,
        tenant=key.tenant,
        orders=tuple(order for order in plan.running(now_ms) if component in ("", order.component)),
        events=tuple(sorted(events, key=lambda event: event.at_ms)),
    )
