"""Writes the states of a task's instances to the store: only chunks that are not there yet are written.

A pack of which only a small part is still needed is treated as not stored: its last chunks are written again, some at a
time, until it is no longer needed and can be deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import StoredPack, StoredState
from siddhi.engine.snapshots.envelope import format_of
from topology.checkpoint.model import Manifest, Pack, chunk_name, new_pack
from topology.checkpoint.storage.chunks import cut
from topology.checkpoint.storage.store import CheckpointStore, pack_name

INLINE_BYTES = 2_048
"""States that are no larger are kept in the manifest itself."""

SPARSE = 0.5
"""A pack is being phased out once a smaller share of it is needed."""

MOST_PACKS = 64
"""A task does not need more packs than this, or the smallest of them are on their way out too."""

REWRITTEN_SHARE = 0.05
REWRITTEN_BYTES = 1024 * 1024
"""At each checkpoint such a share of all states, or as many bytes if that is more, is written again at most."""

VERIFIED_BYTES = 32 * 1024 * 1024
READ_BYTES = 4 * 1024 * 1024
"""At each checkpoint after the first of an attempt, so much of what earlier attempts have stored twice is read from
both copies, in pieces of the second size, until all of it was: a start reads only one of them, and damage to the other
would not be noticed before it is needed."""


class StoredPart(msgspec.Struct, frozen=True):
    """A task's contribution to a checkpoint; `stored_bytes` were written."""

    states: tuple[StoredState, ...]
    packs: tuple[StoredPack, ...]
    stored_bytes: int


class PartWriter:
    """Writes the parts of task `task` of one attempt.

    Not thread-safe, but any thread may own it: the slow steps (hashing, writing) let other threads run. `begun_from` is
    the manifest that the attempt started from. With `twice` everything is stored twice, so that one damaged file
    leads to no older checkpoint. What was stored earlier is verified by and by.
    """

    def __init__(
        self,
        store: CheckpointStore,
        key: PlanKey,
        epoch: int,
        attempt: int,
        task: int,
        begun_from: Manifest | None,
        *,
        twice: bool = False,
    ) -> None:
        self._store = store
        self._twice = twice
        self._unchecked = begun_from.packs if twice and begun_from is not None else ()
        """Packs of which a copy may be missing: chunks in these are written again."""
        self._unverified: list[Pack] = []
        """Packs of which both copies have their size, but only one may have been read."""
        self._key, self._epoch, self._attempt, self._task = key, epoch, attempt, task
        self._known = _StoredChunks(begun_from.packs if begun_from is not None else ())
        self._undecided: tuple[int, _StoredChunks] | None = None

    @property
    def verifies(self) -> bool:
        """Whether the next checkpoint verifies what earlier attempts have stored."""
        return bool(self._unverified)

    def write(self, checkpoint: int, states: Mapping[str, bytes | memoryview]) -> StoredPart:
        """Store the states, by instance, as this task's part of `checkpoint`.

        Omit an instance without state, or give no bytes for it.

        Raises:
            CheckpointError: When the part could not be stored; it counts as abandoned then.
        """
        if self._undecided is not None:
            # Its outcome is unknown: it may count or not, so nothing that it was based on may be relied on.
            self._known, self._undecided = _StoredChunks(()), None
        if self._unchecked:
            self._unverified = list(self._store.stored_twice(self._key, self._unchecked))
            self._known = _StoredChunks(self._unverified)
            self._unchecked = ()
        elif self._unverified:
            self._verify()
        outgoing = self._known.outgoing(sum(len(data) for data in states.values()))
        stored: list[StoredState] = []
        added: dict[str, memoryview] = {}
        for instance, data in states.items():
            if not len(data):
                continue
            if len(data) <= INLINE_BYTES:
                stored.append(StoredState(instance, len(data), inline=bytes(data), format=format_of(data)))
                continue
            names = []
            for piece in cut(data):
                name = chunk_name(piece)
                names.append(name)
                if name in outgoing or name not in self._known.places:
                    added.setdefault(name, piece)
            stored.append(StoredState(instance, len(data), tuple(names), format=format_of(data)))
        packs = (self._write_pack(checkpoint, added),) if added else ()
        self._undecided = checkpoint, self._known.after(stored, packs)
        return StoredPart(tuple(stored), packs, sum(len(piece) for piece in added.values()))

    def complete(self, checkpoint: int) -> None:
        """Record that the checkpoint is complete: later parts need not store its content again."""
        if self._undecided is not None and self._undecided[0] == checkpoint:
            self._known, self._undecided = self._undecided[1], None

    def abandon(self, checkpoint: int) -> None:
        """Record that the checkpoint will never be complete: what was stored for it counts as not stored."""
        if self._undecided is not None and self._undecided[0] == checkpoint:
            self._undecided = None

    def _verify(self) -> None:
        """Read both copies of some of what is relied on; chunks that are damaged count as not stored."""
        budget = VERIFIED_BYTES
        while self._unverified and budget > 0:
            pack = self._unverified[-1]
            piece, rest = _first_bytes(pack, READ_BYTES)
            needed = [chunk for chunk in piece.chunks if self._known.relies_on(pack.name, chunk[0])]
            if needed:
                budget -= sum(length for _, _, length in needed)
                if not self._store.has_twice(self._key, pack.name, needed):
                    self._known.forget(name for name, _, _ in needed)
            self._unverified[-1:] = [rest] if rest.chunks else []  # only now: the store may not be reachable

    def _write_pack(self, checkpoint: int, chunks: Mapping[str, memoryview]) -> StoredPack:
        name = pack_name(self._epoch, self._attempt, checkpoint, self._task, secrets.token_hex(4))
        self._store.write_pack(self._key, name, list(chunks.values()), twice=self._twice)
        places, offset = [], 0
        for chunk, piece in chunks.items():
            places.append((chunk, offset, len(piece)))
            offset += len(piece)
        return StoredPack(name, tuple(places))


def _first_bytes(pack: Pack, size: int) -> tuple[Pack, Pack]:
    """Return the pack with its first chunks, of `size` bytes or a little more, and with the others."""
    total = count = 0
    while count < len(pack.chunks) and total < size:
        total += pack.chunks[count][2]
        count += 1
    first, rest = pack.chunks[:count], pack.chunks[count:]
    return msgspec.structs.replace(pack, chunks=first), msgspec.structs.replace(pack, chunks=rest)


class _StoredChunks:
    """The chunks that are in the store and stay there until the next checkpoint is complete."""

    def __init__(self, packs: Iterable[Pack]) -> None:
        self.places: dict[str, tuple[str, int]] = {}
        self._pack_bytes: dict[str, int] = {}
        for pack in packs:
            self._pack_bytes[pack.name] = pack.size_bytes
            self.places.update((name, (pack.name, length)) for name, _, length in pack.chunks)

    def relies_on(self, pack: str, chunk: str) -> bool:
        """Return whether the chunk counts as stored in that pack."""
        return self.places.get(chunk, ("", 0))[0] == pack

    def forget(self, chunks: Iterable[str]) -> None:
        """Count chunks as not stored."""
        for name in chunks:
            del self.places[name]

    def after(self, states: Iterable[StoredState], added: Iterable[StoredPack]) -> _StoredChunks:
        """Return the known chunks once a checkpoint with these states is complete: its own, and no others."""
        known = _StoredChunks(())
        known._pack_bytes = dict(self._pack_bytes)
        places = dict(self.places)
        for stored in added:
            pack = new_pack(stored)
            known._pack_bytes[pack.name] = pack.size_bytes
            places.update((name, (pack.name, length)) for name, _, length in pack.chunks)
        known.places = {name: places[name] for state in states for name in state.chunks}
        in_use = {pack for pack, _ in known.places.values()}
        known._pack_bytes = {name: size for name, size in known._pack_bytes.items() if name in in_use}
        return known

    def outgoing(self, state_bytes: int) -> set[str]:
        """Return the chunks to write again although they are in the store."""
        live: dict[str, int] = dict.fromkeys(self._pack_bytes, 0)
        for pack, length in self.places.values():
            live[pack] += length
        by_size = sorted(live, key=lambda pack: live[pack], reverse=True)
        surplus = set(by_size[MOST_PACKS:])
        sparse = [pack for pack in by_size if pack in surplus or live[pack] < SPARSE * self._pack_bytes[pack]]
        budget = max(REWRITTEN_BYTES, int(REWRITTEN_SHARE * state_bytes))
        chosen = set()
        for pack in sorted(sparse, key=lambda one: live[one]):
            for name, (place, length) in self.places.items() if budget > 0 else ():
                if place == pack and budget >= length:
                    budget -= length
                    chosen.add(name)
        return chosen
