"""Count errors of sources, sinks and connections of plans, from their states.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cep_common.ids import PlanKey
from cep_common.protocol.error_records import ErrorLog, ErrorRecord, group_of


@dataclass(frozen=True, slots=True)
class PlanError:
    """The state of a source, sink or connection of a plan.

    `text` is its present error (empty: none). It also has the number of events dropped so far.
    """

    key: PlanKey
    part: str
    code: str
    text: str
    dropped_events: int = 0


class ErrorTracker:
    """Counts errors from the states of sources, sinks and connections.

    An error is counted when an error text appears or changes, and for each dropped event.
    """

    def __init__(self) -> None:
        self._logs: dict[PlanKey, ErrorLog] = {}
        self._found: dict[tuple[PlanKey, str, int], PlanError] = {}

    def look(self, found: Iterable[PlanError], day_ms: int) -> None:
        """Record the state of all parts of all plans at the time of day `day_ms`."""
        before, self._found = self._found, {}
        alike: Counter[tuple[PlanKey, str]] = Counter()
        for plan_error in found:
            alike[plan_error.key, plan_error.part] += 1
            name = (plan_error.key, plan_error.part, alike[plan_error.key, plan_error.part])
            known = before.get(name)
            self._found[name] = plan_error
            if not plan_error.text:
                continue
            dropped = plan_error.dropped_events - (known.dropped_events if known is not None else 0)
            if known is not None and dropped <= 0 and group_of(known.text) == group_of(plan_error.text):
                continue
            log = self._logs.setdefault(plan_error.key, ErrorLog())
            log.note(plan_error.code, plan_error.text, day_ms, count=max(1, dropped), instance=plan_error.part)

    def keep(self, plans: Collection[PlanKey]) -> None:
        """Remove the errors of all plans except these."""
        self._logs = {key: log for key, log in self._logs.items() if key in plans}

    def of(self, key: PlanKey) -> tuple[ErrorRecord, ...]:
        """Return all errors of the plan's parts since the worker started."""
        log = self._logs.get(key)
        return log.records() if log is not None else ()
