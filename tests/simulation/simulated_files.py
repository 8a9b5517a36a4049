"""The delivery of events when files are damaged: logs and prepared results of dead workers, and checkpoints.

Every accepted event has its result, or is counted as lost by the worker whose only copy of it was damaged. With
exactly-once no result takes effect twice, unless both copies of a manifest or of a pack are damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from simulated_delivery import FAULTS_UNTIL_MS, SETTLED_BY_MS, DeliveryWorld
from virtual_world import VirtualWorld

from cep_worker.storage.losses import LOST_FILE
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.errors import CheckpointUnreadableError
from topology.checkpoint.model import Manifest, unseal

MOST_INLINE_BYTES = 40
"""Most states are in packs."""


class FileFaultWorld(DeliveryWorld):
    """Some workers die and find their files damaged; some checkpoints are."""

    def _begin(self, seed: int) -> None:
        self.goes_back = False
        self.damaged: set[str] = set()
        """Files of checkpoints that were damaged."""
        self._made_up.enter_context(mock.patch("topology.checkpoint.storage.writer.INLINE_BYTES", MOST_INLINE_BYTES))
        super()._begin(seed)
        for _ in range(self.chance.randrange(1, 5)):
            self.later(self.chance.randrange(800, FAULTS_UNTIL_MS), self._damage)

    def _damage(self) -> None:
        if self.chance.random() < 0.3:
            self._damage_checkpoint()
            return
        worker = self._any_worker()
        if worker.alive:
            worker.kill()
            self.later(self.chance.choice((50, 800, 4_000)), lambda: self._start_worker(worker.name))
        folder = self.chance.choice(("wal", "results"))
        files = sorted(path for path in (self.folder / folder / worker.name).rglob("*") if path.is_file())
        files = [path for path in files if path.name not in ("lock", ".lock")]
        if files:
            file = self.chance.choice(files)
            data = self._changed(file.read_bytes())
            if data is None and file.name == LOST_FILE:
                data = b""  # whoever removes it has read the count
            self.note("damage: %s of %s, %s bytes of %d", file.name, worker.name,
                      "no" if data is None else len(data), file.stat().st_size)  # fmt: skip
            if data is None:
                file.unlink()
            else:
                file.write_bytes(data)

    def _damage_checkpoint(self) -> None:
        names = sorted(self.blobs.kept)
        if names:
            name = self.chance.choice(names)
            data = self._changed(self.blobs.kept[name])
            self.note("damage: %s, %s bytes", name, "no" if data is None else len(data))
            if data is None:
                del self.blobs.kept[name]
            else:
                self.blobs.kept[name] = data
            self.damaged.add(name)
            self.goes_back = self.goes_back or self._are_both_gone(name)
            self._kill_task()

    def _are_both_gone(self, name: str) -> bool:
        """Return whether neither the manifest or pack `name` nor its copy can be read."""
        main = name.replace("/copies/", "/")
        if "/packs/" in name:
            other = main.replace("/packs/", "/copies/packs/") if name == main else main
            return other not in self.blobs.kept or other in self.damaged
        if "/checkpoints/" not in name:
            return False
        for one in (main, main.replace("/checkpoints/", "/copies/checkpoints/")):
            try:
                unseal(self.blobs.kept.get(one, b""), Manifest, one)
            except CheckpointUnreadableError:
                continue
            return False
        return True

    def _changed(self, data: bytes) -> bytes | None:
        """The data flipped, truncated, emptied, or removed (None)."""
        kinds: tuple[Callable[[], bytes | None], ...] = (
            lambda: self._flipped(data),
            lambda: data[: self.chance.randrange(len(data) + 1)],
            lambda: b"",
            lambda: None,
        )
        return self.chance.choice(kinds)()

    def _flipped(self, data: bytes) -> bytes:
        flipped = bytearray(data)
        for _ in range(self.chance.randrange(1, 5)):
            if flipped:
                flipped[self.chance.randrange(len(flipped))] ^= 1 << self.chance.randrange(8)
        return bytes(flipped)

    # ---- what must hold ---------------------------------------------------------------------------------------------

    def counted(self) -> int:
        """How many events the workers say were lost, or are set aside."""
        return sum(_counted(worker) for worker in self.workers.values() if worker.alive)

    def missing(self) -> list[int]:
        """The accepted events that have had no result."""
        return sorted(self.accepted.keys() - self.released.keys())

    def is_done(self) -> bool:
        return len(self.missing()) <= self.counted()

    def _check_secured(self, worker: str, log: str, secured: int) -> None:
        """A checkpoint that held the events may be damaged by now."""

    def _begun(self, number: int, run: RunId) -> None:
        """Without its lineage nothing tells which numbers of checkpoints were begun before."""
        self.numbers[number] = run

    def _check_cut(self, manifest: Manifest) -> None:
        """An event that was lost was taken by nobody."""

    def _released(self, ids: list[int]) -> None:
        self.note("results take effect: %s", ids)
        self.released.update(ids)
        # A topology that goes back to an older checkpoint gives results again that the newer one had released.
        for number in ids if self.exactly_once and not self.goes_back else ():
            self.require(self.released[number] == 1, "the result of event %d takes effect again", number)


def _counted(worker: Any) -> int:
    snapshot = worker.flow.snapshot("", ()) if worker.flow is not None else None
    if snapshot is None:
        return 0
    lost = sum(wal.lost_events for wal in snapshot.write_ahead_logs)
    if snapshot.prepared is not None:
        lost += snapshot.prepared.lost_events
    orphans = (*worker._wal.orphans.reports(), *worker._prepared.orphan_reports())
    return int(lost + sum(one.events for one in orphans))


def simulate(world: VirtualWorld) -> None:
    """Events under faults, and then none of either: every result is there, or its event is counted."""
    assert isinstance(world, FileFaultWorld)
    try:
        world.run(FAULTS_UNTIL_MS)
        world.network.slow = 0.0
        while not world.is_done() and world.now_ms < SETTLED_BY_MS:
            world.run(world.now_ms + 500)
        missing, counted = world.missing(), world.counted()
        world.require(len(missing) <= counted, "the results of %s have not come, %d are counted", missing, counted)
        world.require(counted <= len(world.accepted), "%d of %d are counted as lost", counted, len(world.accepted))
    finally:
        world.close()
