"""Results of commands on plans, for REST and console."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey


class Outcome(msgspec.Struct, frozen=True):
    """The result of a command on a plan.

    `epoch` is the one that was counted for it, or the present one when nothing was `changed`, because all was as asked
    for already.
    """

    plan: str
    tenant: int
    topology: str
    epoch: int
    created: bool
    changed: bool
    message: str


class Undeployed(msgspec.Struct, frozen=True):
    """The result of undeploying a plan.

    A plan that is `draining` goes when its `waiting_events`, which workers accepted, are processed and its
    `waiting_results` delivered. Otherwise `discarded_events` were dropped, and `discarded_results` are dropped unless
    their sinks take them within 30 s.
    """

    plan: str
    tenant: int
    draining: bool
    waiting_events: int
    discarded_events: int
    message: str
    waiting_results: int = 0
    discarded_results: int = 0


def outcome_of(key: PlanKey, epoch: int, message: str, created: bool = False, changed: bool = False) -> Outcome:
    """Return the outcome of a command on the plan."""
    return Outcome(
        plan=key.plan,
        tenant=key.tenant,
        topology=key.topology(),
        epoch=epoch,
        created=created,
        changed=changed,
        message=message,
    )
