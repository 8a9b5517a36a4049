"""The state of a stage that had another number of instances, shared out to those that it has now: every key's to the
instance that gets its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from query_plan.model import GroupingKind, ProcessingStage, instance_stage, stage_app
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.engine.redistribute import redistribute
from siddhi.errors import SnapshotError
from siddhi.scripts.language import ScriptPolicy
from topology.checkpoint.key_shares import key_shares
from topology.frames import arrow_schema
from topology.grouping import KeySharer, share_rows
from topology.merger import share_out
from topology.model import Topology
from topology.stages.contract import Parts
from topology.stages.partition_keys import ComputedKeys
from topology.stages.processor import ENGINE, HELD


@dataclass(frozen=True, slots=True)
class Rescaled:
    """The states of the stage's instances, in order; none when they begin anew, and then why."""

    states: tuple[Parts, ...]
    left: str = ""


def rescaled(
    topology: Topology, stage: ProcessingStage, former: Mapping[str, Parts], scripts: ScriptPolicy
) -> Rescaled:
    """What `former`, the states of all instances that the stage had, is for those that it has now."""
    apps = [
        analyse(stage_app(topology.plan, instance_stage(stage, index)), builtin_registry(scripts))
        for index in range(stage.parallel)
    ]
    states = [former[name] for name in sorted(former)]
    try:
        engines = redistribute([state[ENGINE] for state in states], apps, key_shares(stage))
    except SnapshotError as error:
        return Rescaled((), f"{stage.name} begins anew in {stage.parallel} instances: {error.problems[0].message}")
    parts: list[dict[str, bytes]] = [{ENGINE: engine} for engine in engines]
    held = [state[HELD] for state in states if HELD in state]
    if held:
        for part, rows in zip(parts, _held(topology, stage, held, scripts), strict=True):
            part[HELD] = rows
    return Rescaled(tuple(parts))


def _held(topology: Topology, stage: ProcessingStage, held: list[bytes], scripts: ScriptPolicy) -> list[bytes]:
    """Rows that wait for a watermark go to the instances that would get them if they came now."""
    inputs = {one.stream.id: one for one in stage.inputs}
    keys: dict[str, KeySharer] = {
        stream: ComputedKeys(topology.plan, stage, one, scripts)
        for stream, one in inputs.items()
        if one.grouping.partition is not None
    }

    def share(stream: str, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        return list(share_rows(batch, inputs[stream].grouping, stage.parallel, 0, keys.get(stream)))

    everywhere = {stream for stream, one in inputs.items() if one.grouping.kind is GroupingKind.ALL}
    schemas = {stream: arrow_schema(topology.streams[stream]) for stream in inputs}
    return share_out(held, schemas, everywhere, share, stage.parallel)
