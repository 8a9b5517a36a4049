"""The plans that a worker serves: deployed ones, and undeployed ones with outstanding results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from cep_common.ids import PlanKey
from cep_common.protocol.registry import DeployedPlan, PlanCheckpoints, RemovedPlan, StreamBinding
from cep_worker.inflows.inflow import Inflow
from cep_worker.outflows.consumers import Consumers
from cep_worker.serving.context import PlanContext
from cep_worker.serving.plan_flow import PlanFlow
from cep_worker.serving.plan_outflows import PlanOutflows

logger = logging.getLogger(__name__)

REST_MS = 10_000
"""The interval at which idle plans are ticked."""


class ServedPlans:
    """The flow of each plan.

    Belongs to the data thread.
    """

    def __init__(self, plan_context: PlanContext, consumers: Callable[[PlanKey], Consumers]) -> None:
        self._around = plan_context
        self._consumers = consumers
        self.flows: dict[PlanKey, PlanFlow] = {}
        """The flows of deployed plans."""
        self.inflows: dict[tuple[PlanKey, str], Inflow] = {}
        """Their inflows, by plan and stream."""
        self.stirred: dict[PlanFlow, None] = {}
        """The active flows: a thousand idle ones cost nothing."""
        self.changed: dict[PlanFlow, None] = {}
        """The flows whose status may have changed since it was collected."""
        self.served = 0
        """The number of calls of `apply`."""
        self._ending: dict[PlanKey, PlanFlow] = {}
        """The outflows of plans that are no longer deployed, which deliver outstanding results."""
        self._checkpoints: dict[PlanKey, tuple[PlanCheckpoints, ...]] = {}
        self._all_due_ms = 0
        self._kept: frozenset[PlanKey] = frozenset()
        """Plans that are deployed but cannot run now."""

    def apply(
        self,
        plans: tuple[DeployedPlan, ...],
        now_ms: int,
        kept: tuple[PlanKey, ...] = (),
        removed: tuple[RemovedPlan, ...] = (),
    ) -> None:
        """Serve exactly `plans`.

        Files of plans in `kept`, which cannot run now, stay. Plans in `removed`, which users have undeployed, are
        ended. Data of other missing plans is orphaned.
        """
        self.served += 1
        self._kept = frozenset(kept)
        self._around.wal.note_removed(removed)
        undeployed = {(one.key, one.deployed_ms) for one in removed}
        wanted = {plan.key: plan for plan in plans}
        for key in [key for key in self.flows if key in self._kept]:
            logger.info("plan cannot run, its files are kept: plan=%s", key.topology())
            self._close(self.flows.pop(key))
        for key, flow in [(key, flow) for key, flow in self.flows.items() if key not in wanted]:
            if (key, flow.plan.deployed_ms) not in undeployed:
                logger.error("plan is missing and was not undeployed: plan=%s", key.topology())
                self._close(self.flows.pop(key))
        for key in [key for key, flow in self.flows.items() if not _goes_on(flow.plan, wanted.get(key))]:
            logger.info("plan ended: plan=%s", key.topology())
            ending = self._ending[key] = self.flows.pop(key)
            ending.close_inflows()
            ending.outflows.end(now_ms)
        self._keep_logs(
            (plan.key, binding.stream)
            for plan in plans
            if plan.key in self.flows or plan.key not in self._ending
            for binding in (*plan.imported, *self._imported(plan.key))
        )
        for key, plan in wanted.items():
            self._serve(key, plan, now_ms)
        self.inflows = {
            (key, stream): inflow for key, flow in self.flows.items() for stream, inflow in flow.inflows.items()
        }
        self._keep_logs(place for place, inflow in self.inflows.items() if inflow.logged)
        self._finish_ended(now_ms)
        self._around.prepared.keep_only(self.kept_keys(), {RemovedPlan(*plan) for plan in undeployed})

    def apply_checkpoints(self, checkpoints: tuple[PlanCheckpoints, ...]) -> None:
        """Commit or discard prepared results by the checkpoints of their plans, several of which may have one name."""
        self._checkpoints = {}
        for one in checkpoints:
            self._checkpoints[one.key] = (*self._checkpoints.get(one.key, ()), one)
        for key, of_name in self._checkpoints.items():
            flow = self.flows.get(key)
            if flow is not None:
                flow.outflows.apply_checkpoints(of_name)

    def tick(self, now_ms: int) -> bool:
        """Perform due tasks, and return whether an undeployed plan has ended."""
        rests = now_ms < self._all_due_ms
        if not rests:
            self._all_due_ms = now_ms + REST_MS
        for flow in list(self.stirred if rests else self._all()):
            flow.tick(now_ms)
            if flow.stirred:
                self._note_stirred(flow)
            else:
                self.stirred.pop(flow, None)
        return self._finish_ended(now_ms)

    def retry(self, now_ms: int) -> None:
        """Retry delivery to consumers that have room again."""
        for flow in list(self.stirred):
            flow.outflows.retry(now_ms)

    def keys(self) -> set[PlanKey]:
        """Return all plans with data here."""
        return {*self.flows, *self._ending}

    def kept_keys(self) -> set[PlanKey]:
        """Return all plans whose files stay on disk."""
        return self.keys() | self._kept

    def plans(self) -> list[DeployedPlan]:
        """Return the deployed plans."""
        return [flow.plan for flow in self.flows.values()]

    def exporting(self) -> list[DeployedPlan]:
        """Return the plans that have results, or may still get some."""
        return [flow.plan for flow in self._all()]

    def outflows(self) -> list[PlanOutflows]:
        """Return the outflows of all plans, including those that are being ended."""
        return [flow.outflows for flow in self._all()]

    def drained(self) -> bool:
        """Return whether all events of inflows with a link were sent and acknowledged."""
        return all(flow.drained() for flow in self.flows.values())

    def close(self) -> None:
        """Close everything; stored results stay on disk."""
        for flow in self.flows.values():
            flow.close_inflows()
        for outflow in self.outflows():
            outflow.close()

    def _note_stirred(self, flow: PlanFlow) -> None:
        self.stirred[flow] = self.changed[flow] = None

    def _close(self, flow: PlanFlow) -> None:
        """Stop serving the plan; stored results stay on disk."""
        flow.close_inflows()
        flow.outflows.close()
        self._forget(flow)

    def _forget(self, flow: PlanFlow) -> None:
        self.stirred.pop(flow, None)
        self.changed.pop(flow, None)

    def _serve(self, key: PlanKey, plan: DeployedPlan, now_ms: int) -> None:
        flow = self.flows.get(key)
        if flow is None:
            logger.info("plan starts: plan=%s epoch=%d", key.topology(), plan.epoch)
            former = self._ending.pop(key, None)
            outflows = None
            if former is not None:
                outflows = former.outflows
                self._forget(former)
            flow = PlanFlow(self._around, plan, self._consumers(key), now_ms, outflows, self._note_stirred)
            self.flows[key] = flow
            self._note_stirred(flow)
        else:
            self.flows[key] = self.flows.pop(key)  # under its present name
            flow.update(plan, now_ms)
        flow.outflows.apply_checkpoints(self._checkpoints.get(key, ()))

    def _keep_logs(self, wanted: Iterable[tuple[PlanKey, str]]) -> None:
        """Remove the logs of other streams; waiting events of a served plan are stored as failed."""
        served = {key: flow.plan.deployed_ms for key, flow in self.flows.items()}
        self._around.wal.keep_only(wanted, self._around.disk_sync, self._kept, self._around.failed, served)

    def _imported(self, key: PlanKey) -> tuple[StreamBinding, ...]:
        """Return the streams that the plan imported until now, whose inflows handle waiting events."""
        flow = self.flows.get(key)
        return flow.plan.imported if flow is not None else ()

    def _finish_ended(self, now_ms: int) -> bool:
        """End undeployed plans that have delivered their results, and return whether there were any."""
        if not self._ending:
            return False
        finished = [key for key, flow in self._ending.items() if flow.outflows.ended(now_ms)]
        for key in finished:
            flow = self._ending.pop(key)
            flow.outflows.discard()
            self._forget(flow)
        return bool(finished)

    def _all(self) -> Iterator[PlanFlow]:
        yield from (*self.flows.values(), *self._ending.values())


def _goes_on(former: DeployedPlan, following: DeployedPlan | None) -> bool:
    """Return whether both are versions of the same plan."""
    return following is not None and following.deployed_ms == former.deployed_ms
