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
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.stored_plan import PlanSettings, SettingsPatch

COUNTED: dict[StatisticsLevel, str] = {
    "off": "errors and waiting events, but no rates and no latencies",
    "basic": "events and latencies",
    "detail": "events and latencies, also of each query",
}
"""Describes what stages count at each level."""


class SettingsCommands:
    """Changes settings of plans. Any thread may call; nothing is restarted."""

    def __init__(self, changes: PlanChanges) -> None:
        self._changes = changes

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> Outcome:
        """See `ManagerView.change_settings`."""
        with self._changes.one_at_a_time:
            record = self._changes.record(key)
            kept = patch.intake is True and record.draining is not None
            present = _settings(record)
            if not kept and patch.apply(present) == present:
                return outcome_of(key, record.epoch, f"{key.plan} {_state(patch)} already; nothing was changed")
            if kept:
                self._changes.end_draining(record)
            self._changes.change_settings(key, patch)
        return outcome_of(key, record.epoch, f"{key.plan} {_done(patch)}", changed=True)

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
        message = f"{key.plan} no longer waits for the first event of {', '.join(released)}"
        return outcome_of(key, record.epoch, message, changed=True)


def _settings(record: PlanRecord) -> PlanSettings:
    """Return the settings in force: those that users set, else those of the plan's text."""
    settings = record.stored.settings
    return PlanSettings(settings.intake, record.traced(), record.statistics_level(), settings.origin)


def _state(patch: SettingsPatch) -> str:
    """Return a description of the state that the settings of `patch` put a plan in."""
    parts = []
    if isinstance(patch.intake, bool):
        parts.append("is activated" if patch.intake else "is deactivated")
    if isinstance(patch.trace, bool):
        parts.append("is traced" if patch.trace else "is not traced")
    if isinstance(patch.statistics, str):
        parts.append(f"has statistics {patch.statistics}")
    return " and ".join(parts)


def _done(patch: SettingsPatch) -> str:
    """Return a description of the change and its consequences."""
    parts = []
    if isinstance(patch.intake, bool):
        parts.append(
            "was activated: workers accept events for it"
            if patch.intake
            else "was deactivated: workers accept no events for it, its state is kept"
        )
    if isinstance(patch.trace, bool):
        logged = "workers log its events" if patch.trace else "workers do not log its events"
        parts.append(f"is {'traced' if patch.trace else 'not traced'} now: {logged}")
    if isinstance(patch.statistics, str):
        parts.append(f"has statistics {patch.statistics} now: its stages count {COUNTED[patch.statistics]}")
    return "; ".join(parts)
