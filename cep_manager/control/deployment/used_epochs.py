"""Epochs that were used before, by a database that was replaced: which a plan must leave out. Pure.

Workers keep results, and refuse publishers, by epoch: under one that another plan of the name had, or the plan itself
before its database was replaced by an older copy, new results would be taken for those that already exist.
"""

from __future__ import annotations

from collections.abc import Iterable

from cep_common.protocol.drivers import TopologyReport
from cep_manager.plans.record import PlanRecord


def least_epoch(record: PlanRecord, topologies: Iterable[TopologyReport], needed: int) -> int:
    """Return the minimum to which the epoch counter of the plan must have advanced; 0 if any value will do.

    Args:
        record: The plan.
        topologies: The driver's topologies of the plan.
        needed: The minimum epoch that workers need for it.
    """
    used = (one.epoch if record.owns(one) else one.epoch + 1 for one in topologies)
    return max(needed, max(used, default=0))
