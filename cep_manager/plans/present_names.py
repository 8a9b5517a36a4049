"""Plans in messages under the names that they have now. Pure.

Stages and drivers keep running while a plan is renamed, and report it under the name that it had when they started.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import RegisterDriver, RenamePlan, SavepointReport, TopologyReport
from cep_common.protocol.registry import Message, RegisterEndpoint, RegisterWorker, RequestEndpoint, WorkerPlanReport
from cep_common.protocol.tasks import RegisterTask
from cep_manager.plans.record import PlanRecord

_Keyed = TypeVar(
    "_Keyed",
    RegisterEndpoint,
    RequestEndpoint,
    RegisterTask,
    WorkerPlanReport,
    TopologyReport,
    SavepointReport,
)


def present_names(message: Message, plans: Mapping[PlanKey, PlanRecord]) -> Message:
    """Return the message with every plan under its present name."""
    match message:
        case RegisterEndpoint():
            return _named(message, plans)
        case RequestEndpoint():
            return _named(message, plans)
        case RegisterTask():
            return _named(message, plans)
        case RegisterWorker():
            return msgspec.structs.replace(message, plans=_all_named(message.plans, plans))
        case RegisterDriver():
            topologies = _all_named(message.topologies, plans)
            savepoints = _all_named(message.savepoints, plans)
            return msgspec.structs.replace(message, topologies=topologies, savepoints=savepoints)
    return message


def _all_named(reports: tuple[_Keyed, ...], plans: Mapping[PlanKey, PlanRecord]) -> tuple[_Keyed, ...]:
    """Return the reports under present names: the same object when all have them, as nearly always."""
    named = tuple(_named(one, plans) for one in reports)
    return reports if all(map(operator.is_, named, reports)) else named


def renames(driver: RegisterDriver, plans: Mapping[PlanKey, PlanRecord]) -> tuple[RenamePlan, ...]:
    """Return the renames to send to the driver for topologies that it knows under former names."""
    names = {one.key: one.key.plan for one in driver.topologies}
    known = ((plans[key].key, name) for key, name in names.items() if key in plans)
    return tuple(RenamePlan(key) for key, name in known if key.plan != name)


def _named(one: _Keyed, plans: Mapping[PlanKey, PlanRecord]) -> _Keyed:
    record = plans.get(one.key)
    if record is None or record.key.plan == one.key.plan:
        return one
    return msgspec.structs.replace(one, key=record.key)
