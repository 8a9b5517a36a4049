"""`not A for t`, `not A and B`: elements with absent events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from siddhi.engine.operators.patterns.base.partial import (
    UNSET_TIME,
    EventChain,
    Match,
    Partial,
    PatternEvent,
    matches_of,
)
from siddhi.engine.operators.patterns.machine.elements import PatternStep, StepSettings
from siddhi.engine.operators.patterns.machine.logical import LogicalStep


@dataclass(slots=True)
class Progress:
    """The progress of an operator's machines: the number of the step, the order and the clock of the row or alarm."""

    step: int = 0
    order: int = -1
    clock: int = 0


@dataclass(frozen=True, slots=True)
class Alarm:
    """A time at which an element has to be checked, and the row and step that set it."""

    due: int
    order: int
    step: int


class Alarms:
    """The alarms of one element, as a heap.

    The earliest comes first, even if a late event set it after others; alarms of the same time come in the order in
    which they were set.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._heap: list[tuple[int, int, Alarm]] = []
        self._number = 0

    def set(self, due: int) -> None:
        """Set an alarm on behalf of the current row or alarm."""
        self._push(Alarm(due, self._progress.order, self._progress.step))

    def restore(self, dues: Iterable[int]) -> None:
        """Set the alarms from a snapshot, which come from an earlier step."""
        for due in dues:
            self._push(Alarm(due, -1, 0))

    def first(self) -> Alarm | None:
        """Return the earliest alarm; None without any."""
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Alarm:
        """Remove the earliest alarm and return it."""
        return heappop(self._heap)[2]

    def dues(self) -> list[int]:
        """Return the times of the alarms, in the order in which they will fire."""
        return [due for due, _, _ in sorted(self._heap, key=lambda entry: entry[:2])]

    def begin_waiting(self, partial: Partial) -> None:
        """Start the waiting time of `partial` now if no preceding element has an event."""
        if partial.timestamp == UNSET_TIME:
            partial.timestamp = self._progress.clock

    def _push(self, alarm: Alarm) -> None:
        heappush(self._heap, (alarm.due, self._number, alarm))
        self._number += 1


class AbsentStep(PatternStep):
    """`not A for t`: passes on partials whose waiting time ended without an A that met the filter.

    `last_alarm` is the latest end of the waiting times that have begun. It changes only when an alarm is set, so an
    alarm is due then as long as a partial waits for it.
    """

    waits_for_silence = True
    survives_mismatch = True

    def __init__(self, settings: StepSettings, waiting_ms: int, progress: Progress) -> None:
        super().__init__(settings)
        self.waiting_ms = waiting_ms
        self.alarms = Alarms(progress)
        self.active = True
        self.last_alarm = 0

    def start(self, now: int) -> None:
        """Start the waiting time of a `not` at the head of a machine at `now`."""
        if self.settings.starts and self.active:
            self._wake_at(now + self.waiting_ms)

    def _wake_at(self, due: int) -> None:
        self.last_alarm = due
        self.alarms.set(due)

    def wait_after(self, time: int) -> None:
        """Restart the waiting time at `time`.

        After a late event the waiting time ends no earlier than before.
        """
        before = self.last_alarm
        self._wake_at(time + self.waiting_ms)
        if time != UNSET_TIME:
            self.last_alarm = max(before, self.last_alarm)

    def enter(self, partial: Partial) -> None:
        if not self.active:
            return
        if not self.settings.starts:
            self.alarms.begin_waiting(partial)
        if self.settings.sequence:
            self._clear_fresh()
        self.welcome(partial)
        if not self.settings.starts:
            self.wait_after(partial.timestamp)

    def rearm(self, partial: Partial) -> None:
        super().rearm(partial)
        self.wait_after(partial.timestamp)

    def reset(self) -> None:
        self.pending.clear()
        if self.settings.starts and not self._attempt_runs():
            self.initialise()

    def offer(self, event: PatternEvent, *, passes: bool) -> list[Match]:
        if self.active:
            super().offer(event, passes=passes and not self._precedes_silence(event))
        return []

    def _precedes_silence(self, event: PatternEvent) -> bool:
        """Return whether `event` is older than the current waiting time before all events."""
        return self.settings.starts and event.timestamp + self.waiting_ms < self.last_alarm

    def accept(self, partial: Partial) -> None:
        """Process the event that should not have come: drop `partial` and restart the waiting time."""
        self.changed = True
        # A late event does not make a waiting time that counts from a later event end earlier.
        partial.timestamp = max(partial.timestamp, partial.events(self.slot)[0].timestamp)
        self.emitted = True
        if self.settings.starts and self.rearms is self:
            self.rearm(partial)
        self.wait_after(partial.timestamp)

    def wake(self, due: int, now: int) -> list[Match]:
        """Return the matches that the end of the waiting time at `due` completes; `now` is the clock."""
        if not self.active:
            return []
        self._prepare()
        passed: list[Partial] = []
        kept: list[Partial] = []
        for partial in self.pending:
            if self.is_over(partial, due):
                if self.scope_head is not None and self.rearms is not None and self.rearms is not self:
                    self.rearms.rearm(partial)
            elif self._silent_until(partial, due):
                partial.timestamp = due
                passed.append(partial)
            else:
                kept.append(partial)
        self.pending[:] = kept
        if self.scope_head is not None:
            self.scope_head.update()
        return [match for partial in passed for match in self._pass_silence(partial)]

    def _prepare(self) -> None:
        waiting = bool(self.fresh or self.pending)
        if self.settings.starts and not waiting:
            once = self.settings.sequence and self.rearms is None and self.last_alarm > 0
            if not once:
                self.enter(self.empty_partial())
        elif self.settings.sequence and self.fresh:
            self.reset()
        self.update()

    def _silent_until(self, partial: Partial, due: int) -> bool:
        if partial.timestamp == UNSET_TIME:
            return due >= self.last_alarm
        return due >= partial.timestamp + self.waiting_ms

    def _pass_silence(self, partial: Partial) -> list[Match]:
        matches = matches_of([partial]) if self.delivers else []
        if self.following is not None:
            self.following.enter(partial)
        if self.rearms is not None:
            self.rearms.rearm(partial)
        elif self.settings.starts:
            self.active = False
        if self.restarts is not None:
            self.restarts.restart_due = True
        return matches


class AbsentLogicalStep(LogicalStep):
    """The `not A` or `not A for t` side of a logical pair. `waiting_ms` is None without `for`."""

    waits_for_silence = True

    def __init__(
        self, settings: StepSettings, operator: str, waiting_ms: int | None, attributes: int, progress: Progress
    ) -> None:
        super().__init__(settings, operator)
        self.waiting_ms = waiting_ms
        self.silence = PatternEvent(UNSET_TIME, (None,) * attributes)
        self.alarms = Alarms(progress)
        self.active = True
        self.last_arrival = 0

    def start(self, now: int) -> None:
        if self.settings.starts and self.active:
            self._wait_from(now)

    def _wait_from(self, time: int) -> None:
        """Start the waiting time, if there is one, at `time`."""
        if self.waiting_ms is not None:
            self.alarms.set(time + self.waiting_ms)

    def wait_after(self, time: int) -> None:
        self._wait_from(time)
        if isinstance(self.partner, AbsentLogicalStep):
            self.partner._wait_from(time)

    def enter(self, partial: Partial) -> None:
        if not self.active:
            return
        super().enter(partial)
        if not self.settings.starts:
            self.wait_after(partial.timestamp)

    def rearm(self, partial: Partial) -> None:
        again = partial.copy_up_to(len(partial.slots))
        chain = again.slots[self.slot]
        if chain is not None:
            again.timestamp = chain[0].timestamp
        again.slots[self.slot] = None
        again.slots[self.partner.slot] = None
        self.welcome(again)
        self.partner.welcome(again)

    def offer(self, event: PatternEvent, *, passes: bool) -> list[Match]:
        if not self.active:
            return []
        candidates = self._candidates()
        if not passes and self._ignores_mismatches():
            self.pending[:] = candidates
            return []
        kept: list[Partial] = []
        before = [partial.slots[self.slot] for partial in candidates]
        verdicts = self._verdicts(candidates, event, passes=passes)
        for partial, chain, accepted in zip(candidates, before, verdicts, strict=True):
            partial.put(self.slot, event)  # again: a partial that waits here twice was put back the first time
            if self._stays(partial, chain, accepted=accepted):
                kept.append(partial)
        self.pending[:] = kept
        return []

    def _stays(self, partial: Partial, before: EventChain | None, *, accepted: bool) -> bool:
        """Return whether `partial`, whose slot held `before`, still waits here after an event."""
        answered: list[Partial] = []
        self._settle(partial, answered, accepted=accepted)
        if answered and self.settings.sequence and partial in self.partner.pending:
            self.partner.pending.remove(partial)
        if not self.changed:
            partial.slots[self.slot] = before
            return not (answered or self.settings.sequence)
        if self.waiting_ms is not None or (self.settings.sequence and self.conjunction and self.rearms is not None):
            partial.slots[self.slot] = before
        return not answered

    def accept(self, partial: Partial) -> None:
        self.changed = True
        self.emitted = True
        self.last_arrival = max(self.last_arrival, partial.events(self.slot)[0].timestamp)

    def lets_partner_complete(self, partial: Partial) -> bool:
        if self.settings.sequence and self.rearms is None and self.last_arrival > 0:
            return False
        if self.waiting_ms is not None:
            return partial.slots[self.slot] is not None
        if self.rearms is None:
            return partial.slots[self.slot] is None
        if self.last_arrival > 0:
            self.last_arrival = 0
            self.initialise()
            return False
        return True

    def wake(self, due: int, now: int) -> list[Match]:
        """Return the matches that the end of the waiting time at `due` completes; `now` is the clock."""
        waiting = self.waiting_ms
        assert waiting is not None  # noqa: S101 - an alarm was set, which only a silence of some length does
        if not self.active:
            return []
        matches: list[Match] = []
        processed = False
        if due >= self.last_arrival + waiting:
            passed = self._take_silent(due, waiting)
            processed = bool(passed)
            for partial in passed:
                partial.timestamp = due
                matches.extend(self._pass_silence(partial))
            self.last_arrival = 0
        if self.rearms is not None or (not processed and self.settings.starts):
            self._wait_from(self.last_arrival or now)
        return matches

    def _take_silent(self, due: int, waiting: int) -> list[Partial]:
        """Return the partials that the absence alone completes.

        The others of an `and` now wait for the partner only.
        """
        if self.settings.starts and self.settings.sequence and not self.fresh and not self.pending:
            self.enter(self.empty_partial())
        elif self.settings.sequence and self.fresh:
            self.reset()
        self.update()
        passed: list[Partial] = []
        kept: list[Partial] = []
        expired: Partial | None = None
        for partial in self.pending:
            chain = partial.slots[self.slot]
            since = partial.timestamp if chain is None else chain[0].timestamp
            if self.is_over(partial, due):
                expired = partial
            elif due < since + waiting:
                kept.append(partial)
            elif partial.slots[self.partner.slot] is None:
                partial.append(self.slot, self.silence)
                if not self.conjunction:
                    passed.append(partial)
            elif self.conjunction:
                passed.append(partial)
        self.pending[:] = kept
        if expired is not None and self.scope_head is not None:
            self.scope_head.rearm(expired)
            self.scope_head.update()
        return passed

    def _pass_silence(self, partial: Partial) -> list[Match]:
        matches = matches_of([partial]) if self.delivers else []
        if self.following is not None:
            self.following.enter(partial)
        if self.rearms is not None:
            self.rearms.rearm(partial)
        elif self.settings.starts:
            self.active = False
            if not self.conjunction and isinstance(self.partner, AbsentLogicalStep):
                self.partner.active = False
        if self.restarts is not None:
            self.restarts.restart_due = True
        return matches
