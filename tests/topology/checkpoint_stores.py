"""Stores of checkpoints for tests, and small manifests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from cep_common.ids import PlanKey
from cep_common.messages import CheckpointSpan
from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.checkpoint.blobs import ObjectBlobs
from topology.checkpoint.model import Lineage, Manifest, needed_packs, new_pack
from topology.checkpoint.store import CheckpointStore, open_store
from topology.checkpoint.writer import Part, PartWriter

KEY = PlanKey(-1234, "Delays")
PLAN = """@Plan:name('Delays')
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='all') @dist(execGroup='all', parallel='3') from A select number insert into Out;
"""
KINDS = ("directory", "objects", "database")


def plan_xml() -> str:
    """The query plan of `PLAN`."""
    return write_xml(build(analyse(parse(PLAN))))


def store_of(kind: str, folder: Path) -> CheckpointStore:
    """A store of that kind whose files are below `folder`."""
    if kind == "database":
        return open_store(f"sqlite:///{folder}/checkpoints.db")
    if kind == "objects":
        (folder / "objects").mkdir(exist_ok=True)
        return CheckpointStore(
            "objects", ObjectBlobs(SubTreeFileSystem(str(folder / "objects"), LocalFileSystem()), "")
        )
    return open_store(str(folder / "checkpoints"))


def manifest_of(
    part: Part,
    checkpoint: int,
    before: Manifest | None = None,
    epoch: int = 1,
    attempt: int = 0,
    name: str = "",
    key: PlanKey = KEY,
) -> Manifest:
    """The checkpoint that consists of this part alone."""
    former = before.packs if before is not None else ()
    return Manifest(
        key=key,
        checkpoint=checkpoint,
        epoch=epoch,
        attempt=attempt,
        taken_ms=1_000 * checkpoint,
        query_plan="<query-plan/>",
        tasks=1,
        stages=(),
        states=part.states,
        packs=needed_packs(part.states, (*map(new_pack, part.packs), *former)),
        spans=(CheckpointSpan(epoch, attempt, checkpoint),),
        size_bytes=sum(state.size_bytes for state in part.states),
        stored_bytes=part.stored_bytes,
        duration_ms=1,
        alignment_ms=0,
        name=name,
    )


def take(
    store: CheckpointStore,
    writer: PartWriter,
    checkpoint: int,
    states: Mapping[str, bytes],
    before: Manifest | None = None,
    **fields: object,
) -> Manifest:
    """A complete checkpoint of one task is in the store."""
    manifest = manifest_of(writer.write(checkpoint, states), checkpoint, before, **fields)  # type: ignore[arg-type]
    store.write_manifest(manifest)
    writer.complete(checkpoint)
    return manifest


def lineage_of(*spans: tuple[int, int, int], reserved: int = 0, void: int = 0) -> Lineage:
    return Lineage(tuple(CheckpointSpan(*span) for span in spans), reserved, void)
