"""Redistribute the state of a stage whose number of instances has changed.

The state of each key goes to the instance that gets its events now. If the stage was edited as well, the unchanged
parts of the state are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from query_plan.model import GroupingKind, ProcessingStage, instance_stage, stage_app
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.model import AnalysedApp
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.migration.rescale import adopt, redistribute
from siddhi.engine.snapshots.matching import match_parts
from siddhi.engine.snapshots.snapshot import read_snapshot
from siddhi.errors import SnapshotError
from siddhi.scripts.language import ScriptPolicy
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.grouping import KeySharer, share_rows
from topology.model import Topology
from topology.stages.contract import NO_STATE, Parts
from topology.stages.kinds.processor import ENGINE, HELD, OF_ANOTHER_APP, SHARED, held_schemas
from topology.stages.routes.partition_keys import ComputedKeys
from topology.stages.state.key_shares import key_shares
from topology.time.merger import held_streams, share_out


@dataclass(frozen=True, slots=True)
class Rescaled:
    """The states of the stage's instances, in order, and descriptions of state that could not be used.

    There are none when the instances begin without state; then it says why.
    """

    states: tuple[Parts, ...]
    left: tuple[str, ...] = ()


def rescaled(
    topology: Topology, stage: ProcessingStage, former: Mapping[str, Parts], scripts: ScriptPolicy
) -> Rescaled:
    """Return the states of the present instances from `former`, the states of all former instances.

    Raises:
        TopologyError: When rows wait that the stage no longer takes.
    """
    if stage.sync == "entry":
        return Rescaled(tuple(NO_STATE for _ in range(stage.parallel)))  # the stage is stateless
    states = [former[name] for name in sorted(former, key=_index)]
    lost: tuple[str, ...] | None = None
    if all(SHARED in state for state in states):
        states, lost = _one_of(stage, states)
    if len(states) == 1 and (stage.sync == "replica" or (lost is not None and stage.parallel == 1)):
        copies = tuple({ENGINE: states[0][ENGINE]} for _ in range(stage.parallel))
        return Rescaled(copies, (lost or ()) + _lost_rows(stage, states[0].get(HELD)))
    if stage.sync == "replica":
        return _copied(topology, stage, states, scripts)
    try:
        engines, left = _engines(topology, stage, [state[ENGINE] for state in states], scripts)
    except SnapshotError as error:
        why = f"{stage.name} starts empty in {stage.parallel} instances: {error.problems[0].message}"
        return Rescaled((), (why,))
    left += lost or ()
    parts: list[dict[str, bytes]] = [{ENGINE: engine} for engine in engines]
    held = [state[HELD] for state in states if HELD in state]
    if held:
        for part, rows in zip(parts, _held(topology, stage, held, scripts), strict=True):
            part[HELD] = rows
    return Rescaled(tuple(parts), left)


def _one_of(stage: ProcessingStage, replicas: list[Parts]) -> tuple[list[Parts], tuple[str, ...]]:
    """Return the state of the first replica, which all replicas share, and the parts that cannot leave the group."""
    first = dict(replicas[0])
    return [first], _lost_rows(stage, first.pop(HELD, None))


def _copied(topology: Topology, stage: ProcessingStage, states: list[Parts], scripts: ScriptPolicy) -> Rescaled:
    """Return the joined state of the former instances for each replica."""
    whole = replace(stage, parallel=1, sync="")
    try:
        (engine,), left = _engines(topology, whole, [state[ENGINE] for state in states], scripts)
    except SnapshotError as error:
        why = f"{stage.name} starts empty in {stage.parallel} instances: {error.problems[0].message}"
        return Rescaled((), (why,))
    left += tuple(text for state in states for text in _lost_rows(stage, state.get(HELD)))
    return Rescaled(tuple({ENGINE: engine} for _ in range(stage.parallel)), left)


def _lost_rows(stage: ProcessingStage, held: bytes | None) -> tuple[str, ...]:
    streams = held_streams(held) if held is not None else set()
    return (f"{stage.name}: events of {', '.join(sorted(streams))} that waited for their turn",) if streams else ()


def in_common(state: Parts, topology: Topology, stage: ProcessingStage, scripts: ScriptPolicy) -> int:
    """Return the number of state parts of another stage that the stage can use.

    0 when rows wait there of streams that it does not read.
    """
    if ENGINE not in state:
        return 0
    inputs = {one.stream.id for one in stage.inputs}
    if HELD in state and not held_streams(state[HELD]) <= inputs:
        return 0
    saved = [part.definition for part in read_snapshot(state[ENGINE]).parts]
    present = [part.definition for part in AppRuntime(_apps(topology, stage, scripts)[0]).state.parts]
    return len(match_parts(saved, present))


def _engines(
    topology: Topology, stage: ProcessingStage, former: list[bytes], scripts: ScriptPolicy
) -> tuple[list[bytes], tuple[str, ...]]:
    """Return the states of the engines, and descriptions of state that could not be used."""
    apps, shares = _apps(topology, stage, scripts), key_shares(stage)
    try:
        return redistribute(former, apps, shares), ()
    except SnapshotError as error:
        if error.problems[0].code != OF_ANOTHER_APP:
            raise
    adopted = adopt(former, _apps(topology, replace(stage, parallel=len(former)), scripts))
    left = tuple(f"{stage.name}: {part}" for part in adopted.left)
    return redistribute(adopted.snapshots, apps, shares, adopted.begun), left


def _apps(topology: Topology, stage: ProcessingStage, scripts: ScriptPolicy) -> list[AnalysedApp]:
    """Return the app of each of the stage's instances."""
    registry = builtin_registry(scripts)
    return [
        analyse(stage_app(topology.plan, instance_stage(stage, index)), registry) for index in range(stage.parallel)
    ]


def _index(instance: str) -> int:
    return int(instance.rpartition("#")[2])


class _StateSchemas(dict[str, pa.Schema]):
    """The schemas of a stage's inputs."""

    def __missing__(self, stream: str) -> pa.Schema:
        raise TopologyError(STATE_UNREADABLE, f"rows of {stream} are held, which is not an input of the stage")


def _held(topology: Topology, stage: ProcessingStage, held: list[bytes], scripts: ScriptPolicy) -> list[bytes]:
    """Distribute rows that wait for a watermark as new events would be."""
    inputs = {one.stream.id: one for one in stage.inputs}
    keys: dict[str, KeySharer] = {
        stream: ComputedKeys(topology.plan, stage, one, scripts)
        for stream, one in inputs.items()
        if one.grouping.partition is not None
    }

    def share(stream: str, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        return list(share_rows(batch, inputs[stream].grouping, stage.parallel, 0, keys.get(stream)))

    everywhere = {stream for stream, one in inputs.items() if one.grouping.kind is GroupingKind.ALL}
    schemas = _StateSchemas(held_schemas(topology, inputs))
    return share_out(held, schemas, everywhere, share, stage.parallel)
