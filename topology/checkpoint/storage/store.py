"""The store of checkpoints: manifests, savepoints, packs and the lineage of each plan, on top of `Blobs`.

    <tenant>/<plan>/lineage                           which checkpoints are valid, and which numbers were assigned
    <tenant>/<plan>/checkpoints/<number>-<epoch>-<attempt>
    <tenant>/<plan>/checkpoints/<number>-<epoch>-<attempt>-damaged    why no topology can begin from it
    <tenant>/<plan>/savepoints/<name>
    <tenant>/<plan>/copies/checkpoints/… and copies/savepoints/…      the same manifests, for when the first is damaged
    <tenant>/<plan>/copies/lineage                    the same lineage
    <tenant>/<plan>/packs/<pack>
    <tenant>/<plan>/copies/packs/<pack>               the same packs, of plans that deliver exactly once

A *reference* is the name of a manifest in the store, from its tenant on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from cep_common.ids import PlanKey
from topology.checkpoint.errors import OTHER_VERSION, CheckpointError, CheckpointUnreadableError
from topology.checkpoint.model import Lineage, Manifest, Pack, chunk_name, seal, unseal
from topology.checkpoint.storage.blobs import Blobs, Buffer, DirectoryBlobs, Range, safe_name
from topology.checkpoint.storage.object_stores import open_objects

logger = logging.getLogger(__name__)

_MANIFEST = re.compile(r"(\d{19})-(\d+)-(\d+)", re.ASCII)
_DAMAGED = "-damaged"
_CHECKED = "checked"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_DATABASES = ("sqlite", "postgresql", "mysql", "mariadb", "oracle", "mssql")
_NEAR_BYTES = 256 * 1024
"""Chunks that are no further apart are read in one request."""

Warn = Callable[[str], None]


class ManifestName(msgspec.Struct, frozen=True, order=True):
    """A manifest by its name alone."""

    checkpoint: int
    epoch: int
    attempt: int

    def name(self) -> str:
        """Return the last part of its reference."""
        return f"{self.checkpoint:019d}-{self.epoch}-{self.attempt}"


class Savepoint(msgspec.Struct, frozen=True):
    """A savepoint in the store; one without a manifest has another version, as `problem` says."""

    key: PlanKey
    name: str
    manifest: Manifest | None
    problem: str = ""

    def age(self) -> tuple[int, str]:
        """Return when it was taken, and its name, for sorting."""
        return self.manifest.taken_ms if self.manifest is not None else 0, self.name


class CheckpointStore:
    """All plans' checkpoints in `blobs`.

    Any thread of any process may use it. Every call raises StoreUnreachableError when the store cannot be used, and
    calls that read raise CheckpointUnreadableError.
    """

    def __init__(self, location: str, blobs: Blobs) -> None:
        self.location = location
        self._blobs = blobs
        self._damaged_packs: set[str] = set()
        """Packs that were found damaged here although they have their size."""

    def check(self) -> None:
        """Check that the store is writable by writing and deleting an object. Raises StoreUnreachableError."""
        self._blobs.put(_CHECKED, [b"checked"])
        self._blobs.delete(_CHECKED)

    # ---- packs ------------------------------------------------------------------------------------------------------

    def write_pack(self, key: PlanKey, pack: str, pieces: Sequence[Buffer], *, twice: bool = False) -> None:
        """Store the chunks in `pieces`, one after the other, as `pack`; with `twice` a second time in `copies`."""
        reference = _pack_reference(key, pack)
        self._blobs.put(reference, pieces)
        if twice:
            self._put_copy(reference, pieces)

    def pack_sizes(self, key: PlanKey) -> dict[str, int]:
        """Return the sizes of all packs in the store."""
        return self._blobs.sizes(f"{_folder(key)}/packs")

    def stored_twice(self, key: PlanKey, packs: Iterable[Pack]) -> tuple[Pack, ...]:
        """Return those of `packs` of which the store has two copies of the right size, neither known to be damaged."""
        sizes, copies = self.pack_sizes(key), self._copy_sizes(key)
        return tuple(
            pack
            for pack in packs
            if sizes.get(pack.name) == copies.get(pack.name) == pack.size_bytes and pack.name not in self._damaged_packs
        )

    def has_twice(self, key: PlanKey, pack: str, chunks: Iterable[tuple[str, int, int]]) -> bool:
        """Read chunks, given by name, offset and length, from both copies of a pack; return whether all are whole."""
        wanted = sorted((offset, length, name) for name, offset, length in chunks)
        reference = _pack_reference(key, pack)
        try:
            for one in (reference, _copy_of(reference)):
                self._read_at(one, f"{self.location}/{one}", wanted)
        except CheckpointUnreadableError as error:
            logger.warning("pack is damaged, what is needed of it is stored again: %s", error)
            return False
        return True

    def read_chunks(self, key: PlanKey, packs: Iterable[Pack], wanted: Iterable[str]) -> dict[str, bytes]:
        """Return the chunks with these names, after checking that they are unchanged.

        Where a pack is damaged or missing, its copy is read if there is one.
        """
        missing = set(wanted)
        found: dict[str, bytes] = {}
        for pack in packs:
            here = sorted((offset, length, name) for name, offset, length in pack.chunks if name in missing)
            if not here:
                continue
            chunks = self._read_pack(key, pack.name, here)
            found.update(chunks)
            missing -= chunks.keys()
        if missing:
            raise CheckpointUnreadableError("missing", f"{len(missing)} pieces of {key.topology()} are in no pack")
        return found

    def _read_pack(self, key: PlanKey, pack: str, wanted: Sequence[tuple[int, int, str]]) -> dict[str, bytes]:
        reference = _pack_reference(key, pack)
        where = f"{self.location}: pack {pack} of {key.topology()}"
        try:
            return self._read_at(reference, where, wanted)
        except CheckpointUnreadableError as error:
            try:
                chunks = self._read_at(_copy_of(reference), where, wanted)
            except CheckpointUnreadableError:
                raise error from None
            self._damaged_packs.add(pack)
            logger.warning("pack cannot be used, its copy is: %s", error)
            return chunks

    def _read_at(self, reference: str, where: str, wanted: Sequence[tuple[int, int, str]]) -> dict[str, bytes]:
        """Return the chunks that are `wanted`, each by offset, length and name, of the pack stored as `reference`."""
        found = {}
        spans = _joined([(offset, length) for offset, length, _ in wanted])
        parts = iter(zip(spans, self._blobs.get_ranges(reference, spans), strict=True))
        (start, size), part = next(parts)
        for offset, length, name in wanted:
            while offset >= start + size:
                (start, size), part = next(parts)
            chunk = part[offset - start : offset - start + length]
            if chunk_name(chunk) != name:
                raise CheckpointUnreadableError("damaged", f"{where} is damaged at byte {offset}")
            found[name] = chunk
        return found

    # ---- manifests --------------------------------------------------------------------------------------------------

    def write_manifest(self, manifest: Manifest) -> str:
        """Complete the checkpoint, whose packs must all be stored, and return its reference.

        A named one is kept as a savepoint too.

        Raises:
            CheckpointUnreadableError: When one of its packs is not in the store.
        """
        incomplete = self._incomplete_pack(manifest)
        if incomplete:
            raise CheckpointUnreadableError(
                "missing",
                f"{self.location} has no complete pack {incomplete}, which a task has written: "
                "checkpoint.location must be shared by the "
                f"driver and all hosts of topologies",
            )
        taken = ManifestName(manifest.checkpoint, manifest.epoch, manifest.attempt)
        reference = f"{_folder(manifest.key)}/checkpoints/{taken.name()}"
        data = seal(manifest)
        self._put_twice(reference, data)
        if manifest.name:
            self._put_twice(self.savepoint_reference(manifest.key, manifest.name), data)
        return reference

    def read_manifest(self, reference: str) -> Manifest:
        """Return the checkpoint or savepoint with this reference, or its copy when that is damaged or missing.

        Beginning from an older one would emit results again that sinks have received already.
        """
        try:
            return unseal(self._blobs.get(reference), Manifest, f"{self.location}/{reference}")
        except CheckpointUnreadableError as error:
            copy = _copy_of(reference)
            try:
                data = self._blobs.get(copy)
                manifest = unseal(data, Manifest, f"{self.location}/{copy}")
            except CheckpointUnreadableError:
                raise error from None
            logger.warning("manifest cannot be used, its copy is: %s", error)
            try:
                self._blobs.put(reference, [data])  # or damage to the copy, too, would leave none
            except CheckpointError as failed:
                logger.warning("manifest is not stored again: reference=%s reason=%s", reference, failed)
            return manifest

    def taken(self, key: PlanKey) -> list[ManifestName]:
        """Return all checkpoints of the plan, newest number first, whether they count or not."""
        folder = f"{_folder(key)}/checkpoints"
        names = {*self._blobs.sizes(folder), *self._blobs.sizes(_copy_of(folder))}
        found = (_MANIFEST.fullmatch(name) for name in names)
        return sorted(
            (ManifestName(*(int(group) for group in match.groups())) for match in found if match), reverse=True
        )

    def reference(self, key: PlanKey, taken: ManifestName) -> str:
        """Return the reference of a checkpoint."""
        return f"{_folder(key)}/checkpoints/{taken.name()}"

    def newest(self, key: PlanKey, lineage: Lineage, warn: Warn) -> tuple[str, Manifest] | None:
        """Return the newest valid and readable checkpoint, with its reference; None if there is none.

        `warn` is called for each damaged one.

        Raises:
            CheckpointUnreadableError: For one of another version. An older checkpoint would undo what it holds.
        """
        names = self._blobs.sizes(f"{_folder(key)}/checkpoints")
        for taken in self.taken(key):
            if not lineage.counts(taken.epoch, taken.attempt, taken.checkpoint):
                continue
            reference = self.reference(key, taken)
            try:
                self._refuse_condemned(reference, names)
                manifest = self.read_manifest(reference)
                _check_origin(manifest, key, reference)
                self._check_packs(manifest)
            except CheckpointUnreadableError as error:
                if error.reason_code == OTHER_VERSION:
                    raise
                warn(f"checkpoint {taken.checkpoint} of {key.topology()} is passed over: {error}")
                continue
            return reference, manifest
        return None

    def delete_checkpoint(self, key: PlanKey, taken: ManifestName) -> None:
        """Delete the checkpoint; its packs stay until `sweep`."""
        reference = self.reference(key, taken)
        for name in (_copy_of(reference), reference, reference + _DAMAGED):
            self._blobs.delete(name)

    def condemn(self, reference: str, reason: str) -> None:
        """Mark a damaged checkpoint, so that `newest` skips it and says why.

        The damage of a piece shows only when all of it is read. A savepoint is requested by its name, so it is not
        marked.
        """
        if is_checkpoint(reference):
            self._blobs.put(reference + _DAMAGED, [reason.encode()])

    # ---- savepoints -------------------------------------------------------------------------------------------------

    def savepoint(self, key: PlanKey, name: str) -> tuple[str, Manifest]:
        """Return the savepoint of this name with its reference."""
        reference = self.savepoint_reference(key, name)
        try:
            manifest = self.read_manifest(reference)
        except CheckpointUnreadableError as error:
            if error.reason_code != "missing":
                raise
            raise CheckpointUnreadableError("missing", f"{key.plan} has no savepoint named {name}") from error
        _check_origin(manifest, key, reference)
        self._check_packs(manifest)
        return reference, manifest

    def savepoints(self, warn: Warn) -> list[Savepoint]:
        """Return all readable savepoints of all plans, oldest first; call `warn` for damaged ones."""
        found: list[Savepoint | None] = []
        for tenant in self._blobs.folders(""):
            for plan in self._blobs.folders(tenant):
                found += [self._savepoint(one, warn) for one in self._savepoint_references(f"{tenant}/{plan}")]
        return sorted((one for one in found if one is not None), key=Savepoint.age)

    def savepoint_reference(self, key: PlanKey, name: str) -> str:
        """Return the reference of the savepoint of this name, if there is one."""
        return f"{_folder(key)}/savepoints/{safe_name(name)}"

    def keep(self, manifest: Manifest, name: str) -> None:
        """Keep the checkpoint as a savepoint too."""
        data = seal(msgspec.structs.replace(manifest, name=name))
        self._put_twice(self.savepoint_reference(manifest.key, name), data)

    def copy_to_savepoint(self, key: PlanKey, reference: str, name: str) -> None:
        """Keep the checkpoint as a savepoint, byte for byte: this version cannot read it."""
        self._put_twice(self.savepoint_reference(key, name), self._blobs.get(reference))

    def delete_savepoint(self, key: PlanKey, name: str) -> None:
        """Delete both copies of the savepoint's manifest, so that it no longer exists."""
        reference = self.savepoint_reference(key, name)
        for one in (_copy_of(reference), reference):
            self._blobs.delete(one)

    # ---- lineage ----------------------------------------------------------------------------------------------------

    def lineage(self, key: PlanKey) -> Lineage:
        """Return the plan's lineage: which checkpoints are valid.

        Raises:
            CheckpointUnreadableError: When the lineage is damaged, or missing while there are checkpoints or its copy.
        """
        reference = f"{_folder(key)}/lineage"
        try:
            return unseal(self._blobs.get(reference), Lineage, f"{self.location}/{reference}")
        except CheckpointUnreadableError as error:
            if error.reason_code != "missing" or self.taken(key) or self.lineage_copy(key) is not None:
                raise
            return Lineage()

    def lineage_copy(self, key: PlanKey) -> Lineage | None:
        """Return the second copy of the lineage, which may be older than the first; None if it cannot be read."""
        reference = _copy_of(f"{_folder(key)}/lineage")
        try:
            return unseal(self._blobs.get(reference), Lineage, f"{self.location}/{reference}")
        except CheckpointUnreadableError:
            return None

    def write_lineage(self, key: PlanKey, lineage: Lineage) -> None:
        """Store `lineage`, which determines from now on which checkpoints are valid."""
        self._put_twice(f"{_folder(key)}/lineage", seal(lineage))

    # ---- what is no longer needed --------------------------------------------------------------------------------

    def sweep(self, key: PlanKey, kept: Iterable[Manifest], unfinished_from: int) -> int:
        """Delete packs that no checkpoint in `kept` and no savepoint needs, and return how many.

        Packs of checkpoints from number `unfinished_from` on stay, since their manifests are not written yet. When a
        savepoint cannot be read, every pack stays.
        """
        needed = {pack.name for manifest in kept for pack in manifest.packs}
        for reference in self._savepoint_references(_folder(key)):
            needed.update(pack.name for pack in self.read_manifest(reference).packs)
        there = sorted({*self.pack_sizes(key), *self._copy_sizes(key)})
        useless = [pack for pack in there if pack not in needed and pack_checkpoint(pack) < unfinished_from]
        for pack in useless:
            # the copy first: if this process ends in between, the pack is still listed and swept again
            for one in (_copy_of(_pack_reference(key, pack)), _pack_reference(key, pack)):
                self._blobs.delete(one)
        return len(useless)

    def _put_twice(self, reference: str, data: Buffer) -> None:
        """Store a manifest or lineage twice; it exists once one copy is stored."""
        self._blobs.put(reference, [data])
        self._put_copy(reference, [data])

    def _put_copy(self, reference: str, pieces: Sequence[Buffer]) -> None:
        try:
            self._blobs.put(_copy_of(reference), pieces)
        except CheckpointError as error:
            logger.warning("no second copy is stored: reference=%s reason=%s", reference, error)

    def _savepoint_references(self, folder: str) -> list[str]:
        names = {*self._blobs.sizes(f"{folder}/savepoints"), *self._blobs.sizes(f"{folder}/copies/savepoints")}
        return [f"{folder}/savepoints/{name}" for name in sorted(names)]

    def _refuse_condemned(self, reference: str, names: Container[str]) -> None:
        mark = reference + _DAMAGED
        if mark.rpartition("/")[2] in names:
            raise CheckpointUnreadableError("damaged", self._blobs.get(mark).decode())

    def _check_packs(self, manifest: Manifest) -> None:
        incomplete = self._incomplete_pack(manifest)
        if incomplete:
            raise CheckpointUnreadableError("missing", f"its pack {incomplete} is missing or incomplete")

    def _incomplete_pack(self, manifest: Manifest) -> str:
        """Return a pack of the manifest of which neither the first nor the second copy has its size; empty: none."""
        sizes = self.pack_sizes(manifest.key)
        incomplete = [pack for pack in manifest.packs if sizes.get(pack.name) != pack.size_bytes]
        copies = self._copy_sizes(manifest.key) if incomplete else {}
        return next((pack.name for pack in incomplete if copies.get(pack.name) != pack.size_bytes), "")

    def _copy_sizes(self, key: PlanKey) -> dict[str, int]:
        return self._blobs.sizes(_copy_of(f"{_folder(key)}/packs"))

    def _savepoint(self, reference: str, warn: Warn) -> Savepoint | None:
        try:
            manifest = self.read_manifest(reference)
        except CheckpointUnreadableError as error:
            if error.reason_code != OTHER_VERSION:
                warn(str(error))
                return None
            tenant, plan, _, name = reference.split("/")
            return Savepoint(PlanKey(int(tenant), unquote(plan)), unquote(name), None, str(error))
        return Savepoint(manifest.key, manifest.name, manifest)


def _copy_of(reference: str) -> str:
    """Return where the second copy is: beside the folder of the first, in `copies`."""
    tenant, plan, rest = reference.split("/", 2)
    return f"{tenant}/{plan}/copies/{rest}"


def _pack_reference(key: PlanKey, pack: str) -> str:
    return f"{_folder(key)}/packs/{pack}"


def is_checkpoint(reference: str) -> bool:
    """Return whether `reference` is that of a checkpoint; one of a savepoint is not."""
    return "/checkpoints/" in reference


def is_folder(location: str) -> bool:
    """Return whether `location` is a plain path."""
    return bool(location) and not _scheme(location)


def shown_location(location: str) -> str:
    """Return `location` without what may be secret in it: the user's part and the options."""
    if is_folder(location):
        return location
    scheme, _, rest = location.partition(":")
    rest = rest.removeprefix("//")
    before, at, after = rest.rpartition("@")
    # A / or ? that is not written as %2F or %3F ends the user part too early for standard URL parsers.
    if at and (":" in before or "/" not in before):
        rest = after
    return f"{scheme}://{re.split('[?#]', rest, maxsplit=1)[0]}"


def open_store(location: str) -> CheckpointStore:
    """Open the store at `location`.

    The location is a folder, a URL of pyarrow's file systems (`file:`, `s3:`, `gs:`, `hdfs:`), or one of a database
    (SQLAlchemy).

    Raises:
        StoreUnreachableError: When it cannot be used.
    """
    scheme = _scheme(location)
    if scheme.partition("+")[0] in _DATABASES:
        from topology.checkpoint.storage.sql_blobs import SqlBlobs  # noqa: PLC0415 - a seventh of what a stage loads to start

        blobs = SqlBlobs(location)
        return CheckpointStore(blobs.shown, blobs)
    if scheme in ("", "file"):
        path = urlsplit(location).path if scheme else location
        return CheckpointStore(location, DirectoryBlobs(Path(unquote(path) if scheme else path).expanduser()))
    shown = shown_location(location)
    return CheckpointStore(shown, open_objects(location, shown))


def pack_name(epoch: int, attempt: int, checkpoint: int, task: int, salt: str) -> str:
    """Return the name of the pack that a task writes for a checkpoint."""
    return f"{checkpoint:019d}-{epoch}-{attempt}-{task}-{salt}"


def pack_checkpoint(pack: str) -> int:
    """Return the checkpoint for which a pack was written."""
    number = pack.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def read_state(store: CheckpointStore, manifest: Manifest, instance: str) -> bytes:
    """Return the state that `instance` had; empty when it had none. Raise CheckpointError when it is unreadable."""
    state = manifest.state(instance)
    if state is None:
        return b""
    data = state.inline
    if state.chunks:
        chunks = store.read_chunks(manifest.key, manifest.packs, state.chunks)
        data = b"".join(chunks[name] for name in state.chunks)
    if len(data) != state.size_bytes:
        raise CheckpointUnreadableError("torn", f"the state of {instance} has {len(data)} of {state.size_bytes} bytes")
    return data


def _scheme(location: str) -> str:
    """Return the scheme of a URL, even of a malformed one; empty when there is none."""
    found = _SCHEME.match(location)
    return found[1].lower() if found else ""


def _check_origin(manifest: Manifest, key: PlanKey, reference: str) -> None:
    if manifest.key != key:
        raise CheckpointUnreadableError("foreign", f"{reference} is of {manifest.key.topology()}")


def _folder(key: PlanKey) -> str:
    return f"{key.tenant}/{safe_name(key.identity)}"


def _joined(ranges: list[Range]) -> list[Range]:
    """Sorted ranges, with those that are near each other made one."""
    joined: list[Range] = []
    for offset, length in ranges:
        if joined and offset <= joined[-1][0] + joined[-1][1] + _NEAR_BYTES:
            start, size = joined[-1]
            joined[-1] = (start, max(size, offset + length - start))
        else:
            joined.append((offset, length))
    return joined
