"""Paths of sources `http` that a plan may not have, told before it is deployed. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from cep_common.ids import PlanKey
from cep_manager.compiled_plan import CompiledPlan, PlanProblem
from cep_manager.errors import PlanInvalidError
from cep_manager.snapshot import Snapshot
from query_plan.connectors.http_paths import path_faults


def refuse_paths(snapshot: Snapshot, key: PlanKey, compiled: CompiledPlan) -> None:
    """Raise PlanInvalidError when a source of the plan would take events at a path that is not its own, or another plan
    has. `key` has the name that the plan gets."""
    others = (
        (other, record.compiled.sources)
        for other, record in snapshot.plans.items()
        if other != key and record.compiled is not None
    )
    built_in = {urlsplit(worker.latest.http_address).netloc for worker in snapshot.live_workers()}
    found = tuple(
        PlanProblem(
            code="path-taken",
            message=f"@source(type='http') of {source.stream}: receiver.url: {reason}",
            hint="without receiver.url a source has a path of its plan's own",
            line=1, column=1, end_line=1, end_column=1, rendered=f"error: {source.stream}: {reason} [path-taken]",
        )
        for source, reason in path_faults(key, compiled.sources, compiled.imported, others, built_in)
    )  # fmt: skip
    if found:
        raise PlanInvalidError(found)
