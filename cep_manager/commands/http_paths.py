"""Checks the paths of `http` sources before a plan is deployed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from cep_common.ids import PlanKey
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import PlanInvalidError, PlanProblem
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.record import PlanRecord
from query_plan.connectors.http_paths import Place, path_faults, source_place


class TakenPaths:
    """The paths of the sources of all plans in a snapshot, for callers that need many of them."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._built_in = _built_in(snapshot)
        self._holders: dict[Place, dict[PlanKey, PlanRecord]] = {}
        for key, record in snapshot.plans.items():
            if record.compiled is not None:
                for place in self._places(key, record.compiled):
                    self._holders.setdefault(place, {})[key] = record

    def refuse(self, key: PlanKey, compiled: CompiledPlan) -> None:
        """Do as `refuse_paths`."""
        near: dict[PlanKey, PlanRecord] = {}
        for place in self._places(key, compiled):
            near |= self._holders.get(place, {})
        refuse_paths(msgspec.structs.replace(self._snapshot, plans=near), key, compiled)

    def _places(self, key: PlanKey, compiled: CompiledPlan) -> Iterator[Place]:
        found = (source_place(source, key, self._built_in) for source in compiled.sources)
        return (place for place in found if place is not None)


def refuse_paths(snapshot: ClusterSnapshot, key: PlanKey, compiled: CompiledPlan) -> None:
    """Raise PlanInvalidError when an `http` source of the plan uses a path that it may not have.

    Such a path is outside the plan's own, or another plan uses it. `key` has the name under which the plan is
    deployed.
    """
    others = (
        (other, record.compiled.sources)
        for other, record in snapshot.plans.items()
        if other != key and record.compiled is not None
    )
    found = tuple(
        PlanProblem(
            code="path-taken",
            message=f"@source(type='http') of {source.stream}: receiver.url: {reason}",
            hint="without receiver.url a source has a path of its plan's own",
            line=1, column=1, end_line=1, end_column=1, rendered=f"error: {source.stream}: {reason} [path-taken]",
        )
        for source, reason in path_faults(key, compiled.sources, compiled.imported, others, _built_in(snapshot))
    )  # fmt: skip
    if found:
        raise PlanInvalidError(found)


def _built_in(snapshot: ClusterSnapshot) -> set[str]:
    """Return the addresses of workers' own servers."""
    return {urlsplit(worker.latest.http_address).netloc for worker in snapshot.live_workers()}
