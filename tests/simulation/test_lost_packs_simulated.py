"""Exactly-once results come once although the newest packs of chunks are lost while the topology dies."""

from __future__ import annotations

import pytest
from simulated_files import FileFaultWorld, simulate

LOST_MS = 3_500


class LostPacksWorld(FileFaultWorld):
    """The only faults: the first copies of the newest two packs are removed, and a task is killed."""

    def _begin(self, seed: int) -> None:
        self.lost: list[str] = []
        super()._begin(seed)
        self.later(LOST_MS, self._lose_packs)

    def _fault(self) -> None:
        """Nothing else happens."""

    def _damage(self) -> None:
        """Nothing else is damaged."""

    def _lose_packs(self) -> None:
        self.lost = sorted(name for name in self.blobs.kept if "/packs/" in name and "/copies/" not in name)[-2:]
        for name in self.lost:
            self.note("lost: %s", name)
            del self.blobs.kept[name]
        self._kill_task()


@pytest.mark.parametrize("seed", [7, 9, 10, 36, 58, 73])
def test_no_result_takes_effect_twice(seed: int) -> None:
    world = LostPacksWorld(seed)
    assert world.exactly_once
    simulate(world)
    assert world.lost
    assert set(world.released.values()) == {1}
