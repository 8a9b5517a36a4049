"""A stage whose instances follow a load, without processes: what arrives, what waits, and who works how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from cep_manager.config import ScalingConfig
from cep_manager.plans.compiled_plan import ScaledStage
from cep_manager.plans.scaling import Scaling
from cep_manager.scaling.decision import StageLoad, decide

CAPACITY = 150_000.0
"""Events per second that one instance can process."""


class SimulatedStage:
    """Keys with `weights` are divided among the instances; each change costs `pause_ms` in which events wait."""

    def __init__(
        self, stage: ScaledStage, seed: int = 0, weights: Sequence[float] = (1.0,) * 24, pause_ms: int = 2_000
    ) -> None:
        self.stage = stage
        self.config = ScalingConfig()
        self.instances = stage.least
        self.room = stage.most
        self.history: list[Scaling] = []
        self.waiting: list[float] = [0.0] * len(weights)
        self.most_waiting = 0.0
        self.now_ms = 1_000_000
        self._random = Random(seed)  # noqa: S311 - noise
        self._share = [one / sum(weights) for one in weights]
        self._pause_ms = pause_ms
        self._paused_ms = 0
        self._loads: list[StageLoad] = []

    def run(self, seconds: float, rate: Callable[[float], float], noise: float = 0.0) -> None:
        """Let time pass; `rate` is the number of events per second at a time in this run."""
        began_ms = self.now_ms
        while self.now_ms < began_ms + seconds * 1_000:
            self.now_ms += self.config.interval_ms
            arriving = rate((self.now_ms - began_ms) / 1_000) * (1 + noise * self._random.uniform(-1, 1))
            self._step(arriving)
            self._look()

    def _step(self, arriving: float) -> None:
        length_s = self.config.interval_ms / 1_000
        working_s = max(0.0, length_s - self._paused_ms / 1_000)
        self._paused_ms = 0
        processed, busy = 0.0, []
        for instance in range(self.instances):
            keys = range(instance, len(self._share), self.instances)
            due = sum(self.waiting[key] + arriving * length_s * self._share[key] for key in keys)
            done = min(due, CAPACITY * working_s)
            for key in keys:
                own = self.waiting[key] + arriving * length_s * self._share[key]
                self.waiting[key] = own * (1 - done / due) if due else 0.0
            processed += done
            busy.append(min(1.0, done / (CAPACITY * length_s)))
        left = round(sum(self.waiting))
        self.most_waiting = max(self.most_waiting, left)
        self._loads.append(StageLoad(self.now_ms, self.config.interval_ms, tuple(busy), processed / length_s, left))
        del self._loads[: -self.config.shrink_after_ms // self.config.interval_ms - 1]

    def _look(self) -> None:
        decision = decide(self.stage, self.instances, self._loads, self.history, self.room, self.config, self.now_ms)
        if decision.instances != self.instances:
            self.history.append(
                Scaling(
                    self.now_ms,
                    self.stage.name,
                    self.instances,
                    decision.instances,
                    decision.events_per_s,
                    decision.reason,
                )
            )
            self.instances, self._loads, self._paused_ms = decision.instances, [], self._pause_ms
