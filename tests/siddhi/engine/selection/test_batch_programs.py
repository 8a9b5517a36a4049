"""Expressions of small batches in one call give the same results as numpy, operation by operation."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.operators.expressions.batch_program import ProgramNode
from siddhi.engine.operators.expressions.evaluation import Evaluation, broadcast
from siddhi.engine.tuning import MAX_PROGRAM_ROWS
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse

TYPES = {
    "i": AttributeType.INT,
    "l": AttributeType.LONG,
    "f": AttributeType.FLOAT,
    "d": AttributeType.DOUBLE,
    "b": AttributeType.BOOL,
    "s": AttributeType.STRING,
}
STREAM = "define stream S (i int, l long, f float, d double, b bool, s string);"
EDGES: dict[str, list[object]] = {
    "i": [0, 1, -1, 7, -7, 2**31 - 1, -(2**31)],
    "l": [0, 1, -1, 7, -7, 2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63)],
    "f": [0.0, -0.0, 1.5, -7.25, 16777216.0, 3e38, float("inf"), float("nan")],
    "d": [0.0, -0.0, 0.1, -7.3, 2.0**53, 1e300, float("-inf"), float("nan")],
    "b": [True, False],
    "s": ["a", "b", "c"],
}
NUMBERS = ["i", "l", "f", "d", "0", "3", "-2", "5L", "2.5f", "0.1", "1e3"]


def number(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(NUMBERS)
    return f"({number(draw, depth - 1)} {draw.choice('+-*/%')} {number(draw, depth - 1)})"


def truth(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return draw.choice(["b", "s == 'a'", "s != 'b'", "s is null", "b == true"])
    match draw.randrange(6):
        case 0:
            return f"({truth(draw, depth - 1)} and {truth(draw, depth - 1)})"
        case 1:
            return f"({truth(draw, depth - 1)} or {truth(draw, depth - 1)})"
        case 2:
            return f"not ({truth(draw, depth - 1)})"
        case 3:
            return f"{draw.choice(list(TYPES))} is null"
        case _:
            sign = draw.choice(["<", "<=", ">", ">=", "==", "!="])
            return f"{number(draw, depth - 1)} {sign} {number(draw, depth - 1)}"


def made(draw: random.Random, runtime: AppRuntime, size: int, nulls: float) -> EventBatch:
    columns = {
        name: Column.of(type_, runtime.pool, [_item(draw, name, nulls) for _ in range(size)])
        for name, type_ in TYPES.items()
    }
    times = np.arange(size)
    return EventBatch(times, None, 2 * times + 1, times, columns, only_current=True)


def _item(draw: random.Random, name: str, nulls: float) -> object:
    return None if draw.random() < nulls else draw.choice(EDGES[name])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_program_gives_what_numpy_gives(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - no secret
    texts = [number(draw, 3) for _ in range(6)] + [truth(draw, 3) for _ in range(6)]
    selected = ", ".join(f"{text} as x{place}" for place, text in enumerate(texts))
    runtime = AppRuntime(analyse(parse(f"{STREAM} @info(name='q') from S select {selected} insert into Out;")))
    nodes = [node for _, _, node in runtime._queries["q"].selector.outputs]  # type: ignore[union-attr] # no fused one
    programs = [(text, node) for text, node in zip(texts, nodes, strict=True) if isinstance(node, ProgramNode)]
    assert programs
    for size, nulls in ((0, 0.0), (1, 0.0), (1, 0.5), (7, 0.3), (MAX_PROGRAM_ROWS, 0.1)):
        batch = made(draw, runtime, size, nulls)
        for text, node in programs:
            with np.errstate(all="ignore"):
                values, valid = node.evaluate(Evaluation(batch))
                expected, known = broadcast(node.plain.evaluate(Evaluation(batch)), size)
            assert values.dtype == expected.dtype, text
            there = np.ones(size, dtype=np.bool_) if known is None else known
            assert (np.ones(size, dtype=np.bool_) if valid is None else valid).tolist() == there.tolist(), text
            np.testing.assert_array_equal(values[there], expected[there], err_msg=text)


def test_columns_that_are_cut_out_and_strings_that_come_later() -> None:
    text = "from S[s == 'late' and d * 2.0 > 3.0] select s insert into Out;"
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} @info(name='q') {text}")))
    node = runtime._queries["q"].chain[0].condition  # type: ignore[attr-defined] # a filter
    assert isinstance(node, ProgramNode)
    batch = made(random.Random(1), runtime, 20, 0.2)  # noqa: S311 - no secret
    columns = {**batch.columns, "s": Column.of(AttributeType.STRING, runtime.pool, ["late", None] * 10)}
    strided = {name: Column(one.type, one.pool, one.values[::2], _every_other(one)) for name, one in columns.items()}
    part = EventBatch(np.arange(10), None, np.arange(10), np.arange(10), strided, only_current=True)
    assert node.passing(Evaluation(part)).tolist() == node.plain.passing(Evaluation(part)).tolist()
    assert len(node.passing(Evaluation(part)))


def _every_other(column: Column) -> np.ndarray | None:
    return None if column.valid is None else column.valid[::2]
