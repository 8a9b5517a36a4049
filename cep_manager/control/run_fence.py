"""Decides which processes may act for a plan's topology: remains of ended runs are refused or shut down. Pure."""

from __future__ import annotations

from collections.abc import Collection

from cep_common.ids import PlanKey
from cep_common.protocol.registry import EndpointRegistered, Message, RegisterEndpoint, Rejected, RequestEndpoint
from cep_common.protocol.tasks import RegisterTask, TaskRegistered
from cep_manager.control.attempts import Attempts
from cep_manager.control.deployment.deployments import RUNS, PlanDeployments
from cep_manager.control.members import ClusterMembers
from cep_manager.control.registry import EndpointRegistry


class RunFence:
    """Asked before a message of a topology, or about one, is handled.

    Workers speak for epochs, a topology's own stages for one attempt of theirs.
    """

    def __init__(
        self,
        deployments: PlanDeployments,
        members: ClusterMembers,
        registry: EndpointRegistry,
        heartbeat_ms: int,
        lease_ms: int,
    ) -> None:
        self._deployments = deployments
        self._members = members
        self._registry = registry
        self._heartbeat_ms = heartbeat_ms
        self._lease_ms = lease_ms
        self._attempts = Attempts()

    def farewell(self, message: Message, now_ms: int) -> Message | None:
        """Return the answer to a stage of a former epoch that the driver still has to end.

        Such a stage may take its last checkpoint but is no longer registered, even if it has transferred its state.
        None for every other sender.
        """
        match message:
            case RegisterTask(state_transfer="") | RegisterEndpoint(role="receiver") | RequestEndpoint(role="worker"):
                pass
            case _:
                return None
        if self.refuse_epoch(message) is None:
            return None
        driver = self._members.live_driver(now_ms)
        listed = driver.latest.topologies if driver is not None else ()
        # The driver no longer runs that epoch: nothing is left to take a last checkpoint, so the usual refusal applies.
        if not any(report.epoch == message.epoch and report.key == message.key for report in listed):
            return None
        match message:
            case RegisterTask():
                record = self._deployments.plans.get(message.key)
                level = record.statistics_level() if record is not None else "basic"
                # Accepted but not recorded: a refusal would make the stage end before its last checkpoint.
                return TaskRegistered(self._heartbeat_ms, self._lease_ms, statistics=level)
            case RegisterEndpoint():
                return EndpointRegistered(self._heartbeat_ms, self._lease_ms)
            case _:
                return Rejected("no-endpoint", f"epoch {message.epoch} of {message.key.topology()} is being ended")

    def refuse_run(self, message: RegisterEndpoint | RequestEndpoint | RegisterTask) -> Rejected | None:
        """Return the refusal for a remaining process of an earlier run of a topology.

        A new one takes the place of the one before.
        """
        refusal = self.refuse_epoch(message) or self._attempts.refuse(message.key, message.epoch, message.attempt)
        if refusal is None:
            self.attempt_heard(message.key, message.epoch, message.attempt)
        return refusal

    def attempt_heard(self, key: PlanKey, epoch: int, attempt: int) -> None:
        """Remove the tasks and receivers of earlier attempts when a new one reports.

        Their reports say nothing about the tasks that start now.
        """
        if self._attempts.heard(key, epoch, attempt):
            # Spark has restarted the topology under the same epoch. Reports of the earlier attempt would make the plan
            # look complete before its new tasks have registered.
            self._members.forget_tasks(key, (epoch,))
            self._registry.forget_receivers(key, epoch)

    def refuse_epoch(self, message: RegisterEndpoint | RequestEndpoint | RegisterTask) -> Rejected | None:
        """Return the refusal for a process of a plan that is not deployed, or of an epoch that does not run."""
        key, epoch = message.key, message.epoch
        record = self._deployments.plans.get(key)
        if record is None:
            return Rejected(code="unknown-plan", reason=f"{key.topology()} is not deployed")
        # During a change two epochs are current: the one that runs and the one on trial.
        if epoch in record.epochs():
            return None
        if epoch < max(record.epochs()):
            reason = f"epoch {epoch} of {key.topology()} is over, the current one is {record.epoch}"
            return Rejected(code="stale-epoch", reason=reason)
        reason = f"epoch {epoch} of {key.topology()} was never assigned, the current one is {record.epoch}"
        return Rejected(code="unknown-epoch", reason=reason)

    def await_receivers(self, message: RequestEndpoint, now_ms: int) -> Rejected | None:
        """Refuse to assign receivers of a starting topology until all of them are known.

        Otherwise the first to register would get every worker, though one on a worker's own host is about to come.
        """
        record = self._deployments.plans[message.key]
        runs = message.epoch == record.epoch and record.state in RUNS
        # A topology that has run for a lease is past its start: a receiver that is missing now has been lost, and
        # workers must not wait for it.
        if message.role != "receiver" or (runs and now_ms - record.state_since_ms >= self._lease_ms):
            return None
        version = record.version() if message.epoch == record.epoch or record.trial is None else record.trial.version
        expected = version.compiled.receiver_instances() if version is not None else 0
        known = self._registry.receivers(message.key, message.epoch)
        if known >= expected:
            return None
        reason = f"{known} of {expected} receivers of {message.key.topology()} have registered; ask again"
        return Rejected(code="no-endpoint", reason=reason)

    def keep(self, key: PlanKey, epochs: Collection[int]) -> None:
        """Remove all epochs of the plan except these."""
        self._attempts.keep(key, epochs)
