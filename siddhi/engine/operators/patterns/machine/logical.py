"""`A and B`, `A or B`: two elements that share their partial matches."""

from __future__ import annotations

from siddhi.engine.operators.patterns.base.partial import Match, Partial, PatternEvent, matches_of
from siddhi.engine.operators.patterns.machine.elements import PatternStep, StepSettings


class LogicalStep(PatternStep):
    """One side of a logical pair; its partial matches wait at both sides.

    With `and` both slots must be filled; with `or` the first is enough.

    `neighbours`: the pair is an `and` in a sequence, and one stream feeds both sides. Its events are offered to one
    side after the other, so an event that one side refuses may still fill the other. A partial that is filled on one
    side arrives at the other for the next event, which has to fill it.
    """

    partner: LogicalStep
    neighbours = False

    def __init__(self, settings: StepSettings, operator: str) -> None:
        super().__init__(settings)
        self.conjunction = operator == "and"

    def enter(self, partial: Partial) -> None:
        one_at_a_time = self.settings.starts or self.settings.sequence
        for side in (self, self.partner):
            if not (one_at_a_time and side._has_newcomer()):
                side.welcome(partial)

    def _has_newcomer(self) -> bool:
        if not self.neighbours:
            return bool(self.fresh)
        return any(partial.slots[self.partner.slot] is None for partial in self.fresh)

    def rearm(self, partial: Partial) -> None:
        again = partial.copy_up_to(self.slot)
        again.slots[self.partner.slot] = None
        self.welcome(again)
        self.partner.welcome(again)

    def reset(self) -> None:
        """Drop waiting partials, except a half-filled `and` of two streams, which outlives the next event."""
        if self.conjunction and not self.neighbours and len(self.pending) != len(self.partner.pending):
            return
        self.partner.pending.clear()
        if self.neighbours and self.settings.starts and self.rearms is not None:
            self.pending.clear()
            self.initialise()
        else:
            super().reset()

    def update(self) -> None:
        super().update()
        PatternStep.update(self.partner)

    def offer(self, event: PatternEvent, *, passes: bool) -> list[Match]:
        candidates = self._candidates()
        if not passes and self._ignores_mismatches():
            self._keep_all(candidates)
            return []
        kept: list[Partial] = []
        complete: list[Partial] = []
        filled: set[int] = set()
        for partial, accepted in zip(candidates, self._verdicts(candidates, event, passes=passes), strict=True):
            if id(partial) in filled:  # it waits here twice: a preceding counted element passed it on with each event
                continue
            if accepted:
                filled.add(id(partial))
            self._settle(partial, complete, accepted=accepted)
            if self.changed:
                continue
            partial.slots[self.slot] = None
            if not self.settings.sequence:
                kept.append(partial)
        self.pending[:] = kept
        return matches_of(complete)

    def _candidates(self) -> list[Partial]:
        if self.conjunction:
            return self.pending.copy()
        return [partial for partial in self.pending if partial.slots[self.partner.slot] is None]

    def accept(self, partial: Partial) -> None:
        if self.conjunction and not self.partner.lets_partner_complete(partial):
            self.changed = True
            if self.neighbours:
                self.partner.welcome(partial)
            return
        if self.neighbours and partial in self.fresh:  # the same event filled the other side
            self.fresh.remove(partial)
        super().accept(partial)

    def lets_partner_complete(self, partial: Partial) -> bool:
        """Return whether the other side of an `and`, whose event has just come, completes the pair."""
        return partial.slots[self.slot] is not None
