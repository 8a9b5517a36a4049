"""Keeps the results of a publisher in order when its worker is replaced. Pure.

With exactly-once delivery a worker keeps results on its disk until their checkpoint is complete and their sinks have
them. While it is away it delivers nothing. Another worker would deliver later results before these: sinks would get
them out of order, and where a topic connects two groups of a plan, the second group would process them out of order.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import EndpointAssigned, Message, RegisterWorker, Rejected, RequestEndpoint
from cep_manager.control.deployment.deployments import PlanDeployments
from cep_manager.control.members import ClusterMember, ClusterMembers
from cep_manager.control.registry import EndpointRegistry

RETURN_MS = 20_000
"""How long a publisher waits for its former worker: a supervisor has started it again by then."""


class ResultOrder:
    """Asked before a publisher is assigned to a worker, and about the answer."""

    def __init__(self, deployments: PlanDeployments, members: ClusterMembers, registry: EndpointRegistry) -> None:
        self._deployments = deployments
        self._members = members
        self._registry = registry
        self._workers: dict[PlanKey, dict[str, str]] = {}
        """The worker that each publisher of a plan was assigned to last."""

    def follow(self, message: RequestEndpoint, now_ms: int) -> RequestEndpoint | Rejected:
        """Return the request, preferring the publisher's former worker while that has results of the plan.

        Returns:
            A refusal while that worker is away and may still return.
        """
        record = self._deployments.plans.get(message.key)
        compiled = record.compiled if record is not None else None
        if message.role != "worker" or compiled is None or compiled.delivery != "exactly-once":
            return message
        name = message.former or self._former(message)
        away = self._members.away_workers.get(name)
        member = self._members.live_by_name(now_ms).get(name)
        if member is None:
            silent = away or self._members.workers.get(name)
            may_return = silent is not None and now_ms - silent.heard_ms < RETURN_MS
            return _await(name, message.key) if may_return and _results(silent, message.key) else message
        results = _results(member, message.key)
        serves = self._registry.serves(name, message.key, message.epoch)
        if away is not None or results is None or not serves:
            # It has just returned: it registers for its plans once it has read what is on its disk.
            return message if member.up_ms(now_ms) >= RETURN_MS else _await(name, message.key)
        return msgspec.structs.replace(message, former=name) if results else message

    def assigned(self, message: RequestEndpoint, answer: Message) -> None:
        """Note which worker the publisher was assigned to."""
        if message.role == "worker" and isinstance(answer, EndpointAssigned):
            self._workers.setdefault(message.key, {})[message.requester] = answer.instance

    def keep(self, plans: Collection[PlanKey]) -> None:
        """Forget all plans except these."""
        self._workers = {key: found for key, found in self._workers.items() if key in plans}

    def _former(self, message: RequestEndpoint) -> str:
        """Return the worker that the publisher had, also before another manager led; nothing when it is not known."""
        noted = self._workers.get(message.key, {}).get(message.requester, "")
        if noted:
            return noted
        everyone = {**self._members.away_workers, **self._members.workers}
        return next(
            (
                name
                for name, member in everyone.items()
                for report in member.latest.plans
                if report.key == message.key and message.requester in report.publishers
            ),
            "",
        )


def _results(member: ClusterMember[RegisterWorker] | None, key: PlanKey) -> int | None:
    """Return how many results of the plan the worker holds; None when it does not serve the plan."""
    reports = [report for report in member.latest.plans if report.key == key] if member is not None else []
    return sum(report.prepared.events for report in reports if report.prepared is not None) if reports else None


def _await(worker: str, key: PlanKey) -> Rejected:
    reason = f"worker {worker} has results of {key.topology()} that come first, and may return; ask again"
    return Rejected(code="no-endpoint", reason=reason)
