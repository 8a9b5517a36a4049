"""Measures the loads of scaled stages from what their tasks have counted. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cep_common.ids import PlanKey, instance_name
from cep_common.protocol.tasks import ComponentReport
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.status import worker_reports
from cep_manager.plans.record import PlanRecord
from cep_manager.scaling.decision import StageLoad


class _InstanceCounts(msgspec.Struct, frozen=True):
    """What one instance had counted at `at_ms`, a time of the snapshot's clock, in which run of it."""

    run: tuple[int, int, int]
    at_ms: int
    busy_ms: int
    events: int
    queued: int


class LoadMeter:
    """The loads of the stages of all plans that scale, since their topologies have had their present instances."""

    def __init__(self, kept_ms: int) -> None:
        """Keep loads for `kept_ms`."""
        self._kept_ms = kept_ms
        self._before: dict[tuple[PlanKey, str], tuple[_InstanceCounts, ...]] = {}
        self._loads: dict[tuple[PlanKey, str], list[StageLoad]] = {}
        """Their times are of the snapshot's clock: steps of the time of day change no interval."""

    def measure(
        self, snapshot: ClusterSnapshot, record: PlanRecord, stage: str, instances: int, ahead_ms: int
    ) -> list[StageLoad]:
        """Return the loads of a stage of `instances` instances, oldest first, with the newest interval.

        The time of day is `ahead_ms` ahead of the snapshot's clock.
        """
        of = record.key, stage
        counted = _counted(snapshot, record, [instance_name(stage, index) for index in range(instances)])
        before = self._before.get(of, ())
        if len(counted) < instances or [one.run for one in counted] != [one.run for one in before]:
            # A topology that has just started, or some of its tasks again: what they count has begun at 0.
            self._before[of] = counted if len(counted) == instances else ()
            self._loads[of] = []
        elif all(one.at_ms > earlier.at_ms for one, earlier in zip(counted, before, strict=True)):
            waiting = _waiting(snapshot, record) + sum(one.queued for one in counted)
            loads = self._loads.setdefault(of, [])
            loads.append(_load(before, counted, waiting))
            del loads[: _older(loads, snapshot.now_ms - self._kept_ms)]
            self._before[of] = counted
        return [msgspec.structs.replace(one, at_ms=one.at_ms + ahead_ms) for one in self._loads[of]]

    def forget(self, key: PlanKey) -> None:
        """Begin again with the plan."""
        for known in (self._before, self._loads):
            for of in [one for one in known if one[0] == key]:
                del known[of]

    def keep(self, keys: Iterable[PlanKey]) -> None:
        """Forget all plans except `keys`."""
        for key in {key for key, _ in self._before} - set(keys):
            self.forget(key)


def _counted(snapshot: ClusterSnapshot, record: PlanRecord, instances: list[str]) -> tuple[_InstanceCounts, ...]:
    """Return the counters of those instances whose tasks are heard."""
    found: dict[str, _InstanceCounts] = {}
    for task in snapshot.tasks.get(record.key, ()):
        if not task.live(snapshot.now_ms, snapshot.lease_ms):
            continue
        at_ms = task.heard_ms - task.latest.counted_ago_ms
        run = task.latest.epoch, task.latest.attempt, task.latest.process_id
        found.update({one.instance: _of_instance(one, run, at_ms) for one in task.latest.components})
    return tuple(found[one] for one in instances if one in found)


def _of_instance(report: ComponentReport, run: tuple[int, int, int], at_ms: int) -> _InstanceCounts:
    return _InstanceCounts(run, at_ms, report.busy_ms, sum(one.events for one in report.received), report.queued_events)


def _load(before: tuple[_InstanceCounts, ...], counted: tuple[_InstanceCounts, ...], waiting: int) -> StageLoad:
    pairs = list(zip(before, counted, strict=True))
    lengths_ms = [now.at_ms - then.at_ms for then, now in pairs]
    shares = ((now.busy_ms - then.busy_ms) / length for (then, now), length in zip(pairs, lengths_ms, strict=True))
    rates = ((now.events - then.events) * 1_000 / length for (then, now), length in zip(pairs, lengths_ms, strict=True))
    return StageLoad(
        at_ms=max(one.at_ms for one in counted),
        length_ms=max(lengths_ms),
        busy=tuple(min(1.0, max(0.0, share)) for share in shares),
        events_per_s=sum(rates),
        waiting=waiting,
    )


def _waiting(snapshot: ClusterSnapshot, record: PlanRecord) -> int:
    """Return how many accepted events wait at workers until the topology takes them."""
    reports = worker_reports(snapshot, record.key, record.epoch)
    return sum(one.waiting_events for _, report in reports for one in report.inflow)


def _older(loads: list[StageLoad], at_ms: int) -> int:
    """Return how many of the loads ended before `at_ms`; one more interval is kept, which reaches across it."""
    return max(0, sum(one.at_ms < at_ms for one in loads) - 1)
