"""Stores of checkpoints for tests, and small manifests."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from s3_server import s3_server

from cep_common.ids import PlanKey
from cep_common.protocol.registry import CheckpointSpan
from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.checkpoint.model import Lineage, Manifest, needed_packs, new_pack
from topology.checkpoint.storage.blobs import ObjectBlobs
from topology.checkpoint.storage.store import CheckpointStore, open_store
from topology.checkpoint.storage.writer import PartWriter, StoredPart

KEY = PlanKey(-1234, "Delays")
PLAN = """@Plan:name('Delays')
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='all') @dist(execGroup='all', parallel='3') from A select number insert into Out;
"""
KINDS = ("directory", "objects", "database")
NAMED = {"s3": os.environ.get("CEP_S3_STORE", ""), "gcs": os.environ.get("CEP_GCS_STORE", "")}
"""Stores on servers that are not ours: a checkpoint.location each, with a bucket that is there."""
SERVERS = [kind for kind, location in NAMED.items() if location or kind == "s3"]
"""Kinds of stores that are on a server. S3 is spoken with one in this process when no other is named."""


def plan_xml() -> str:
    """The query plan of `PLAN`."""
    return write_xml(build(analyse(parse(PLAN))))


def of_version(data: bytes, version: int) -> bytes:
    """What another version of the software, with files of format `version`, would have written for a sealed file."""
    number, body = version.to_bytes(2, "big"), data[50:]
    return data[:8] + number + hashlib.sha256(number + body).digest() + data[42:50] + body


def store_of(kind: str, folder: Path) -> CheckpointStore:
    """A store of that kind whose files are below `folder`."""
    if kind == "database":
        return open_store(f"sqlite:///{folder}/checkpoints.db")
    if kind == "objects":
        (folder / "objects").mkdir(exist_ok=True)
        system = SubTreeFileSystem(str(folder / "objects"), LocalFileSystem())
        return CheckpointStore("objects", ObjectBlobs(system, "", "objects"))
    return open_store(str(folder / "checkpoints"))


@contextmanager
def store_on_server(kind: str) -> Iterator[CheckpointStore]:
    """An empty store of that kind, one of `SERVERS`, in a folder of its own."""
    with ExitStack() as stack:
        location = NAMED[kind] or stack.enter_context(s3_server()).location("checkpoints%20of/tests")
        place, joint, options = location.partition("?")
        yield open_store(f"{place.rstrip('/')}/{secrets.token_hex(6)}{joint}{options}")


def manifest_of(
    part: StoredPart,
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


def spoil(store: CheckpointStore, part: str, change: Callable[[bytes], bytes]) -> None:
    """Of what is kept in the folder `part` of the plan, the newest does not match its checksum any more."""
    blobs = store._blobs
    name = f"{KEY.tenant}/{KEY.plan}/{part}/{max(blobs.sizes(f'{KEY.tenant}/{KEY.plan}/{part}'))}"
    blobs.put(name, [change(blobs.get(name))])


def lineage_of(*spans: tuple[int, int, int], reserved: int = 0, void: int = 0) -> Lineage:
    return Lineage(tuple(CheckpointSpan(*span) for span in spans), reserved, void)
