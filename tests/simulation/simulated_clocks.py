"""The delivery of events while clocks are wrong: processes start when theirs is hours or years off, and others not."""

from __future__ import annotations

from simulated_delivery import FAULTS_UNTIL_MS, DeliveryWorld

HOUR_MS = 3_600_000
ERRORS_MS = (10 * HOUR_MS, -10 * HOUR_MS, 87_600 * HOUR_MS)


class WrongClocksWorld(DeliveryWorld):
    """Half of the processes that start before faults end have a clock that is wrong, and some die."""

    def _begin(self, seed: int) -> None:
        super()._begin(seed)
        for _ in range(self.chance.randrange(1, 4)):
            self.later(
                self.chance.randrange(800, FAULTS_UNTIL_MS),
                self.chance.choice((self._kill_task, self._kill_worker, self._kill_driver)),
            )

    def clock_error_ms(self) -> int:
        if self.now_ms >= FAULTS_UNTIL_MS or self.chance.random() < 0.5:
            return 0
        error_ms = self.chance.choice(ERRORS_MS)
        self.note("a clock is wrong by %d ms", error_ms)
        return error_ms
