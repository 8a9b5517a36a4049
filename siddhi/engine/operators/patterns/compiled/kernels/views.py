"""Access the arrays of the compiled state machine by address.

The loop consists of some sixty functions that call each other for every event. Each needs a few of forty arrays, and
numba passes an array as seven or more numbers: passing all of them costs more than the work. So all arrays are found
through one, the frame, which contains their addresses (see `memory`); a view is created where it is used and costs two
additions.

times(m)[row]          lists(m)[row, at.SINCE]

The code that fills the frame keeps the arrays alive. A view has no length, so an index must not be negative.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj

from siddhi.engine.operators.patterns.compiled.kernels import memory as at

_make_array: Any = arrayobj.make_array
_populate_array: Any = arrayobj.populate_array
_FRAME = types.Array(types.int64, 1, "C")


def _viewer(dtype: Any, place: int, width: int | None, width_place: int | None) -> Any:
    """Return an intrinsic that creates a view of the `dtype` array whose address is at `place` in the frame.

    It has one dimension, or rows of `width` or of the number of items at `width_place`.
    """
    dimensions = 1 if width is None and width_place is None else 2
    array_type = types.Array(dtype, dimensions, "C")

    def view(_typing: Any, _frame: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            def constant(number: int) -> Any:
                return context.get_constant(types.intp, number)

            frame = _make_array(_FRAME)(context, builder, arguments[0]).data

            def item(number: int) -> Any:
                return builder.load(builder.gep(frame, [constant(number)]))

            size = constant(dtype.bitwidth // 8)
            shape, strides = [constant(1)], [size]
            if dimensions == 2:
                columns = item(width_place) if width is None and width_place is not None else constant(width or 1)
                shape, strides = [constant(1), columns], [builder.mul(columns, size), size]
            array = _make_array(array_type)(context, builder)
            data = builder.inttoptr(item(place), context.get_data_type(dtype).as_pointer())
            _populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
            return array._getvalue()

        return array_type(_FRAME), code

    return intrinsic(view)


def _line(place: int, dtype: Any = types.int64) -> Any:
    return _viewer(dtype, place, None, None)


def _rows(place: int, width: int, dtype: Any = types.int64) -> Any:
    return _viewer(dtype, place, width, None)


def _table(place: int, width_place: int, dtype: Any = types.int64) -> Any:
    return _viewer(dtype, place, None, width_place)


lists = _rows(at.LISTS_AT, at.LIST_WIDTH)
entries = _rows(at.ENTRIES_AT, at.ENTRY_WIDTH)
partials = _table(at.PARTIALS_AT, at.PARTIAL_WIDTH)
chains = _rows(at.CHAINS_AT, at.CHAIN_WIDTH)
chunks = _rows(at.CHUNKS_AT, at.CHUNK_WIDTH, types.int32)
kept = _table(at.KEPT_AT, at.KEPT_WIDTH)
kept_fractions = _table(at.KEPT_FRACTIONS_AT, at.FRACTION_COUNT, types.float64)
free_entries = _line(at.FREE_ENTRIES_AT)
free_partials = _line(at.FREE_PARTIALS_AT)
free_chains = _line(at.FREE_CHAINS_AT)
free_chunks = _line(at.FREE_CHUNKS_AT)
free_kept = _line(at.FREE_KEPT_AT)
alarms = _rows(at.ALARMS_AT, at.ALARM_WIDTH)
due_alarms = _rows(at.DUE_ALARMS_AT, at.ALARM_WIDTH)
matches = _table(at.MATCHES_AT, at.MATCH_WIDTH)
registers = _line(at.REGISTERS_AT)
fraction_registers = _line(at.FRACTION_REGISTERS_AT, types.float64)
null_registers = _line(at.NULL_REGISTERS_AT, types.int8)

settings = _line(at.SETTINGS_AT)
elements = _rows(at.ELEMENTS_AT, at.ELEMENT_WIDTH)
offers = _table(at.OFFERS_AT, at.ELEMENT_COUNT)
hands_out = _line(at.HANDS_OUT_AT)
limits = _rows(at.LIMITS_AT, 2)
resettable = _line(at.RESETTABLE_AT)
timed = _line(at.TIMED_AT)
instructions = _rows(at.INSTRUCTIONS_AT, at.INSTRUCTION_WIDTH)
constants = _line(at.CONSTANTS_AT)
fraction_constants = _line(at.FRACTION_CONSTANTS_AT, types.float64)
references = _rows(at.REFERENCES_AT, 3)

times = _line(at.TIMES_AT)
instances = _line(at.INSTANCES_AT)
skipped = _line(at.SKIPPED_AT, types.int8)
nulls = _line(at.NULLS_AT)
whole = _table(at.WHOLE_AT, at.WHOLE_COUNT)
fractions = _table(at.FRACTIONS_AT, at.FRACTION_COUNT, types.float64)
passing = _table(at.PASSING_AT, at.PASSING_WIDTH, types.int8)
row_order = _line(at.ORDER_AT)
sources = _line(at.SOURCES_AT)
orders = _line(at.ORDERS_AT)
clocks = _line(at.CLOCKS_AT)
step_clocks = _line(at.STEP_CLOCKS_AT)
bounds = _line(at.BOUNDS_AT)
opened = _table(at.OPENED_AT, at.OPENED_COUNT)
ranks = _line(at.RANKS_AT)
