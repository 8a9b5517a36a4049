"""State is measured when something may have changed it, and not each time that an idle task ticks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from topology.stages.tasks.instances import TaskInstances


class CountedProcessor:
    """A processor that counts what it is asked for."""

    def __init__(self) -> None:
        self.measured = self.stores_asked = 0

    def tell_of_stores(self) -> None:
        self.stores_asked += 1

    def measure(self) -> None:
        self.measured += 1


def test_state_is_measured_only_where_it_may_have_changed() -> None:
    processor = CountedProcessor()
    instances: Any = SimpleNamespace(processors=[processor])
    for level, changed in (("basic", True), ("basic", False), ("off", True), ("detail", True)):
        TaskInstances.measure(instances, level, changed=changed)  # type: ignore[arg-type]
    assert (processor.measured, processor.stores_asked) == (2, 4)
