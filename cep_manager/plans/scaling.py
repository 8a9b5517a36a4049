"""A change of a stage's number of instances, as it is recorded. Data alone."""

from __future__ import annotations

import msgspec


class Scaling(msgspec.Struct, frozen=True):
    """At `at_ms`, a time of day, `stage` was given another number of instances, for this `reason`.

    `events_per_s` is what its former instances processed together then. `problem` says why the plan has kept its former
    instances; empty: it has not.
    """

    at_ms: int
    stage: str
    instances_before: int
    instances_after: int
    events_per_s: float
    reason: str
    problem: str = ""
