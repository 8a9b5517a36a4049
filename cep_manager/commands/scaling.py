"""Scales stages of plans by their load."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

import msgspec

from cep_common.clock import Clock
from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.config import ScalingConfig
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import ChangeUnderWayError
from cep_manager.plans.compiled_plan import CompiledPlan, ScaledStage
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.scaling import Scaling
from cep_manager.plans.state import PlanState
from cep_manager.scaling.decision import ScalingDecision, StageLoad, decide
from cep_manager.scaling.load_meter import LoadMeter
from cep_manager.scaling.model import PlanScaling, StageScaling

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

NOT_ACTIVE = "it is not active"
BEING_CHANGED = "the plan is being changed"
NO_STATISTICS = "its load is not measured: statistics of the plan are off"
NOT_LOOKED = "its load has not been measured yet"


class PlanScaler:
    """Scales plans while this manager leads. `view` may be called by any thread."""

    def __init__(self, changes: PlanChanges, config: ScalingConfig, clock: Clock) -> None:
        self._changes = changes
        self._config = config
        self._clock = clock
        self._meter = LoadMeter(max(config.grow_after_ms, config.shrink_after_ms) + config.interval_ms)
        self._history: dict[PlanKey, list[Scaling]] = {}
        self._deployed: dict[PlanKey, int] = {}
        """When the plans of the histories were deployed: one may be undeployed and deployed again between two looks."""
        self._seen: dict[PlanKey, tuple[StageScaling, ...]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plan-scaler", daemon=True)

    def start(self) -> None:
        """Scale from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def view(self, key: PlanKey) -> PlanScaling:
        """Return the scaled stages of the plan and their history; nothing of a plan without any.

        Raises UnknownPlanError, PlanStoreError.
        """
        record = self._changes.record(key)
        scaled = record.compiled.scaled if record.compiled is not None else ()
        known = {(one.stage, one.instances): one for one in self._seen.get(key, ())}
        present = {one.name: (one.name, _instances(record.compiled, one)) for one in scaled if record.compiled}
        stages = tuple(known.get(present[one.name]) or _unmeasured(record, one, NOT_LOOKED) for one in scaled)
        history: Sequence[Scaling] = ()
        if scaled:
            known_history = self._history.get(key)
            history = self._changes.store.scalings(key) if known_history is None else list(known_history)
        return PlanScaling(key.plan, key.tenant, stages, tuple(reversed(history)))

    def _run(self) -> None:
        while not self._stopping.wait(self._config.interval_ms / 1_000):
            try:
                self.look()
            except Exception:
                # outermost frame of the thread: plans are checked again at the next interval
                paced_logger.exception("plans not scaled")

    def look(self) -> None:
        """Measure all scaled plans, and change the numbers of instances that their loads require."""
        snapshot = self._changes.service.led()
        scaling = [one for one in snapshot.plans.values() if _scales(one)] if snapshot is not None else []
        keys = {one.key for one in scaling}
        self._meter.keep(keys)
        gone = self._history.keys() | self._seen.keys()
        gone -= {one.key for one in scaling if self._deployed.get(one.key) == one.stored.created_ms}
        for key in gone:
            self._history.pop(key, None)
            self._seen.pop(key, None)
        self._deployed = {one.key: one.stored.created_ms for one in scaling}
        for record in scaling:
            assert snapshot is not None  # noqa: S101 - for mypy: there are plans
            try:
                self._look_at(snapshot, record)
            except CepError as error:  # the store is unavailable, or the plan is being changed
                paced_logger.problem(record.key.topology(), "plan not scaled plan=%s: %s", record.key, error.message)
            except Exception:  # a fault in one plan must not keep the others from being scaled
                paced_logger.exception("plan not scaled plan=%s", record.key)

    def _look_at(self, snapshot: ClusterSnapshot, record: PlanRecord) -> None:
        key, compiled = record.key, record.compiled
        assert compiled is not None  # noqa: S101 - for mypy: see _scales
        history = self._history.get(key)
        if history is None:
            history = self._history[key] = list(self._changes.store.scalings(key))
        if (reason := _rests(record)) != "":
            self._meter.forget(key)
            self._seen[key] = tuple(_unmeasured(record, one, reason) for one in compiled.scaled)
            return
        self._note_failed(record, compiled, history)
        now_ms = self._clock.now_ms()
        ahead_ms = now_ms - self._clock.monotonic_ms()
        decided: dict[str, ScalingDecision] = {}
        seen: list[StageScaling] = []
        for stage in compiled.scaled:
            instances = _instances(compiled, stage)
            loads = self._meter.measure(snapshot, record, stage.name, instances, ahead_ms)
            past = [one for one in history if one.stage == stage.name]
            room = _room(snapshot, record, stage)
            decision = decide(stage, instances, loads, past, room, self._config, now_ms)
            seen.append(_measured(stage, instances, loads, decision))
            if decision.instances != instances:
                decided[stage.name] = decision
        self._seen[key] = tuple(seen)
        if decided:
            self._scale(record, compiled, decided, now_ms)

    def _scale(
        self, record: PlanRecord, compiled: CompiledPlan, decided: Mapping[str, ScalingDecision], now_ms: int
    ) -> None:
        key = record.key
        now = {one.name: _instances(compiled, one) for one in compiled.scaled}
        wanted = now | {name: decision.instances for name, decision in decided.items()}
        problem = ""
        try:
            self._changes.scale(key, record.epoch, wanted)
        except ChangeUnderWayError:  # a user was faster: what the plan needs after that is decided then
            raise
        except CepError as error:
            problem = error.message
        scalings = [
            Scaling(now_ms, name, now[name], one.instances, round(one.events_per_s, 1), one.reason, problem)
            for name, one in decided.items()
        ]
        for one in scalings:
            what = f"plan={key.topology()} stage={one.stage} instances={one.instances_before}→{one.instances_after}"
            if problem:
                logger.warning("stage not scaled %s reason=%r problem=%r", what, one.reason, problem)
            else:
                logger.info("stage scaled %s reason=%r", what, one.reason)
        self._history[key] += scalings
        self._changes.store.note_scalings(key, scalings)

    def _note_failed(self, record: PlanRecord, compiled: CompiledPlan, history: list[Scaling]) -> None:
        """Record that the last change failed and the plan has its former instances again."""
        if not record.change_error or not history or history[-1].problem:
            return
        at_ms = history[-1].at_ms
        number = {one.name: _instances(compiled, one) for one in compiled.scaled}
        last = [place for place, one in enumerate(history) if one.at_ms == at_ms]
        if all(number.get(history[place].stage) == history[place].instances_before for place in last):
            for place in last:
                history[place] = msgspec.structs.replace(history[place], problem=record.change_error)
            self._changes.store.note_scaling_problem(record.key, at_ms, record.change_error)


def _scales(record: PlanRecord) -> bool:
    return record.compiled is not None and bool(record.compiled.scaled)


def _rests(record: PlanRecord) -> str:
    """Return why the plan is not scaled now; empty: it is."""
    if record.change() is not None or record.draining is not None:
        return BEING_CHANGED
    if record.state is not PlanState.ACTIVE:
        return NOT_ACTIVE
    return NO_STATISTICS if record.statistics_level() == "off" else ""


def _instances(compiled: CompiledPlan, stage: ScaledStage) -> int:
    return next(one.parallel for one in compiled.components if one.name == stage.name)


def _room(snapshot: ClusterSnapshot, record: PlanRecord, stage: ScaledStage) -> int:
    """Return the largest number of instances for which there are slots, those of the plan itself included."""
    compiled, driver = record.compiled, snapshot.driver
    if driver is None or compiled is None or record.stored.workers or compiled.workers:
        return stage.most  # a fixed number of workers runs any number of instances
    slots = driver.latest
    return min(slots.slots_total, slots.slots_free + record.slots) // compiled.cores


def _measured(stage: ScaledStage, instances: int, loads: list[StageLoad], decision: ScalingDecision) -> StageScaling:
    last = loads[-1] if loads else None
    return StageScaling(
        stage=stage.name,
        instances=instances,
        least=stage.least,
        most=stage.most,
        busiest=round(max(last.busy), 3) if last is not None else None,
        events_per_s=round(last.events_per_s, 1) if last is not None else 0.0,
        waiting=last.waiting if last is not None else 0,
        wanted=decision.wanted,
        decision=decision.reason,
    )


def _unmeasured(record: PlanRecord, stage: ScaledStage, reason: str) -> StageScaling:
    assert record.compiled is not None  # noqa: S101 - for mypy: it has stages
    instances = _instances(record.compiled, stage)
    return StageScaling(stage.name, instances, stage.least, stage.most, None, 0.0, 0, instances, reason)
