"""A deployed plan as REST and console show it."""

from __future__ import annotations

import msgspec

from cep_common.protocol.registry import StreamBinding
from cep_manager.monitoring.status import PlanStatus


class PlanSummary(msgspec.Struct, frozen=True):
    """A deployed plan and its status. `topology` is its topology's name."""

    plan: str
    tenant: int
    topology: str
    description: str
    epoch: int
    created_ms: int
    updated_ms: int
    status: PlanStatus


class PlanDetails(msgspec.Struct, frozen=True):
    """A deployed plan with its text, sources and sinks (empty when its text no longer compiles)."""

    plan: str
    tenant: int
    topology: str
    description: str
    epoch: int
    created_ms: int
    updated_ms: int
    status: PlanStatus
    text: str
    imported: tuple[StreamBinding, ...]
    exported: tuple[StreamBinding, ...]
