"""The elements of a state machine, the places where partial matches wait for an event: plain and counted ones.

A partial match that waits at an element is in its `pending` list; one that arrived since the last event is in `fresh`
and moves over when the next event comes, so that one event never fills two elements in a row:

    every e1=A -> e2=B        pending of A      pending of B
      start                   [ ()  ]           [ ]
      a1 passes A             [ () fresh ]      [ (a1) fresh ]
      b1                      [ ()  ]           [ (a1) ]  → match (a1, b1)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from siddhi.engine.operators.patterns.base.partial import UNSET_TIME, Match, Partial, PatternEvent, matches_of
from siddhi.engine.operators.patterns.machine.horizon import Horizon, Limits, is_expired, is_too_old

Condition = Callable[[Sequence[Partial], PatternEvent], Sequence[bool]]
"""Tests for each partial match whether the event, already in the element's slot, passes the element's filters."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """The fixed settings of an element.

    `slot`: its place in the machine's order. `starts`: the machine starts here. `begin_later`: a slot of `limits` may
    be filled when later ones wait already, as it belongs to an element with a minimum of 0.
    """

    slot: int
    sequence: bool
    starts: bool
    condition: Condition
    limits: Limits
    begin_later: bool
    slot_count: int


class PatternStep:
    """A plain element.

    `following`: the next element of a partial match after its event. `rearms`: the first element of the `every` scope
    that ends here. `scope_head`: the first element of the `every` scope around this one. `restarts`: the optional first
    element that restarts when this one is done. `delivers`: this is a last element. `emitter`: the element whose
    `emitted` mark shows that a match is complete; its own except for the machine's first element.
    `holds_former_events`: rounds may come here with an event of the round before them in the slot, until another event
    is tried there.
    """

    def __init__(self, settings: StepSettings) -> None:
        self.settings = settings
        self.slot = settings.slot
        self.following: PatternStep | None = None
        self.rearms: PatternStep | None = None
        self.scope_head: PatternStep | None = None
        self.restarts: CountedStep | None = None
        self.delivers = False
        self.emitter: PatternStep = self
        self.holds_former_events = False
        self.pending: list[Partial] = []
        self.fresh: list[Partial] = []
        self._horizon = Horizon(settings.limits, begin_later=settings.begin_later)
        self.initialised = False
        self.changed = False
        self.emitted = False

    # ---- sources of partial matches

    def initialise(self) -> None:
        """Add an empty partial match to a first element: once, or repeatedly under `every`."""
        before_absent = self.settings.sequence and self.following is not None and self.following.waits_for_silence
        if self.settings.starts and (not self.initialised or self.rearms is not None or before_absent):
            self.enter(self.empty_partial())
            self.initialised = True

    def empty_partial(self) -> Partial:
        return Partial([None] * self.settings.slot_count)

    waits_for_silence = False

    def enter(self, partial: Partial) -> None:
        """Accept `partial` from the element before."""
        if self._has_room():
            self.welcome(partial)

    def _has_room(self) -> bool:
        """Return whether one more partial fits. An element of a sequence has room for one for each event."""
        return not (self.settings.sequence and self.fresh)

    def welcome(self, partial: Partial) -> None:
        """Add `partial` as the newest that waits here."""
        self.fresh.append(partial)
        if self.settings.limits:
            self._horizon.note(partial)

    def wait_after(self, time: int) -> None:
        """Restart the waiting time, if the element has one: a partial that waits here accepted an event of `time`."""

    def rearm(self, partial: Partial) -> None:
        """Start a new round of an `every` scope here, with the slots of `partial` before the scope."""
        self.welcome(partial.copy_up_to(self.slot))

    # ---- between two events

    def reset(self) -> None:
        """Drop partial matches that waited for the event before this one (sequences only)."""
        self.pending.clear()
        if self.settings.starts and not self.fresh and not self._attempt_runs():
            self.initialise()

    def _attempt_runs(self) -> bool:
        return self.rearms is None and self.following is not None and bool(self.following.pending)

    def update(self) -> None:
        """Make arrivals since the last event pending, oldest first."""
        self.fresh.sort(key=_arrival)
        self.pending.extend(self.fresh)
        self._clear_fresh()

    def _clear_fresh(self) -> None:
        self.fresh.clear()
        self._horizon.clear()

    def is_over(self, partial: Partial, time: int) -> bool:
        """Return whether `partial` has expired at `time`."""
        limits = self.settings.limits
        return is_expired(partial, limits, time) or is_too_old(partial, limits, time)

    def expire(self, latest: int) -> None:
        """Drop partial matches that have expired at `latest`.

        The last of them restarts the `every` scope that it was in.
        """
        limits = self.settings.limits
        if not limits:
            return
        gone = list(itertools.takewhile(lambda partial: is_expired(partial, limits, latest), self.pending))
        gone.extend(self._horizon.take_expired(self.fresh, latest))
        if not gone:
            return
        if self.pending:
            numbers = set(map(id, gone))
            self.pending[:] = [partial for partial in self.pending if id(partial) not in numbers]
        last = [partial for partial in gone if not partial.expired][-1:]
        for partial in gone:
            partial.expired = True
        if last and self.scope_head is not None:
            self.scope_head.rearm(last[0])
            self.scope_head.update()

    # ---- an event arrives

    def offer(self, event: PatternEvent, *, passes: bool) -> list[Match]:
        """Return the matches that `event` completes here, in the order in which the partial matches waited.

        `passes`: `event` satisfies the filters that read only the event.
        """
        candidates = self._candidates()
        if not passes and self._ignores_mismatches():
            self._keep_all(candidates)
            return []
        kept: list[Partial] = []
        complete: list[Partial] = []
        for partial, accepted in zip(candidates, self._verdicts(candidates, event, passes=passes), strict=True):
            self._settle(partial, complete, accepted=accepted)
            if self.changed:
                continue
            partial.slots[self.slot] = None
            if not self.settings.sequence:
                kept.append(partial)
                continue
            if self.survives_mismatch:
                kept.append(partial)
            if self.restarts is not None:
                self.restarts.restart_due = True
        self.pending[:] = kept
        return matches_of(complete)

    survives_mismatch = False

    def _candidates(self) -> list[Partial]:
        """Return the pending partial matches that still accept an event here.

        The others have moved on elsewhere and are dropped.
        """
        return self.pending.copy()

    def _ignores_mismatches(self) -> bool:
        return not self.settings.sequence and not self.emitter.emitted

    def _keep_all(self, candidates: list[Partial]) -> None:
        """Keep all of `candidates` waiting, as the event fits none of them."""
        self.pending[:] = candidates
        if self.holds_former_events:
            for partial in candidates:
                partial.slots[self.slot] = None

    def _verdicts(self, candidates: list[Partial], event: PatternEvent, *, passes: bool) -> Sequence[bool]:
        """Put `event` into each candidate; return which of them it passes."""
        for partial in candidates:
            partial.put(self.slot, event)
        return self._judged(candidates, event, passes=passes)

    def _judged(self, candidates: list[Partial], event: PatternEvent, *, passes: bool) -> Sequence[bool]:
        """Return which of `candidates`, in whose slot `event` is, it passes."""
        if not (passes and candidates):
            return [False] * len(candidates)
        verdicts = self.settings.condition(candidates, event)
        if not self.settings.limits:
            return verdicts
        return [
            verdict and not is_too_old(partial, self.settings.limits, event.timestamp)
            for partial, verdict in zip(candidates, verdicts, strict=True)
        ]

    def _settle(self, partial: Partial, complete: list[Partial], *, accepted: bool) -> None:
        self.changed = False
        if accepted:
            self.accept(partial)
        if self.emitter.emitted:
            self.emitter.emitted = False
            complete.append(partial)

    def accept(self, partial: Partial) -> None:
        """Accept the event in this element's slot, which has passed the conditions."""
        self.changed = True
        partial.timestamp = partial.events(self.slot)[0].timestamp
        self.pass_on(partial)

    def pass_on(self, partial: Partial) -> None:
        """Pass `partial` on: as a match, or to the next element; the scope that ends here restarts."""
        if self.delivers:
            self.emitted = True
        if self.following is not None:
            self.following.enter(partial)
        if self.rearms is not None:
            self.rearms.rearm(partial)
        if self.restarts is not None:
            self.restarts.restart_due = True


class CountedStep(PatternStep):
    """An element that collects from `minimum` to `maximum` events (`maximum` -1: any number).

    From the minimum on a partial waits here and at the next element at once: it is one object in two lists, and is
    removed from this one once a later slot is filled.

    In a sequence `A<3>` has the same meaning as `A, A, A`, so runs below a minimum of 2 or more collect events in
    parallel, each started by another event. One event is added to only one of them, the oldest:

        every A<2>, B    a1      a2        a3              b
                         [a1]    [a1 a2]   ✗ (a3 is no B)
                                 [a2]      [a2 a3]         match (a2 a3, b)
    """

    def __init__(self, settings: StepSettings, minimum: int, maximum: int) -> None:
        super().__init__(settings)
        self.minimum = minimum
        self.maximum = maximum
        self.restart_due = False
        self._side_by_side = settings.sequence and minimum > 1
        self._has_passed_on = False

    def enter(self, partial: Partial) -> None:
        super().enter(partial)
        if self.minimum == 0 and partial.slots[self.slot] is None:
            self._reach_minimum(partial)

    def _has_room(self) -> bool:
        if not self._side_by_side:
            return super()._has_room()
        if any(partial.slots[self.slot] is None for partial in self.fresh):
            return False
        return self.settings.starts or not self._outlasts_newcomers()

    def _outlasts_newcomers(self) -> bool:
        """Return whether the oldest run already waits for the next element and may still grow.

        Any event that advances a younger run then also advances this one.
        """
        return self.maximum < 0 and bool(self.fresh) and len(self.fresh[0].events(self.slot)) >= self.minimum

    def reset(self) -> None:
        if self._side_by_side and self.settings.starts and self.rearms is not None:
            self.pending.clear()
            self.initialise()
        else:
            super().reset()

    def update(self) -> None:
        if self.restart_due:
            self.restart_due = False
            self.initialise()
        super().update()

    def offer(self, event: PatternEvent, *, passes: bool) -> list[Match]:
        candidates = self._candidates()
        if not passes and self._ignores_mismatches():
            self.pending[:] = candidates
            return []
        kept: list[Partial] = []
        complete: list[Partial] = []
        self._has_passed_on = False
        for turn in self._turns(candidates):
            for partial, accepted in zip(turn, self._verdicts(turn, event, passes=passes), strict=True):
                self._settle(partial, complete, accepted=accepted)
                if not accepted:
                    partial.drop_last(self.slot)
                if not self.changed and (accepted or not self.settings.sequence):
                    kept.append(partial)
        self.pending[:] = kept
        if self._side_by_side and self._outlasts_newcomers():
            del self.fresh[1:]
        return matches_of(complete)

    def _candidates(self) -> list[Partial]:
        later = slice(self.slot + 1, self.slot + 3 if self.holds_former_events else None)
        return [partial for partial in self.pending if not any(partial.slots[later])]

    def _turns(self, candidates: list[Partial]) -> list[list[Partial]]:
        """Return `candidates` as one group, or as one group per candidate.

        They are tested one by one if one waits twice, or if two share a list of events here, as rounds with former
        events may: the event is collected in each round.
        """
        apart = len(set(map(id, candidates))) == len(candidates)
        if apart and self.holds_former_events:
            chains = [id(chain) for partial in candidates if (chain := partial.slots[self.slot]) is not None]
            apart = len(set(chains)) == len(chains)
        return [candidates] if apart else [[partial] for partial in candidates]

    def _verdicts(self, candidates: list[Partial], event: PatternEvent, *, passes: bool) -> Sequence[bool]:
        for partial in candidates:
            partial.append(self.slot, event)
        return self._judged(candidates, event, passes=passes)

    def accept(self, partial: Partial) -> None:
        chain = partial.events(self.slot)
        partial.timestamp = chain[-1].timestamp
        count = len(chain)
        if self.settings.sequence:
            self._accept_in_sequence(partial, count)
        elif count == self.minimum:
            self._reach_minimum(partial)
        elif count > self.minimum and self.following is not None:
            self.following.wait_after(partial.timestamp)
        if count >= self.minimum and count == self.maximum:
            self.changed = True

    def _accept_in_sequence(self, partial: Partial, count: int) -> None:
        if self.delivers and count == self.minimum:
            self.changed = True
            self.emitted = True
            return
        if self.following is not None and count >= self.minimum and not (self._side_by_side and self._has_passed_on):
            self._has_passed_on = True
            self.following.enter(partial)
        if count < self.minimum:
            self.welcome(partial)
        elif count != self.maximum:
            self.enter(partial)

    def _reach_minimum(self, partial: Partial) -> None:
        if self.delivers:
            self.changed = True
            self.emitted = True
        if self.following is not None:
            self.following.enter(partial)
        if self.rearms is not None:
            self.rearms.rearm(partial)


def _arrival(partial: Partial) -> tuple[bool, int]:
    return partial.timestamp == UNSET_TIME, partial.timestamp
