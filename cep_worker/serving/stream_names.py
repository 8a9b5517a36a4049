"""The external names of plans and event streams, current and former."""

from __future__ import annotations

from collections.abc import Iterable

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.registry import DeployedPlan
from cep_worker.plans.streams import EventStream, PlanStream, StreamDirectory


class ServedNames:
    """The names of the deployed plans and of their streams.

    The data thread changes them by replacing whole tables, so that any thread may read.
    """

    def __init__(self) -> None:
        self.imported = StreamDirectory(None)
        self.exported = StreamDirectory(None)
        self._plans: dict[tuple[int, str], PlanKey] = {}
        """The deployed plans by tenant and name."""
        self._renamed: dict[tuple[int, str], str] = {}
        """The present names of plans by tenant and former name."""

    def deploy(self, plans: Iterable[DeployedPlan]) -> None:
        """Replace the deployed plans and their imported streams."""
        plans = tuple(plans)
        self._plans = {(plan.key.tenant, plan.key.plan): plan.key for plan in plans}
        self._renamed = {(plan.key.tenant, name): plan.key.plan for plan in plans for name in plan.former_names}
        imported = (PlanStream(plan.key, binding, plan.playback) for plan in plans for binding in plan.imported)
        self.imported = StreamDirectory(imported, self._renamed)

    def export(self, plans: Iterable[DeployedPlan]) -> None:
        """Replace the exported streams, those of plans that have results or may still get some."""
        exported = (PlanStream(plan.key, binding) for plan in plans for binding in plan.exported)
        self.exported = StreamDirectory(exported, self._renamed)

    def resolve(self, name: str, tenant: int) -> EventStream:
        """Return the imported event stream that the tenant refers to.

        Raises:
            InputError: no stream, or more than one, has the name.
        """
        return self.imported.resolve(name, tenant)

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        """Return the plan that has the name now.

        Raises:
            InputError: the name is a former name of a plan.
        """
        if present := self._renamed.get((tenant, name)):
            raise InputError("unknown-plan", f"plan {name} was renamed to {present}")
        return self._plans.get((tenant, name)) or PlanKey(tenant, name)
