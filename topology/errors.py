"""Errors of topologies: a plan that cannot run here, or a stage that must stop."""

from __future__ import annotations

from cep_common.errors import CepError

STATE_UNREADABLE = "state-unreadable"


class TopologyError(CepError):
    """A topology that cannot be built or continue; `reason_code` is stable (`not-supported`, `stale-epoch`, …)."""

    code = "topology"

    def __init__(self, reason_code: str, message: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code
