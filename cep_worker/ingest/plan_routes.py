"""Routes from sources to the inflows of the active plans that import a stream."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.inflows.inflow import Inflow
from cep_worker.ingest.routing import Route
from cep_worker.ingest.tenant_limits import RateLimit, TenantLimits
from cep_worker.plans.streams import EventStream
from cep_worker.serving.served_plans import ServedPlans


class PlanRoutes:
    """Makes routes to the plans that the worker serves. Belongs to the data thread."""

    def __init__(self, served: ServedPlans, limits: TenantLimits, monotonic_ms: Callable[[], int]) -> None:
        self._served = served
        self._limits = limits
        self._monotonic_ms = monotonic_ms

    def make(self, source: Hashable, offered: StreamSchema, stream: EventStream) -> Route:
        """Return a route with the tenant's rate limit to all active plans that import the stream.

        Raises:
            InputError: the stream no longer exists, no plan of it is active, or the attributes do not fit.
        """
        limit = self._limits.of(stream.tenant(), self._monotonic_ms())
        return Route(source, offered.attributes, self._inflows(stream), limit)

    def make_unlimited(self, source: Hashable, offered: StreamSchema, stream: EventStream) -> Route:
        """Return a route without a rate limit, for results of plans: the limit applied to their input.

        Raises:
            InputError: as for `make`.
        """
        return Route(source, offered.attributes, self._inflows(stream), RateLimit())

    def _inflows(self, stream: EventStream) -> list[Inflow]:
        name = stream.schema.stream
        try:
            inflows = [
                self._served.inflows[member.key, member.binding.stream]
                for member in stream.members
                if stream.carries or self._served.flows[member.key].plan.intake
            ]
        except KeyError as error:
            raise InputError("unknown-stream", f"{name} no longer exists: its plan has been undeployed") from error
        if not inflows:
            plans = ", ".join(sorted({member.key.plan for member in stream.members}))
            raise InputError(
                "inactive", f"{name} accepts no events now: {plans} was deactivated; send them again later"
            )
        return inflows
