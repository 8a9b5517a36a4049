"""The driver's checkpoint store: starting points of topologies, manifests, and deletion of old checkpoints.

Operations on one plan must be called in order. Those on different plans may run concurrently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import NO_SAVEPOINT
from cep_common.protocol.drivers import FORMER_SAVEPOINT, UNREADABLE_SAVEPOINT
from cep_common.protocol.registry import CheckpointSpan
from query_plan.xml import read_checkpoints_kept
from topology.checkpoint.coordination.instructions import WriteManifest
from topology.checkpoint.coordination.lineages import (
    closed_spans,
    cut_back,
    later_has_begun,
    taken_by_another,
    undecided,
)
from topology.checkpoint.coordination.runs import Opening, RunId
from topology.checkpoint.errors import OTHER_VERSION, CheckpointError, CheckpointUnreadableError
from topology.checkpoint.model import Lineage, Manifest, needed_packs, new_pack, stages_of, with_span
from topology.checkpoint.storage.state_formats import (
    format_problem,
    noted_formats,
    refuse_unreadable,
    unreadable_formats,
)
from topology.checkpoint.storage.store import CheckpointStore, ManifestName, Savepoint, is_checkpoint

logger = logging.getLogger(__name__)

RESERVED_AT_ONCE = 10
"""The number of checkpoint numbers that one write reserves."""


class RunStart(msgspec.Struct, frozen=True):
    """The starting point of a run.

    It starts from the manifest with `reference`, or without state when that is empty; `number` is that checkpoint's. If
    the newest checkpoint belongs to another plan of the same name, or to another version, it has become the savepoint
    `kept` (empty if there was none). A run that `goes_back` starts from an older checkpoint, or without state because
    none is readable: it needs the replay of all events that its starting point does not include.
    """

    opening: Opening
    reference: str
    number: int
    kept: str = ""
    goes_back: bool = False


class Archive:
    """The checkpoints in `store`; each plan retains the newest `retained`. Every call raises CheckpointError."""

    def __init__(self, store: CheckpointStore, retained: int) -> None:
        self._store = store
        self._retained = retained
        self._begun: dict[PlanKey, RunId] = {}
        """The newest run of each plan that was begun here, even if the store has not answered yet."""
        self._written: dict[PlanKey, Lineage] = {}
        """The lineage of each of these plans, as it was written last."""
        self._oldest: dict[PlanKey, int] = {}
        self._bases: dict[PlanKey, dict[RunId, Manifest]] = {}
        self._manifests: dict[str, Manifest] = {}
        self._problems: dict[tuple[PlanKey, str, int, int, int], str] = {}
        """Why no plan can begin from a savepoint, cached because determining it may require its states."""

    def check(self) -> None:
        """Check that the store can be used."""
        self._store.check()

    def open_run(self, run: RunId, restore: str, restore_epoch: int = 0, *, has_state: bool = False) -> RunStart:
        """Make the run the plan's newest attempt, so that checkpoints of other attempts no longer count.

        `restore` determines where its epoch begins: empty, from the newest checkpoint that counts; `none`, without
        state; else from the savepoint of that name. The request was made under `restore_epoch` (0: the run's own
        epoch). If the plan has begun under that or a later epoch, the run starts from the newest checkpoint that
        counts. Checkpoints of another plan of the name never count; the newest of them becomes a savepoint. A run that
        `has_state` already continues without what it cannot read; for others CheckpointUnreadableError explains the
        operator's options.
        """
        requested_under = restore_epoch or run.epoch
        # With an earlier request the plan may have started since, and its checkpoints may be its own.
        requested_now = bool(restore) and run.attempt == 0 and requested_under == run.epoch
        lineage, taken = self._lineage(run.key, needed=not (requested_now or has_state)), self._store.taken(run.key)
        highest = max([lineage.reserved, *(one.checkpoint for one in taken)])
        kept = ""
        if self._is_anothers(run, lineage):
            if run.deployed_ms in lineage.former and not requested_now:
                raise CheckpointError(taken_by_another(run))
            kept = self._keep_newest(run.key, lineage)
            lineage = lineage.passed_on(run.deployed_ms, highest)
        elif requested_now and run.epoch < lineage.newest()[0]:
            lineage = Lineage(reserved=lineage.reserved, former=lineage.former)  # epochs are counted again
        elif (run.epoch, run.attempt) < lineage.newest() or (
            (run.epoch, run.attempt) == lineage.newest() and self._begun.get(run.key) != run
        ):
            # One with the same number that another process began: workers may have results of it without being able to
            # distinguish them.
            raise CheckpointError(later_has_begun(run, lineage))
        self._begun[run.key] = run
        begun_before = any(span.epoch >= requested_under for span in lineage.spans)
        found: tuple[str, Manifest] | None = None
        unread = False
        if restore and not begun_before:
            if restore != NO_SAVEPOINT:
                found = self._store.savepoint(run.key, restore)
                refuse_unreadable(self._store, found[1], f"savepoint {restore} of {run.key.topology()}")
            kept = kept or self._keep_unreadable(run.key, lineage)
            closed = closed_spans(lineage, taken)
            lineage = msgspec.structs.replace(lineage, void=highest, base=found[0] if found is not None else "")
        else:
            found = self._beginning(run.key, lineage, needed=not has_state)
            unread = found is None and self._newest_taken(run.key, lineage) is not None
            counted = found is not None and found[0] != lineage.base
            closed = cut_back(lineage, found[1]) if found is not None and counted else closed_spans(lineage, taken)
        self._write_lineage(
            run.key,
            msgspec.structs.replace(
                lineage,
                spans=with_span(closed, CheckpointSpan(run.epoch, run.attempt, 0)),
                reserved=highest + RESERVED_AT_ONCE,
                deployed_ms=run.deployed_ms or lineage.deployed_ms,
            ),
        )
        self._forget_runs(run.key, run.epoch)
        if found is not None:
            self._bases.setdefault(run.key, {})[run] = found[1]
        closed = tuple(span for span in closed if (span.epoch, span.attempt) != (run.epoch, run.attempt))
        continues = (found[1].query_plan, found[1].tasks) if found is not None else None
        opening = Opening(closed, highest, highest + RESERVED_AT_ONCE, continues)
        goes_back = is_checkpoint(found[0]) if found is not None else unread
        return RunStart(opening, *((found[0], found[1].checkpoint) if found is not None else ("", 0)), kept, goes_back)

    def reserve(self, run: RunId) -> int:
        """Reserve further numbers, and return the last of them."""
        lineage = self._own_lineage(run)
        reserved = lineage.reserved + RESERVED_AT_ONCE
        self._write_lineage(run.key, msgspec.structs.replace(lineage, reserved=reserved))
        return reserved

    def write(
        self, order: WriteManifest, query_plan: str, spans: tuple[CheckpointSpan, ...], taken_ms: int
    ) -> Manifest:
        """Write the manifest of a checkpoint, and delete checkpoints that are too old."""
        run = order.run
        lineage = self._own_lineage(run)
        states = tuple(state for part in order.parts for state in part.states)
        new = [new_pack(pack) for part in order.parts for pack in part.packs]
        base = self._bases.get(run.key, {}).get(run)
        tasks = len(order.parts)
        manifest = Manifest(
            key=run.key,
            checkpoint=order.checkpoint,
            epoch=run.epoch,
            attempt=run.attempt,
            taken_ms=taken_ms,
            query_plan=query_plan,
            tasks=tasks,
            stages=stages_of(run.key, run.epoch, query_plan, tasks),
            states=states,
            # new packs first, so that chunks that a task has rewritten are read from there
            packs=needed_packs(states, [*new, *(base.packs if base is not None else ())]),
            spans=with_span(spans, CheckpointSpan(run.epoch, run.attempt, order.checkpoint)),
            size_bytes=sum(state.size_bytes for state in states),
            stored_bytes=sum(part.stored_bytes for part in order.parts),
            duration_ms=order.duration_ms,
            alignment_ms=max((part.alignment_ms for part in order.parts), default=0),
            name=order.name,
            deployed_ms=lineage.deployed_ms,
        )
        reference = self._store.write_manifest(manifest)
        self._manifests[reference] = manifest
        self._bases.setdefault(run.key, {})[run] = manifest
        try:
            self._retire(run.key, lineage, order.checkpoint + 1, read_checkpoints_kept(query_plan))
        except CheckpointError as error:
            logger.warning("old checkpoints not removed: topology=%s reason=%s", run.key.topology(), error)
        return manifest

    def oldest(self, key: PlanKey) -> int:
        """Return the number of the oldest checkpoint from which the plan may begin when later ones cannot be read.

        0 means that it is not known.
        """
        return self._oldest.get(key, 0)

    def end_run(self, run: RunId) -> None:
        """Refuse to store anything more for the run."""
        self._forget_bases(run.key, lambda one: one == run)

    def savepoints(self) -> list[Savepoint]:
        """Return all savepoints of all plans, oldest first; `problem` says why no plan can begin from one."""
        return [self._with_problem(one) for one in self._store.savepoints(_warn)]

    def delete_savepoint(self, key: PlanKey, name: str) -> None:
        """Delete the savepoint. Raises CheckpointError while the plan has nothing else to begin from."""
        lineage = self._restored_lineage(key)
        base = lineage.base
        if base and base == self._store.savepoint_reference(key, name) and self._newest_taken(key, lineage) is None:
            raise CheckpointError(f"{key.plan} was started from {name} and has no checkpoint yet; wait for one")
        self._store.delete_savepoint(key, name)
        self._sweep(key, lineage, lineage.reserved - RESERVED_AT_ONCE)

    def clear(self, key: PlanKey) -> int:
        """Delete the plan's checkpoints, except its savepoints, and return how many were deleted.

        A running topology continues and takes new ones.
        """
        lineage = self._restored_lineage(key)
        taken = self._store.taken(key)
        for one in taken:
            self._delete(key, one)
        self._write_lineage(key, msgspec.structs.replace(lineage, base=""))
        self._sweep(key, lineage, max([0, *(one.checkpoint for one in taken)]) + 1)
        return len(taken)

    def forget(self, key: PlanKey, epoch: int, deployed_ms: int = 0) -> None:
        """Delete the checkpoints, except savepoints, of a plan that was undeployed.

        The plan was deployed at `deployed_ms` (0: unknown) and had `epoch` when it was undeployed. Checkpoints of a
        later epoch, and those of another plan of the name, remain.
        """
        lineage = self._lineage(key)
        if self._is_anothers(RunId(key, epoch, 0, deployed_ms), lineage):
            return
        if lineage.newest()[0] > epoch or key in self._bases:
            return
        self._written.pop(key, None)
        for one in self._store.taken(key):
            self._delete(key, one)
        if lineage.spans:
            self._store.write_lineage(
                key, Lineage(reserved=lineage.reserved, void=lineage.reserved, former=lineage.former)
            )
        self._store.sweep(key, [], lineage.reserved + 1)

    def _with_problem(self, savepoint: Savepoint) -> Savepoint:
        manifest = savepoint.manifest
        if manifest is None:
            return savepoint
        if any(state.format for state in manifest.states):  # nothing has to be read
            return msgspec.structs.replace(savepoint, problem=format_problem(noted_formats(manifest.states)))
        identity = (manifest.key, manifest.name, manifest.checkpoint, manifest.epoch, manifest.taken_ms)
        if identity not in self._problems:
            self._problems[identity] = format_problem(unreadable_formats(self._store, manifest))
        return msgspec.structs.replace(savepoint, problem=self._problems[identity])

    def _is_anothers(self, run: RunId, lineage: Lineage) -> bool:
        """Return whether another plan than the run's owns the stored checkpoints, or has begun since."""
        if not run.deployed_ms or run.deployed_ms == lineage.deployed_ms:
            return False
        if run.deployed_ms in lineage.former:
            return True
        if lineage.deployed_ms or not lineage.spans:
            return bool(lineage.spans)
        # An earlier version wrote it, and the plan may be older than that.
        newest = self._newest_taken(run.key, lineage)
        manifest = self._read(self._store.reference(run.key, newest)) if newest is not None else None
        return manifest is not None and manifest.taken_ms < run.deployed_ms

    def _keep_newest(self, key: PlanKey, lineage: Lineage) -> str:
        """Keep the newest checkpoint that counts as a savepoint, and return its name (empty: there is none)."""
        try:
            found = self._newest(key, lineage)
        except CheckpointUnreadableError as error:
            _warn(str(error))
            return ""
        if found is None:
            return ""
        reference, manifest = found
        name = manifest.name if reference == lineage.base else f"{FORMER_SAVEPOINT}{manifest.checkpoint}"
        if reference != lineage.base:
            self._store.keep(manifest, name)
        return name

    def _keep_unreadable(self, key: PlanKey, lineage: Lineage) -> str:
        """Keep the newest checkpoint as a savepoint if it is of another version, which can still begin from it.

        Returns:
            The savepoint's name; empty: there is no such checkpoint.
        """
        newest = self._newest_taken(key, lineage) if lineage.spans else next(iter(self._store.taken(key)), None)
        if newest is None:
            return ""
        reference, name = self._store.reference(key, newest), f"{UNREADABLE_SAVEPOINT}{newest.checkpoint}"
        try:
            manifest = self._store.read_manifest(reference)
        except CheckpointUnreadableError as error:
            if error.reason_code != OTHER_VERSION:
                return ""
            self._store.copy_to_savepoint(key, reference, name)
            return name
        if not unreadable_formats(self._store, manifest):
            return ""
        self._store.keep(manifest, name)
        return name

    def _beginning(self, key: PlanKey, lineage: Lineage, *, needed: bool) -> tuple[str, Manifest] | None:
        """Return the newest checkpoint that counts, if a run can begin from it.

        An unreadable one is an error where it is needed: the operator decides where the plan begins.
        """
        try:
            found = self._newest(key, lineage)
            if found is not None:
                refuse_unreadable(self._store, found[1], f"checkpoint {found[1].checkpoint} of {key.topology()}")
        except CheckpointUnreadableError as error:
            if needed:
                raise undecided(key, error) from error
            _warn(str(error))
            return None
        return found

    def _newest(self, key: PlanKey, lineage: Lineage) -> tuple[str, Manifest] | None:
        found = self._store.newest(key, lineage, _warn)
        if found is None and self._newest_taken(key, lineage) is not None:
            logger.error("no checkpoint can be read, the plan begins without state: topology=%s", key.topology())
        elif found is None and lineage.base:
            found = lineage.base, self._store.read_manifest(lineage.base)
        return found

    def _newest_taken(self, key: PlanKey, lineage: Lineage) -> ManifestName | None:
        counts = (one for one in self._store.taken(key) if lineage.counts(one.epoch, one.attempt, one.checkpoint))
        return next(counts, None)

    def _lineage(self, key: PlanKey, *, needed: bool = False) -> Lineage:
        """Return the plan's lineage; if it is damaged, its copy, or one that is rebuilt from the checkpoints.

        If these cannot be read either, or have another version, that is an error where the lineage is needed.
        """
        problem: CheckpointUnreadableError
        try:
            return self._store.lineage(key)
        except CheckpointUnreadableError as error:
            problem = error
        taken = self._store.taken(key)
        copy = self._store.lineage_copy(key) if problem.reason_code != OTHER_VERSION else None
        # A copy that was not written when the plan began last would exclude what it has done since.
        if copy is not None and all(
            (one.epoch, one.attempt) <= copy.newest() for one in taken if one.checkpoint > copy.void
        ):
            _warn(f"the copy of the lineage of {key.topology()} is used: {problem}")
            # Numbers may have been reserved since it was written.
            return msgspec.structs.replace(copy, reserved=copy.reserved + RESERVED_AT_ONCE)
        for one in taken if problem.reason_code != OTHER_VERSION else ():
            try:
                manifest = self._store.read_manifest(self._store.reference(key, one))
            except CheckpointUnreadableError as unreadable:
                _warn(str(unreadable))
                continue
            _warn(f"the valid checkpoints of {key.topology()} are determined from their files: {problem}")
            return Lineage(manifest.spans, one.checkpoint + RESERVED_AT_ONCE, deployed_ms=manifest.deployed_ms)
        if needed and taken:
            raise undecided(key, problem) from problem
        _warn(f"which of {key.topology()} count is not known: {problem}")
        return Lineage()

    def _own_lineage(self, run: RunId) -> Lineage:
        """Return the lineage, if the run is the plan's newest attempt."""
        lineage = self._restored_lineage(run.key)
        epoch, attempt = lineage.newest()
        if run.deployed_ms and lineage.deployed_ms not in (0, run.deployed_ms):
            raise CheckpointError(taken_by_another(run))
        if (run.epoch, run.attempt) != (epoch, attempt):
            raise CheckpointError(
                f"attempt {attempt} of epoch {epoch} of {run.key.topology()} has begun: checkpoints of attempt "
                f"{run.attempt} of epoch {run.epoch} no longer count"
            )
        return lineage

    def _restored_lineage(self, key: PlanKey) -> Lineage:
        """Return the plan's lineage, written again if it was lost or damaged since the plan's newest run began.

        Otherwise no checkpoint of the run would ever count.
        """
        lineage, run, written = self._lineage(key), self._begun.get(key), self._written.get(key)
        if run is None or written is None or lineage.newest() >= written.newest():
            return lineage
        if lineage.deployed_ms not in (0, run.deployed_ms):  # another plan of the name may count its epochs from 1
            return lineage
        logger.error("lineage is older than the running topology, written again: topology=%s", key.topology())
        self._write_lineage(key, written)
        return written

    def _write_lineage(self, key: PlanKey, lineage: Lineage) -> None:
        self._store.write_lineage(key, lineage)
        self._written[key] = lineage

    def _retire(self, key: PlanKey, lineage: Lineage, unfinished_from: int, retained: int | None) -> None:
        """Delete checkpoints that do not count, and all but the newest `retained` (None: as many as configured)."""
        kept: list[int] = []
        most = self._retained if retained is None else retained
        for one in self._store.taken(key):
            if len(kept) < most and lineage.counts(one.epoch, one.attempt, one.checkpoint):
                kept.append(one.checkpoint)
            else:
                self._delete(key, one)
        self._oldest[key] = min(kept, default=0)
        self._sweep(key, lineage, unfinished_from)

    def _sweep(self, key: PlanKey, lineage: Lineage, unfinished_from: int) -> None:
        kept = [self._read(self._store.reference(key, one)) for one in self._store.taken(key)]
        bases = self._bases.get(key, {}).values()
        self._store.sweep(key, [*(one for one in kept if one is not None), *bases], unfinished_from)

    def _read(self, reference: str) -> Manifest | None:
        if reference not in self._manifests:
            try:
                self._manifests[reference] = self._store.read_manifest(reference)
            except CheckpointUnreadableError as error:
                _warn(str(error))
                return None
        return self._manifests[reference]

    def _delete(self, key: PlanKey, taken: ManifestName) -> None:
        self._store.delete_checkpoint(key, taken)
        self._manifests.pop(self._store.reference(key, taken), None)

    def _forget_runs(self, key: PlanKey, epoch: int) -> None:
        self._forget_bases(key, lambda run: run.epoch <= epoch)

    def _forget_bases(self, key: PlanKey, over: Callable[[RunId], bool]) -> None:
        left = {run: base for run, base in self._bases.pop(key, {}).items() if not over(run)}
        if left:
            self._bases[key] = left


def _warn(text: str) -> None:
    logger.error("checkpoint cannot be used: %s", text)
