"""Heartbeats of idle plans: their stage hosts say once for all of them that nothing has changed. Pure."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_common.lease import AdaptiveLease
from cep_common.protocol.tasks import RefreshedTask, RefreshTasks, RegisterTask, TasksRefreshed
from cep_manager.control.deployment.deployments import PlanDeployments
from cep_manager.control.members import ClusterMembers
from cep_manager.control.registry import FORGET_AFTER_LEASES, EndpointRegistry
from cep_manager.history.samples import Samples
from cep_manager.plans.record import PlanRecord


class TaskRefreshes:
    """Renews the leases of tasks and receivers, and has those register that the manager has something to say to."""

    def __init__(
        self,
        deployments: PlanDeployments,
        members: ClusterMembers,
        registry: EndpointRegistry,
        samples: Samples,
        delays: AdaptiveLease,
    ) -> None:
        self._deployments = deployments
        self._members = members
        self._registry = registry
        self._samples = samples
        self._delays = delays
        self._hosts: dict[str, tuple[int, tuple[RefreshedTask, ...]]] = {}
        self._heard_ms: dict[str, int] = {}
        self._answered: dict[tuple[PlanKey, int, int], PlanRecord] = {}
        """The record of its plan from which each task was answered when it registered last."""
        self._receivers: dict[tuple[PlanKey, int], int] = {}
        """How many receivers of a run are known."""

    def registered(self, task: RegisterTask, record: PlanRecord) -> None:
        """Record the answer that a task of a stage host got when it registered."""
        if task.stage_host:
            self._answered[task.key, task.epoch, task.task] = record

    def refresh(self, message: RefreshTasks, heartbeat_ms: int, lease_ms: int, now_ms: int) -> TasksRefreshed:
        """Return which tasks must register, having renewed the leases of all others."""
        if message.tasks:
            self._hosts[message.stage_host] = message.version, message.tasks
        version, tasks = self._hosts.get(message.stage_host, (0, ()))
        if version != message.version:
            return TasksRefreshed(heartbeat_ms, lease_ms, known=False)
        before_ms = self._heard_ms.get(message.stage_host)
        if before_ms is not None:
            self._delays.heard(now_ms - before_ms, now_ms)
        self._heard_ms[message.stage_host] = now_ms
        again = tuple(place for place, task in enumerate(tasks) if not self._renew(task, now_ms))
        return TasksRefreshed(heartbeat_ms, lease_ms, again=again)

    def forget_silent(self, now_ms: int, lease_ms: int) -> None:
        """Remove stage hosts that were silent for several leases, and responses of tasks that no longer exist."""
        for host in [
            one for one, heard_ms in self._heard_ms.items() if now_ms - heard_ms >= FORGET_AFTER_LEASES * lease_ms
        ]:
            del self._heard_ms[host]
            for one in self._hosts.pop(host, (0, ()))[1]:
                self._answered.pop((one.key, one.epoch, one.task), None)
        tasks = self._members.tasks
        for key, epoch, task in [one for one in self._answered if one[1:] not in tasks.get(one[0], {})]:
            del self._answered[key, epoch, task]
        for key, epoch in [one for one in self._receivers if one[0] not in tasks]:
            del self._receivers[key, epoch]

    def _renew(self, task: RefreshedTask, now_ms: int) -> bool:
        """Renew the lease of a task whose registration is unchanged and for which there is no new information."""
        record = self._deployments.plans.get(task.key)
        name = task.key, task.epoch, task.task
        answered = self._answered.get(name)
        if record is None or answered is None:
            return False
        if record is not answered:
            if _answer_of(record) != _answer_of(answered):
                return False
            self._answered[name] = record
        # During a change, each step waits for what the tasks report.
        if record.trial is not None or record.rests:
            return False
        if self._samples.orders(task.key, now_ms):
            return False
        if not self._members.renew_task(task.key, task.epoch, task.task, task.attempt, now_ms):
            return False
        receivers, run = self._registry.renew_receivers(task.key, task.epoch, now_ms), (task.key, task.epoch)
        most = self._receivers.get(run, 0)
        if receivers > most:
            most = self._receivers[run] = receivers
        # A receiver that was forgotten is registered by its task alone.
        return receivers == most


def _answer_of(record: PlanRecord) -> tuple[object, ...]:
    """Return what the answer to a task's registration takes from its plan.

    The plan's state is not in it: a late heartbeat changes that, and a task that had to register in full because of it
    would delay others further.
    """
    return record.statistics_level(), record.released
