"""The fast path of events of one stream through a pattern or sequence that is a chain.

It runs `siddhi.engine.operators.patterns.chain.operator` between buffers at fixed addresses. Results are written from
these and from the store of partial matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.fast_path.instance_keys import InstanceKeys
from siddhi.engine.fast_path.small_batch import SmallBatch, SmallBatchResults
from siddhi.engine.fast_path.small_batch_route import SmallBatchRoute
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.patterns.chain.memory import MATCH_PARTIAL, MATCH_REFERENCES
from siddhi.engine.operators.patterns.chain.operator import ChainOperator
from siddhi.engine.streams.clock import AppClock
from siddhi.engine.tuning import INITIAL_EVENT_ROOM, MAX_SMALL_BATCH_ROWS
from siddhi.language.ast import AttributeType


class ChainRoute(SmallBatchRoute):
    """A route for events of the source `source` through `chain`.

    `read` are the attributes that it reads. `outputs` maps each attribute of the target stream (with the attributes
    `types`) to its slot and attribute. In a partition `keys` finds the instances of rows; rows that open an instance
    use the general path.
    """

    most_rows = min(MAX_SMALL_BATCH_ROWS, INITIAL_EVENT_ROOM)

    def __init__(
        self,
        chain: ChainOperator,
        source: int,
        read: Mapping[str, AttributeType],
        outputs: Sequence[tuple[str, int, str]],
        types: Mapping[str, AttributeType],
        keys: InstanceKeys | None,
    ) -> None:
        super().__init__(SmallBatch(read, chain.pool))
        self._chain = chain
        self._source = source
        self._keys = keys
        self._outputs = list(outputs)
        self._results = SmallBatchResults(types, chain.pool)
        self._stamps = self.few.stamps
        self._values: dict[str, AnyArray] = {}
        self._addresses = {**self.few.addresses, EVENT_TIMESTAMP: self.few.stamps_at}
        self._held: list[AnyArray | None] = []
        """Keeps memory alive until the results are written."""

    def cut(self, rows: int) -> None:
        self._stamps = self.few.stamps[:rows]
        self._values = {name: values[:rows] for name, values in self.few.values.items()}
        self._values[EVENT_TIMESTAMP] = self._stamps

    def take_in(self, rows: int, clock: AppClock) -> int:
        instances, keys = None, self._keys
        if keys is not None and (instances := keys.ids(self._values[keys.attribute])) is None:
            return REFUSED
        return self._chain.process_few(self._source, self._stamps, self._values, instances)

    def write(self, count: int) -> pa.RecordBatch:
        chain, results, addresses = self._chain, self._results, self._addresses
        matches, from_before = chain.matches()
        line = 8 * matches.shape[1]
        rows_at = address_of(matches) + line * MATCH_REFERENCES
        partials_at = address_of(matches[MATCH_PARTIAL])
        for name, slot, attribute in self._outputs:
            if not from_before[slot]:
                results.set_values(name, addresses[attribute], 0, rows_at + line * slot)
                continue
            values, valid = chain.output.kept(slot, attribute)
            positions_at = partials_at
            if from_before[slot] < count:
                rows, partials = matches[MATCH_REFERENCES + slot, :count], matches[MATCH_PARTIAL, :count]
                values, valid = _gathered(rows, self._values[attribute], partials, values, valid)
                positions_at = 0
            self._held += (values, valid)
            results.set_values(name, address_of(values), 0 if valid is None else address_of(valid), positions_at)
        results.set_timestamps(addresses[EVENT_TIMESTAMP], rows_at + line * (len(from_before) - 1))
        return results.write(count)

    def end(self) -> None:
        self._chain.finish_few(self._source, self._values)
        self._held.clear()


def _gathered(
    rows: Int64Array, came: AnyArray, partials: Int64Array, kept: AnyArray, valid: BoolArray | None
) -> tuple[AnyArray, BoolArray | None]:
    """Return the arriving values at `rows`; where these are negative, the stored values of `partials`.

    Also return a mask of the values that are not null.
    """
    before = rows < 0
    places = np.where(before, partials, 0)  # others may not fit
    values: AnyArray = np.where(before, kept[places], came[rows])
    return values, None if valid is None else ~before | valid[places]


def chain_route(
    chain: ChainOperator,
    projection: Sequence[tuple[str, str]],
    stream: str,
    source: Mapping[str, AttributeType],
    types: Mapping[str, AttributeType],
    keys: InstanceKeys | None,
) -> ChainRoute | None:
    """Return the fast route of events of `stream` through `chain`, None if there is none.

    The events have the attributes `source`. `projection` lists the output as (attribute of the target stream, column)
    of the matches; in a partition `keys` finds the instances. There is no route if conditions compute values, the
    output contains anything but attributes, or objects are read.
    """
    if chain.reader.computed or {name for name, _ in projection} != types.keys():
        return None
    outputs: list[tuple[str, int, str]] = []
    for name, column in projection:
        answer = chain.output.answer(column)
        if answer is None:
            return None
        outputs.append((name, *answer))
    number = chain.sources.index(stream)
    names = chain.reader.attributes(number)
    names += [name for _, slot, name in outputs if chain.source_of[slot] == number and name != EVENT_TIMESTAMP]
    names += [] if keys is None else [keys.attribute]
    read = {name: source[name] for name in dict.fromkeys(names)}
    if AttributeType.OBJECT in read.values() or AttributeType.OBJECT in types.values():
        return None
    return ChainRoute(chain, number, read, outputs, types, keys)
