"""Typed events for any plan, made up from the definitions and the constants in its text."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator

import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from siddhi.language import ast
from siddhi.language.ast import AttributeType
from topology.events.frames import CURRENT, arrow_schema

START_MS = 1_700_000_000_000
STEPS_MS = (*[7] * 30, *[113] * 10, *[1_009] * 5, *[10_007] * 3, 61_001, 181_003)

Event = tuple[int, str, pa.RecordBatch]
"""When it comes, the stream, its rows."""


def made_up(
    app: ast.App, streams: tuple[ast.StreamDefinition, ...], count: int, most_rows: int, last_step_ms: int
) -> Iterator[Event]:
    """`count` frames of up to `most_rows` rows of `streams`, then, `last_step_ms` later, one of each; the same every
    time."""
    dice = random.Random(len(streams))  # noqa: S311 - only the same every time
    values = _values(app)
    now_ms = START_MS
    for number in range(count + len(streams)):
        last = number - count
        now_ms += dice.choice(STEPS_MS) if last else last_step_ms
        stream = dice.choice(streams) if last < 0 else streams[last]
        amount = dice.randint(1, most_rows)
        schema = arrow_schema(StreamSchema(stream.id, tuple((one.name, one.type.value) for one in stream.attributes)))
        columns = [[now_ms] * amount, [CURRENT] * amount]
        columns += [[dice.choice(values[one.type]) for _ in range(amount)] for one in stream.attributes]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield now_ms, stream.id, pa.record_batch(arrays, schema=schema)


def _values(app: ast.App) -> dict[AttributeType, list[object]]:
    """For each type a few values, among them those that the plan compares with and their neighbours."""
    constants = [one.value for one in _parts(app) if isinstance(one, ast.Constant)]
    texts = [one for one in constants if isinstance(one, str)]
    numbers = [one for one in constants if isinstance(one, int | float) and not isinstance(one, bool)]
    near = {int(one) + more for one in numbers for more in (-1, 0, 1, 2 * int(one)) if abs(one) < 10_000}
    whole: list[object] = [None, *sorted(near | {1, 2, 3})]
    broken: list[object] = [
        one + 0.5 if isinstance(one, int) and place % 2 == 0 else one for place, one in enumerate(whole)
    ]
    return {
        AttributeType.STRING: [None, *texts, *map(str, whole[1:4]), "a"],
        AttributeType.INT: whole,
        AttributeType.LONG: whole,
        AttributeType.FLOAT: broken,
        AttributeType.DOUBLE: broken,
        AttributeType.BOOL: [True, False, None],
        AttributeType.OBJECT: [None, *(json.dumps({"n": [one]}).encode() for one in whole)],
    }


def _parts(node: object) -> Iterator[object]:
    yield node
    if isinstance(node, tuple):
        for part in node:
            yield from _parts(part)
    elif dataclasses.is_dataclass(node):
        for field in dataclasses.fields(node):
            yield from _parts(getattr(node, field.name))
