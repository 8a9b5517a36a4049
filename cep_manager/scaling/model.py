"""The numbers of instances of a plan's scaled stages as REST and console show them."""

from __future__ import annotations

import msgspec

from cep_manager.plans.scaling import Scaling


class StageScaling(msgspec.Struct, frozen=True):
    """A stage that scales between `least` and `most` instances.

    `busiest` is the share of the last interval that its busiest instance spent working, None before it was measured.
    `decision` is the last one and why it was made; `wanted` is the number of instances without limits.
    """

    stage: str
    instances: int
    least: int
    most: int
    busiest: float | None
    events_per_s: float
    waiting: int
    wanted: int
    decision: str


class PlanScaling(msgspec.Struct, frozen=True):
    """The scaled stages of a plan, and the changes of their numbers of instances, newest first."""

    plan: str
    tenant: int
    stages: tuple[StageScaling, ...]
    history: tuple[Scaling, ...]
