"""Settings of deployed plans that change without a restart: intake, trace, statistics, awaited streams."""

from __future__ import annotations

from collections.abc import Collection

from cep_common.ids import PlanKey
from cep_common.protocol.tasks import StatisticsLevel
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.errors import (
    BadRequestError,
)
from cep_manager.monitoring.status import awaited_streams
from cep_manager.plans.outcomes import Outcome, outcome_of

COUNTED: dict[StatisticsLevel, str] = {
    "off": "errors and what waits, no events and no latencies",
    "basic": "events and latencies",
    "detail": "events and latencies, and what each query does",
}
"""What stages count at each level, for people."""


class PlanSettings:
    """Changes settings of plans. Any thread may call; nothing is restarted."""

    def __init__(self, changes: PlanChanges) -> None:
        self._changes = changes

    def set_intake(self, key: PlanKey, intake: bool) -> Outcome:
        """See `ManagerView.set_intake`."""
        with self._changes.one_at_a_time:
            record = self._changes.record(key)
            done = "activated" if intake else "deactivated"
            if intake and record.draining is not None:
                self._changes.end_draining(record)
            elif record.intake is intake:
                return outcome_of(key, record.epoch, f"{key.plan} is {done} already; nothing was changed")
            self._changes.store.set_intake(key, intake)
            self._changes.service.set_intake(key, intake)
        follows = "workers take events in for it" if intake else "workers take no events in for it, its state is kept"
        return outcome_of(key, record.epoch, f"{key.plan} was {done}: {follows}", changed=True)

    def set_trace(self, key: PlanKey, trace: bool) -> Outcome:
        """See `ManagerView.set_trace`."""
        with self._changes.one_at_a_time:
            record = self._changes.record(key)
            done = "traced" if trace else "not traced"
            if record.traced() is trace:
                return outcome_of(key, record.epoch, f"{key.plan} is {done} already; nothing was changed")
            self._changes.store.set_trace(key, trace)
            self._changes.service.set_trace(key, trace)
        follows = f"workers write {'its' if trace else 'none of its'} events to their logs"
        return outcome_of(key, record.epoch, f"{key.plan} is {done} now: {follows}", changed=True)

    def set_statistics(self, key: PlanKey, level: StatisticsLevel) -> Outcome:
        """See `ManagerView.set_statistics`."""
        with self._changes.one_at_a_time:
            record = self._changes.record(key)
            if record.statistics_level() == level:
                return outcome_of(key, record.epoch, f"{key.plan} has statistics {level} already; nothing was changed")
            self._changes.store.set_statistics(key, level)
            self._changes.service.set_statistics(key, level)
        message = f"{key.plan} has statistics {level} now: its stages count {COUNTED[level]}"
        return outcome_of(key, record.epoch, message, changed=True)

    def release(self, key: PlanKey, streams: Collection[str]) -> Outcome:
        """See `ManagerView.release`."""
        with self._changes.one_at_a_time:
            record = self._changes.record(key)
            imported = () if record.compiled is None else tuple(one.stream for one in record.compiled.imported)
            unknown = [stream for stream in streams if stream not in imported]
            if unknown:
                raise BadRequestError(
                    f"{key.plan} imports no stream {', '.join(unknown)}; it imports {', '.join(imported) or 'none'}"
                )
            tasks = self._changes.snapshot().tasks.get(key, ())
            awaited = awaited_streams(tasks)
            released = tuple(streams) or awaited
            if not released:
                return outcome_of(key, record.epoch, f"{key.plan} waits for no first event; nothing was changed")
            self._changes.service.release(key, released)
        message = f"{key.plan} does not wait for the first event of {', '.join(released)} any more"
        return outcome_of(key, record.epoch, message, changed=True)
