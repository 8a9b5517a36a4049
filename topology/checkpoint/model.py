"""The contents of a checkpoint, and their serialized form. Pure.

A checkpoint is a *manifest*: it lists, for each component instance, the chunks of its state and the packs (files of
chunks) that contain them. A chunk is named after its content, so that unchanged chunks are not stored again, and any
damage is detected. A checkpoint without a manifest does not exist.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import StoredPack, StoredState
from cep_common.protocol.registry import CheckpointSpan
from query_plan.xml import read_xml
from topology.checkpoint.errors import OTHER_VERSION, CheckpointUnreadableError
from topology.model import Topology

FORMAT_VERSION = 1
_MAGIC = b"CEPCHKPT"
_SEAL = struct.Struct(">8sH32sQ")
"""Magic, version, digest (see `_digest`), length of the body."""

NAME_BYTES = 16
MOST_SPANS = 64
"""The number of the newest attempts that are remembered."""
MOST_FORMER = 64
"""The number of former plans of the name that are remembered."""

Sealed = TypeVar("Sealed", bound=msgspec.Struct)


class StageRecord(msgspec.Struct, frozen=True):
    """A component of the topology that was running, and how many instances it had."""

    name: str
    kind: str
    parallel: int


class Pack(msgspec.Struct, frozen=True):
    """A file of chunks.

    It lists those that a checkpoint needs, as (name, offset, length). `size_bytes` is the size of the whole file.
    """

    name: str
    size_bytes: int
    chunks: tuple[tuple[str, int, int], ...]


class Manifest(msgspec.Struct, frozen=True):
    """A complete checkpoint of a plan, taken at `taken_ms` (time of day) by attempt `attempt` of `epoch`.

    The query plan is kept as it was, so that a savepoint can be understood by an edited plan. `size_bytes` is the size
    of all states, `stored_bytes` what this checkpoint added to the store. `spans` ends with the attempt that took it.
    `name` is that of a savepoint, else empty. The plan was deployed first at `deployed_ms`, which distinguishes plans
    of one name; 0: not known, an earlier version wrote this.
    """

    key: PlanKey
    checkpoint: int
    epoch: int
    attempt: int
    taken_ms: int
    query_plan: str
    tasks: int
    stages: tuple[StageRecord, ...]
    states: tuple[StoredState, ...]
    packs: tuple[Pack, ...]
    spans: tuple[CheckpointSpan, ...]
    size_bytes: int
    stored_bytes: int
    duration_ms: int
    alignment_ms: int
    name: str = ""
    deployed_ms: int = 0

    def fingerprint(self) -> str:
        """Return the fingerprint of the query plan that was running."""
        return fingerprint(self.query_plan)

    def state(self, instance: str) -> StoredState | None:
        """Return the state of `instance`; None if it had none."""
        return next((state for state in self.states if state.instance == instance), None)


class Lineage(msgspec.Struct, frozen=True):
    """The checkpoints of a plan that count.

    These are the checkpoints of the attempts in `spans`, oldest first, up to the last that each span names. The last
    span is that of the newest attempt: all its complete checkpoints count, and its `last` is 0. Numbers up to
    `reserved` may have been used. Checkpoints up to `void` no longer count, since the plan was started without state,
    or from the savepoint that `base` refers to, which counts as long as no checkpoint does.

    The lineage belongs to the plan that was first deployed at `deployed_ms`, 0: unknown. Other plans of its name that
    had checkpoints here before it, identified by the same time, are `former`, the newest last.
    """

    spans: tuple[CheckpointSpan, ...] = ()
    reserved: int = 0
    void: int = 0
    base: str = ""
    deployed_ms: int = 0
    former: tuple[int, ...] = ()

    def counts(self, epoch: int, attempt: int, checkpoint: int) -> bool:
        """Return whether a run may begin from the checkpoint with this number, taken by that attempt."""
        # Voided when the plan was deployed again or restarted from elsewhere: an old state must not return.
        if checkpoint <= self.void or not self.spans:
            return False
        newest = self.spans[-1]
        # The running attempt may complete more checkpoints at any time; former ones count only up to the one from which
        # their successor began.
        if (epoch, attempt) == (newest.epoch, newest.attempt):
            return True
        return any((epoch, attempt) == (span.epoch, span.attempt) and checkpoint <= span.last for span in self.spans)

    def newest(self) -> tuple[int, int]:
        """Epoch and attempt of the topology that began last; zeros when there was none."""
        return (self.spans[-1].epoch, self.spans[-1].attempt) if self.spans else (0, -1)

    def passed_on(self, deployed_ms: int, highest: int) -> Lineage:
        """Return the lineage of another plan of the name, first deployed at `deployed_ms`.

        No checkpoint up to `highest` counts for it.
        """
        former = (*(one for one in self.former if one != deployed_ms), self.deployed_ms)
        return Lineage(reserved=highest, void=highest, deployed_ms=deployed_ms, former=former[-MOST_FORMER:])


def fingerprint(query_plan: str) -> str:
    """Return the fingerprint of a query plan in XML."""
    return hashlib.sha256(query_plan.encode("utf-8", "surrogatepass")).hexdigest()


def chunk_name(data: bytes | memoryview) -> str:
    """Return the name of a chunk, the SHA-256 of its content."""
    return hashlib.sha256(data).hexdigest()[: 2 * NAME_BYTES]


def stages_of(key: PlanKey, epoch: int, query_plan: str, tasks: int) -> tuple[StageRecord, ...]:
    """Return the components of the topology of a query plan in XML."""
    topology = Topology(key, epoch, read_xml(query_plan), tasks)
    return tuple(StageRecord(one.name, one.kind, one.parallel) for one in topology.components)


def new_pack(pack: StoredPack) -> Pack:
    """Return a pack that was just written, in which every chunk is needed."""
    return Pack(pack.name, sum(length for _, _, length in pack.chunks), pack.chunks)


def needed_packs(states: Iterable[StoredState], packs: Iterable[Pack]) -> tuple[Pack, ...]:
    """Return those of `packs` that contain chunks of `states`, each needed chunk in one pack only.

    Raises:
        CheckpointUnreadableError: When no pack holds a chunk.
    """
    missing = {name for state in states for name in state.chunks}
    found = []
    for pack in packs:
        here = []
        for chunk in pack.chunks:
            # A chunk may be in several packs; the first one counts, so that the others may become garbage.
            if chunk[0] in missing:
                missing.remove(chunk[0])
                here.append(chunk)
        if here:
            found.append(Pack(pack.name, pack.size_bytes, tuple(here)))
    if missing:
        raise CheckpointUnreadableError("missing", f"{len(missing)} pieces of its state were never stored")
    return tuple(found)


def with_span(spans: tuple[CheckpointSpan, ...], span: CheckpointSpan) -> tuple[CheckpointSpan, ...]:
    """Return the newest of `spans`, with `span` for its attempt.

    Former attempts without final results are left out, which means the same.
    """
    others = tuple(one for one in spans if one.last and (one.epoch, one.attempt) != (span.epoch, span.attempt))
    # Bounded, since it is rewritten with every checkpoint of a plan that may run for years.
    return (*others, span)[-MOST_SPANS:]


def seal(value: msgspec.Struct) -> bytes:
    """Return `value` in its stored form, with a checksum that detects truncation and damage."""
    body = msgspec.msgpack.encode(value)
    return _SEAL.pack(_MAGIC, FORMAT_VERSION, _digest(FORMAT_VERSION, body), len(body)) + body


def unseal(data: bytes, kind: type[Sealed], what: str) -> Sealed:
    """Return the content of a sealed file.

    Raises:
        CheckpointUnreadableError: When it cannot be read; the message calls it `what`.
    """
    # Distinguish a truncated header from a file of another kind.
    if data[: len(_MAGIC)] != _MAGIC:
        reason = "torn" if len(data) < _SEAL.size else "foreign"
        raise CheckpointUnreadableError(reason, f"{what} is not a checkpoint of this system")
    if len(data) < _SEAL.size:
        raise CheckpointUnreadableError("torn", f"{what} ends inside its header")
    _, version, digest, length = _SEAL.unpack_from(data)
    body = memoryview(data)[_SEAL.size :]
    # Before the digest, for the message: a wrong length is an interrupted write, a wrong digest with the right length
    # is damage.
    if len(body) != length:
        raise CheckpointUnreadableError("torn", f"{what} has {len(body)} of {length} bytes")
    if _digest(version, body) != digest:
        raise CheckpointUnreadableError("damaged", f"{what} does not match its checksum")
    # After the digest: an intact file of another version must not be reported as damaged.
    if version != FORMAT_VERSION:
        known = f"this version reads format {FORMAT_VERSION}: run the version that wrote it"
        raise CheckpointUnreadableError(OTHER_VERSION, f"{what} was written in format {version}, {known}")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointUnreadableError("foreign", f"{what} has unexpected content: {error}") from error


def _digest(version: int, body: bytes | memoryview) -> bytes:
    """Return the SHA-256 of what a sealed file of format `version` holds.

    From format 2 on it includes the version: a file with a damaged version is damaged, not one of another version.
    """
    digest = hashlib.sha256(b"" if version == 1 else version.to_bytes(2, "big"))
    digest.update(body)
    return digest.digest()
