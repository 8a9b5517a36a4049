"""What the control loop gets of a stored plan."""

from __future__ import annotations

import msgspec

from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.record import PlanToRun
from cep_manager.plans.store import StoredPlan, StoredVersion


def plan_to_run(stored: StoredPlan, compiled: CompiledPlan | str, sent_before: bool = False) -> PlanToRun:
    """Return the stored plan in the form that the control loop takes."""
    return PlanToRun(
        key=stored.key,
        text=stored.text,
        compiled=compiled,
        epoch=stored.epoch,
        created_ms=stored.created_ms,
        updated_ms=stored.updated_ms,
        sent_before=sent_before,
        intake=stored.intake,
        workers=stored.workers,
        host=stored.host,
        origin=stored.origin,
        trace=stored.trace,
        statistics=stored.statistics,
        change=stored.change,
        restore=stored.restore,
        restore_epoch=stored.restore_epoch,
        counted=stored.counted,
        draining=stored.draining,
        former_names=stored.former_names,
    )


def former_to_run(stored: StoredPlan, former: StoredVersion, compiled: CompiledPlan | str) -> PlanToRun:
    """Return the plan as it was before a change that an earlier manager process began."""
    before = msgspec.structs.replace(stored, **msgspec.structs.asdict(former), change=None, former=None)
    before = msgspec.structs.replace(before, restore="", restore_epoch=0)
    return plan_to_run(before, compiled, sent_before=True)
