"""Epochs that were given out before, by a database that was replaced: which a plan must leave out. Pure.

Workers keep results, and refuse publishers, by epoch: under one that another plan of the name had, or the plan itself
before its database was replaced by an older copy, new results would be taken for those that are there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep_common.driver_messages import TopologyReport
from cep_common.messages import WorkerPlanReport
from cep_manager.plans.record import PlanRecord


def least_epoch(record: PlanRecord, topologies: Iterable[TopologyReport], served: Iterable[WorkerPlanReport]) -> int:
    """The plan's database must have counted this far; 0: any count will do. So say `topologies`, which the driver has,
    and `served`, what workers do for plans."""
    return max(_least_epochs(record, topologies, served), default=0)


def _least_epochs(
    record: PlanRecord, topologies: Iterable[TopologyReport], served: Iterable[WorkerPlanReport]
) -> Iterator[int]:
    for topology in topologies:
        if topology.key == record.key:
            yield topology.epoch if record.owns(topology) else topology.epoch + 1
    for report in served:
        if report.key == record.key:
            yield report.needs_epoch
