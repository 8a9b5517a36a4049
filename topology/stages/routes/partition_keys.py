"""Computed partition keys, by an expression or by ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from query_plan.model import SHUFFLE, ProcessingStage, QueryPlan, StageInput, stage_app
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language import ast
from siddhi.scripts.language import ScriptPolicy, ScriptRunner
from topology.grouping import BoolArray, key_hashes

_KEY, _ROW = "key", "row"


class ComputedKeys:
    """Distributes the rows of one input of `stage` to its instances.

    A small engine computes the keys, so that they equal those of the stage's own partition. A row whose key cannot be
    computed goes to the first instance, which reports the error.
    """

    def __init__(
        self,
        plan: QueryPlan,
        stage: ProcessingStage,
        shared: StageInput,
        scripts: ScriptPolicy,
        script_runner: ScriptRunner | None = None,
    ) -> None:
        self._stage = stage
        self._stream = shared.stream.id
        self._row = _free_name(shared.stream)
        self._found: list[tuple[int, pa.RecordBatch]] = []
        key = shared.grouping.partition
        if isinstance(key, ast.RangePartition):
            self._labels: tuple[str, ...] = tuple(label for _, label in key.ranges)
            queries = [self._query(place, condition, None) for place, (condition, _) in enumerate(key.ranges)]
        elif key is not None:
            self._labels = ()
            queries = [self._query(0, None, key.expression)]
        else:
            raise ValueError(f"{self._stream} is not shared by a key that must be computed")
        row = ast.AttributeDefinition(self._row, ast.AttributeType.LONG)
        stream = ast.StreamDefinition(self._stream, (*shared.stream.attributes, row))
        small = ProcessingStage(
            name=stage.name, parallel=1, enforce_parallel=True, inputs=(StageInput(stream, SHUFFLE),), outputs=(),
            elements=tuple(queries), functions=stage.functions,
        )  # fmt: skip
        app = stage_app(replace(plan, playback=None), small)
        self._engine = AppRuntime(analyse(app, builtin_registry(scripts, script_runner)))
        for place in range(len(queries)):
            self._engine.add_stream_callback(self._target(place), partial(self._collect, place))
        self._engine.start()

    def __call__(self, batch: pa.RecordBatch, instances: int) -> Iterator[tuple[int, BoolArray]]:
        """Yield a mask of the rows of `batch` for each instance that gets some."""
        self._found.clear()
        self._engine.send(self._stream, batch.append_column(self._row, pa.array(range(batch.num_rows), pa.int64())))
        taken = self._by_label(batch.num_rows) if self._labels else self._by_value(batch.num_rows, instances)
        return ((index, mask) for index, mask in enumerate(taken) if mask.any())

    def _by_value(self, count: int, instances: int) -> list[BoolArray]:
        owners = np.zeros(count, dtype=np.int64)
        for _, found in self._found:
            owners[found.column(_ROW).to_numpy()] = key_hashes(found.column(_KEY)) % instances
        return [owners == index for index in range(instances)]

    def _by_label(self, count: int) -> list[BoolArray]:
        masks = [np.zeros(count, dtype=np.bool_) for _ in range(self._stage.parallel)]
        for place, found in self._found:
            masks[self._stage.owner(self._labels[place])][found.column(_ROW).to_numpy()] = True
        return masks

    def _collect(self, place: int, batch: pa.RecordBatch) -> None:
        self._found.append((place, batch))

    def _target(self, place: int) -> str:
        return f"{self._stream}_{_KEY}_{place}"

    def _query(self, place: int, condition: ast.Expression | None, key: ast.Expression | None) -> ast.Query:
        """Return `from S[condition] select key as key, row as row insert into S_key_0`, without what is None."""
        selected = [ast.OutputAttribute(ast.Attribute(self._row), _ROW)]
        if key is not None:
            selected.append(ast.OutputAttribute(key, _KEY))
        handlers = () if condition is None else (ast.FilterHandler(condition),)
        return ast.Query(
            ast.SingleInput(self._stream, handlers=handlers),
            ast.InsertInto(self._target(place)),
            ast.Selection(tuple(selected)),
        )


def _free_name(stream: ast.StreamDefinition) -> str:
    """Return a name for the row's number that no attribute has."""
    name = _ROW
    while name in {attribute.name for attribute in stream.attributes}:
        name += "_"
    return name
