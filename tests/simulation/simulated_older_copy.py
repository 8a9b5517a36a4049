"""The delivery of events when the manager's database is replaced by an older copy of itself while the plan runs.

Epochs that were given out already are counted a second time, unless driver and workers tell of them in time.
"""

from __future__ import annotations

from simulated_delivery import FAULTS_UNTIL_MS, DeliveryWorld

TOLD_MS = 3_000
"""For so long before and after the copy is brought back the driver lives: it can tell which epochs that lacks."""


class OlderCopyWorld(DeliveryWorld):
    """A plan that was restarted some times, and then the manager knows of none, or not of all."""

    def _begin(self, seed: int) -> None:
        super()._begin(seed)
        self.replaced_ms = self.chance.randrange(2_000, FAULTS_UNTIL_MS)
        for _ in range(self.chance.randrange(1, 4)):
            self.later(self.chance.randrange(800, self.replaced_ms), self._restart_plan)
        self.later(self.replaced_ms, self._replace_database)

    def _replace_database(self) -> None:
        self.epoch = self.chance.randrange(1, self.epoch + 1)
        self.note("the database is an older copy, which has counted %d epochs", self.epoch)
        self.plane = self._new_plane(sent_before=True)

    def _kill_driver(self) -> None:
        if abs(self.now_ms - self.replaced_ms) > TOLD_MS:
            super()._kill_driver()
