"""Tracks which attempt of each topology runs: members of earlier attempts are refused. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Rejected


@dataclass(slots=True)
class Attempts:
    """The newest known attempt by plan and epoch, reported by the driver or by the topology itself.

    A manager that has just started learns them from what registers.
    """

    _newest: dict[PlanKey, dict[int, int]] = field(default_factory=dict)

    def heard(self, key: PlanKey, epoch: int, attempt: int) -> bool:
        """Return whether `attempt` takes the place of an earlier one that was known."""
        of_plan = self._newest.setdefault(key, {})
        before = of_plan.get(epoch)
        of_plan[epoch] = attempt if before is None else max(before, attempt)
        return before is not None and attempt > before

    def refuse(self, key: PlanKey, epoch: int, attempt: int) -> Rejected | None:
        """Return the refusal for a member of an earlier attempt; None for everything else."""
        newest = self._newest.get(key, {}).get(epoch, attempt)
        if attempt >= newest:
            return None
        run = f"epoch {epoch} of {key.topology()}"
        return Rejected("stale-epoch", f"attempt {attempt} of {run} is over, the current one is {newest}")

    def keep(self, key: PlanKey, epochs: Collection[int]) -> None:
        """Remove all epochs of the plan except these."""
        kept = {epoch: attempt for epoch, attempt in self._newest.pop(key, {}).items() if epoch in epochs}
        if kept:
            self._newest[key] = kept
