"""Clocks that are wrong for a while under the processes of a running system, and right again."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from chaos_faults import Do, Fault
from chaos_system import ChaosSystem

HOUR_MS = 3_600_000
SHIFTS: Mapping[str, int] = {
    "10 h ahead": 10 * HOUR_MS, "10 h behind": -10 * HOUR_MS, "10 years ahead": 87_600 * HOUR_MS,
}  # fmt: skip
WRONG_S = (2.0, 8.0)
"""Less than processes hold their time against a clock that jumps."""
ROLES = ("manager", "driver", "worker", "executor")


def _shifted(role: str, shift_ms: int) -> Do:
    def do(system: ChaosSystem, chance: random.Random) -> str:
        name = chance.choice(system.clocks.names(role))
        system.clocks.set(name, shift_ms)
        time.sleep(chance.uniform(*WRONG_S))
        system.clocks.set(name, 0)
        return name

    return do


CLOCK_FAULTS = tuple(
    Fault(f"clock of {role} {what}", _shifted(role, shift_ms)) for what, shift_ms in SHIFTS.items() for role in ROLES
)
