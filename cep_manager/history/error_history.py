"""The history of errors. Pure: it takes reports and returns groups.

Reporters count from the start of their process and repeat their counts with every heartbeat: only the difference from a
reporter's previous report is new. So a plan's errors outlive its tasks, and a manager that begins to lead learns again
what live reporters still report.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.drivers import RegisterDriver
from cep_common.protocol.error_records import ErrorRecord, group_of
from cep_common.protocol.registry import RegisterWorker
from cep_common.protocol.tasks import RegisterTask
from cep_manager.history.errors import ErrorGroup, ErrorKind, ErrorPlace, group_id

MOST_GROUPS = 64
"""Groups that are remembered of each plan, and of all processes; the one seen last longest ago goes first."""
MOST_REPORTERS = 1_024
"""The number of reporters that are remembered per group; the one with the oldest report is removed first.

It must exceed the number of live ones: a reporter that was removed counts again with its next report.
"""
MOST_PLACES = 64
"""The places that are remembered of each group; the least recently seen one is dropped first."""
SHOWN_PLACES = 16
"""How many of the newest places of each group are kept."""

Owner = PlanKey | None
"""The plan that errors belong to, if any."""


Where = tuple[str, str, int]
"""A stage instance, source or sink, and the host and number of a process."""


@dataclass(slots=True)
class _Group:
    """A group of errors. `last_reports` holds each reporter's last report: the start of its count, and the count."""

    kind: ErrorKind
    component: str
    newest: ErrorRecord
    first_ms: int
    count: int = 0
    last_reports: dict[Where, tuple[int, int]] = field(default_factory=dict)
    places: dict[Where, ErrorPlace] = field(default_factory=dict)


class ErrorHistory:
    """The errors of all plans and processes. Not thread-safe, but the results of `groups` may be shared."""

    def __init__(self) -> None:
        self._groups: dict[Owner, dict[str, _Group]] = {}
        self._groups_by_owner: dict[Owner, tuple[ErrorGroup, ...]] = {}

    def task_heard(self, report: RegisterTask) -> None:
        """Add the errors of the instances in a task's report."""
        for component in report.components:
            for record in component.failures:
                where = (component.instance, report.host, report.process_id)
                self._take(report.key, "error", component.component, record, where)

    def worker_heard(self, report: RegisterWorker) -> None:
        """Add the errors of the plans in a worker's report."""
        for plan in report.plans:
            for record in plan.errors:
                self._take(plan.key, "error", "", record, (record.instance, report.host, report.process_id))

    def driver_heard(self, report: RegisterDriver) -> None:
        """Add the failures of the topologies in the driver's report."""
        for topology in report.topologies:
            for record in topology.failures:
                reporter = (record.instance, report.host, report.process_id)
                where = (record.instance, record.host or report.host, record.process_id)
                component = record.instance.rpartition("#")[0]
                self._take(topology.key, "failure", component, record, reporter, where)

    def note(
        self, owner: Owner, kind: ErrorKind, code: str, text: str, host: str, process_id: int, day_ms: int
    ) -> None:
        """Count an error that the manager itself has seen at the time of day `day_ms`."""
        where = ("", host, process_id)
        name = _name(kind, "", code, text)
        group = self._groups.get(owner, {}).get(name)
        first_ms, count = group.last_reports.get(where, (day_ms, 0)) if group is not None else (day_ms, 0)
        self._take(owner, kind, "", ErrorRecord(code, text, first_ms, day_ms, count + 1), where)

    def rename(self, key: PlanKey) -> None:
        """Rename the plan of the same identity to the name in `key`."""
        groups = self._groups.pop(key, None)
        if groups is not None:
            self._groups[key] = groups
        self._groups_by_owner.pop(key, None)

    def keep(self, plans: Collection[PlanKey]) -> None:
        """Remove the errors of all plans except these."""
        for owner in [one for one in self._groups if one is not None and one not in plans]:
            del self._groups[owner]
            self._groups_by_owner.pop(owner, None)

    def groups(self) -> dict[Owner, tuple[ErrorGroup, ...]]:
        """Return everything that is remembered, by owner, what was seen last first."""
        for owner, groups in self._groups.items():
            if owner not in self._groups_by_owner:
                reported = (_error_group(owner, name, group) for name, group in groups.items())
                self._groups_by_owner[owner] = tuple(sorted(reported, key=_newest_first))
        return dict(self._groups_by_owner)

    def _take(
        self,
        owner: Owner,
        kind: ErrorKind,
        component: str,
        record: ErrorRecord,
        reporter: Where,
        where: Where | None = None,
    ) -> None:
        """Add a count of errors from `reporter`; the newest happened at `where`, by default at the reporter."""
        groups = self._groups.setdefault(owner, {})
        name = _name(kind, component, record.code, record.text)
        group = groups.get(name) or _Group(kind, component, record, record.first_ms)
        since_ms, reported = group.last_reports.get(reporter, (record.first_ms, 0))
        new = record.count - reported if since_ms == record.first_ms and reported <= record.count else record.count
        if not new:
            return
        self._groups_by_owner.pop(owner, None)
        groups[name] = group
        group.count += new
        group.first_ms = min(group.first_ms, record.first_ms)
        if record.last_ms >= group.newest.last_ms:
            group.newest = record
        group.last_reports.pop(reporter, None)
        group.last_reports[reporter] = (record.first_ms, record.count)
        where = where or reporter
        before = group.places.pop(where, None)
        counted, first_ms = (before.count, before.first_ms) if before is not None else (0, record.last_ms)
        if where == reporter and before is None:
            first_ms = record.first_ms
        group.places[where] = ErrorPlace(*where, first_ms, record.last_ms, counted + new)
        _keep_newest(group.last_reports, MOST_REPORTERS)
        _keep_newest(group.places, MOST_PLACES)
        if len(groups) > MOST_GROUPS:
            del groups[min(groups, key=lambda one: groups[one].newest.last_ms)]


def _keep_newest(known: dict[Where, Any], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]


@functools.lru_cache(maxsize=4_096)  # heartbeats say the same again and again
def _name(kind: ErrorKind, component: str, code: str, text: str) -> str:
    return group_id(kind, component, code, group_of(text))


def _error_group(owner: Owner, name: str, group: _Group) -> ErrorGroup:
    places = sorted(group.places.values(), key=lambda place: -place.last_ms)
    return ErrorGroup(
        id=name,
        kind=group.kind,
        plan=owner.plan if owner is not None else "",
        tenant=owner.tenant if owner is not None else SUPER_TENANT,
        component=group.component,
        code=group.newest.code,
        text=group.newest.text,
        traceback=group.newest.traceback,
        first_ms=group.first_ms,
        last_ms=group.newest.last_ms,
        count=group.count,
        places=tuple(places[:SHOWN_PLACES]),
    )


def _newest_first(group: ErrorGroup) -> tuple[int, str]:
    return (-group.last_ms, group.id)
