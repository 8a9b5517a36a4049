"""The output columns of the compiled state machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.column import DTYPES, Column, mask_or_none
from siddhi.engine.columnar.strings import NULL_CODE
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.patterns.base.references import Reference, column_type
from siddhi.engine.operators.patterns.compiled.expressions import FRACTIONS, Feed, NotCompilableError
from siddhi.engine.operators.patterns.compiled.kernels import memory as at
from siddhi.engine.operators.patterns.compiled.layout import EventReferences
from siddhi.language.ast import AttributeType


class MatchOutput:
    """Creates the columns of the matches; `whole_count` is the number of integers stored for an event."""

    def __init__(
        self,
        read: Mapping[str, Reference],
        events: EventReferences,
        feeds: Sequence[Feed],
        feed_of_slot: Sequence[int],
        whole_count: int,
        context: OperatorContext,
    ) -> None:
        self._read = read
        self._event_of_column = events.of_column
        self._feeds = feeds
        self._feed_of_slot = feed_of_slot
        self._whole_count = whole_count
        self._pool = context.pool
        for reference in read.values():
            if isinstance(reference, model.AttributeValue) and reference.all_events:
                raise NotCompilableError("it selects all events of a count as a list")

    def columns(self, matches: Int64Array, memory: at.Memory) -> dict[str, Column]:
        """Return the column of each reference."""
        return {
            name: self._column(reference, matches[:, at.MATCH_EVENTS + self._event_of_column[name]], memory)
            for name, reference in self._read.items()
        }

    def _column(self, reference: Reference, events: Int64Array, memory: at.Memory) -> Column:
        type_ = column_type(reference)
        there = events >= 0
        if isinstance(reference, model.IsEmptySlot):
            return Column(AttributeType.BOOL, self._pool, values=there)
        if isinstance(reference, model.EventReference):
            return Column(type_, self._pool, values=memory.kept[events, at.KEPT_TIME], valid=mask_or_none(there))
        column = self._feeds[self._feed_of_slot[reference.slot]].attribute(reference.name, reference.type)
        if type_ is AttributeType.STRING:
            codes = np.where(there, memory.kept[events, at.KEPT_COLUMNS + column.number], NULL_CODE)
            return Column(type_, self._pool, values=codes)
        if type_ in FRACTIONS:
            values = memory.kept_fractions[events, column.number].astype(DTYPES[type_])
            bit = self._whole_count + column.number
        else:
            values = memory.kept[events, at.KEPT_COLUMNS + column.number].astype(DTYPES[type_])
            bit = column.number
        valid = there & ((memory.kept[events, at.KEPT_NULLS] >> bit & 1) == 0)
        return Column(type_, self._pool, values=values, valid=mask_or_none(valid))
