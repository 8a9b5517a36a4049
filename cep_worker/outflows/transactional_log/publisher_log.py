"""The prepared results of one publisher instance: a folder of group files, the last of which is being written."""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from cep_common.ids import PlanKey
from cep_common.process.private_folders import make_private
from cep_common.protocol.links import Data, OpenLink
from cep_worker.outflows.consumers import GroupId
from cep_worker.outflows.transactional_log.commit_decisions import Attempt, new_rows
from cep_worker.outflows.transactional_log.file_sync import FileSync
from cep_worker.outflows.transactional_log.group_file import (
    SUFFIX,
    GroupFrame,
    GroupHeader,
    GroupWriter,
    ReceivedRows,
    RecoveredGroup,
    ResultGroup,
    group_path,
    ordinal_of,
    recover,
    rows_in,
)
from cep_worker.outflows.transactional_log.progress import FILE as PROGRESS
from cep_worker.outflows.transactional_log.progress import read_progress
from cep_worker.storage.checked_json import copy_of
from cep_worker.storage.damaged_files import SUFFIX as ASIDE
from cep_worker.storage.damaged_files import quarantine
from cep_worker.storage.records import RECORD_HEADER_BYTES
from topology.events.frames import encode_batch

logger = logging.getLogger(__name__)

LAST_POSITION = 2**63 - 1


class PublisherLog:
    """Stores the results of one publisher instance in one epoch, in groups that end with checkpoint markers.

    Belongs to the data thread. After an OSError nothing has changed, and the call may be repeated.
    """

    def __init__(self, folder: Path, key: PlanKey, sync: FileSync) -> None:
        """Open the log in `folder`, which is created if missing.

        Raises:
            OSError: the disk fails.
        """
        self.folder = folder
        self.groups: deque[ResultGroup] = deque()
        """The stored groups, oldest first; the last one may still be written."""
        self.lost: dict[str, int] = {}
        """The number of rows lost with files that are missing or were set aside. Missing rows of stored groups
        (their `lost_rows`) only count as lost when the group turns out to be committed."""
        self._found_run: Attempt | None = None
        """The run of the newest file that was found."""
        self.dropped = self.dropped_rows = 0
        """The number of the newest file that was delivered and deleted, and the rows of all of these."""
        self._key = key
        self._sync = sync
        self._writer: GroupWriter | None = None
        self._ordinal = 0
        self._marked = 0
        """The newest marker of this run of the publisher."""
        make_private(folder)
        self.progress = read_progress(folder)
        """The last record of an earlier process."""
        self._recover()

    def prepared_to(self, opening: OpenLink) -> int:
        """Return the position up to which the results of the publisher's run are stored or delivered; 0 if unknown."""
        if self._writer is None or not self._writer.group.header.is_of(opening):
            return 0
        # 0 makes the publisher's topology restart from its checkpoint and resend everything since, the only way to
        # recover lost results
        if self.lost and self._found_run == (opening.epoch, opening.attempt):
            return 0
        if any(group.missing_rows for group in self.groups):
            return 0
        damaged = (group for group in self.groups if group.lost_rows and group.header.is_of(opening))
        return min(self._writer.group.position, *(group.header.position for group in damaged), LAST_POSITION)

    def prepared_bytes(self) -> int:
        """Return the size of its files."""
        return sum(group.size_bytes for group in self.groups)

    def prepared_rows(self) -> int:
        """Return the number of events in its files."""
        return sum(group.rows for group in self.groups)

    def group_id(self, group: ResultGroup) -> GroupId:
        """Return the id by which consumers recognise a complete group."""
        header = group.header
        return GroupId(self._key, header.publisher, header.epoch, header.attempt, group.checkpoint or 0, header.log)

    def begin(self, opening: OpenLink, deployed_ms: int, at_once: bool = False) -> None:
        """Begin the publisher's run of `opening`, for the plan that was deployed at `deployed_ms`.

        The former run is complete. If it had the same epoch and attempt, its results without a mark are moved aside,
        since no checkpoint will decide about them.

        Raises:
            OSError: the disk fails.
        """
        run = (opening.epoch, opening.attempt)
        writer = self._writer
        former = None
        if writer is None:
            # a new identity, so that consumers do not confuse its frames with those of a former log
            log, number = uuid.uuid4().hex, 1
        elif not writer.group.header.is_of(opening):
            log, number = writer.group.header.log, writer.group.next_number
            if writer.group.header.run() == run:
                self._give_up_unmarked(writer.group)
                log = uuid.uuid4().hex  # otherwise consumers could confuse checkpoints of the two
            former = _newest_mark(writer.group)
        else:
            return
        header = GroupHeader(
            log, opening.sender, *run, opening.streams, number, 0, deployed_ms,
            after=0, former=former, run_log=opening.log, at_once=at_once,
        )  # fmt: skip
        self._begin_group(header)
        self._marked = 0
        self._found_run = None

    def append(self, message: Data, batch: pa.RecordBatch, body: Any) -> int:
        """Store the frame's new events and return their number.

        Raises:
            OSError: the disk fails.
        """
        assert self._writer is not None  # noqa: S101 - a link has begun
        # after a reconnection a publisher resends unacknowledged results, a part of which may be stored
        rows = new_rows(message.rows, message.position, self._writer.group.position)
        if not rows:
            return 0
        if rows < message.rows:
            body = encode_batch(batch.slice(message.rows - rows))
        self._writer.append(GroupFrame(message.stream, message.position), body, rows)
        return rows

    def mark(self, checkpoint: int, durable: Callable[[], None]) -> None:
        """Assign everything since the last marker to `checkpoint`.

        `durable` is called when it and everything before are on disk. A repeated marker changes nothing.

        Raises:
            OSError: the disk fails.
        """
        writer = self._writer
        assert writer is not None  # noqa: S101 - a link has begun
        # only groups with results need a file, an empty one continues
        if checkpoint > self._marked and writer.group.frames:
            if writer.group.checkpoint is None:
                writer.mark(checkpoint)
            self._begin_group(_following(writer.group))
        self._marked = max(self._marked, checkpoint)
        self._sync.when_done(durable)

    def begun(self) -> ResultGroup:
        """Return the group that is being written."""
        assert self._writer is not None  # noqa: S101 - a link has begun
        return self._writer.group

    def is_written(self, group: ResultGroup) -> bool:
        """Return whether it is the group that is being written."""
        return self._writer is not None and self._writer.group is group

    def cut(self) -> None:
        """Complete the current group; another one follows in the same run.

        Raises:
            OSError: the disk fails.
        """
        if self._writer is not None:
            self._begin_group(_following(self._writer.group))

    def drop_oldest(self, *, damaged: bool = False) -> None:
        """Delete the oldest group, or move it aside if it is `damaged`; it is not being written.

        Raises:
            OSError: the disk fails.
        """
        group = self.groups.popleft()
        if damaged and group.path.exists():
            quarantine(group.path)
        else:
            group.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; stored results stay."""
        if self._writer is not None:
            os.close(self._writer.descriptor)
            self._writer = None

    def remove(self) -> None:
        """Close, and delete the folder, except files that were set aside in it."""
        if any(self.folder.glob(f"*{ASIDE}")):
            progress = self.folder / PROGRESS
            for path in (*self.folder.glob(f"*{SUFFIX}"), progress, copy_of(progress)):
                path.unlink(missing_ok=True)
        else:
            shutil.rmtree(self.folder)
        self.close()

    def _begin_group(self, header: GroupHeader) -> None:
        """Begin another file. Delete the previous one if it is empty, else sync it."""
        rows_before = self.groups[-1].all_rows if self.groups else self.dropped_rows
        header = msgspec.structs.replace(header, rows_before=rows_before)
        # before any change, since a full disk must leave the former group usable
        writer = GroupWriter.create(group_path(self.folder, self._ordinal + 1), header)
        self._ordinal += 1
        former, self._writer = self._writer, writer
        self.groups.append(writer.group)
        if former is None:
            return
        if former.group.frames:
            self._sync.file(former.descriptor, self.folder)
        else:
            # only its header shows that earlier files are missing
            self._note_lost(former.group.path, former.group.lost_rows + former.group.missing_rows)
            self.groups.remove(former.group)
            former.group.path.unlink()
            os.close(former.descriptor)

    def _recover(self) -> None:
        unread_bytes = 0  # of what was written last
        given_up_rows = 0  # since the last group that is there
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            self._ordinal = ordinal_of(path)
            found = recover(path)
            # delivered before the restart, so that offering it again would deliver it twice
            if found is not None and self._was_dropped(found.group):
                path.unlink()
                continue
            if found is None:
                unread_bytes += path.stat().st_size
                given_up_rows += self._give_up(path)
                continue
            unread_bytes = found.torn_bytes
            self._note_damage(found)
            self._note_missing(found.group, given_up_rows)
            given_up_rows = 0
            if found.torn_bytes:
                logger.warning("prepared results end with an unfinished record, cut off: file=%s bytes=%d",
                               path, found.torn_bytes)  # fmt: skip
            # the header of a group repeats the mark of the one before, which may not have reached the disk itself
            self._repair_mark(found.group)
            self.groups.append(found.group)
        self._note_missing_end(given_up_rows)
        if not self.groups:
            return
        last = self.groups.pop()
        for group in [group for group in self.groups if not group.frames]:
            self._note_lost(group.path, group.lost_rows + group.missing_rows)
            self.groups.remove(group)
            group.path.unlink()
        self.groups.append(last)
        self._writer = GroupWriter.reopen(last)
        for group in list(self.groups)[:-1]:
            self._sync.file(os.open(group.path, os.O_RDONLY | os.O_CLOEXEC), self.folder)
        self._found_run = run = last.header.run()
        run_log = last.header.run_log
        of_run = [group for group in self.groups if (*group.header.run(), group.header.run_log) == (*run, run_log)]
        self._marked = max(max(group.checkpoint or 0, group.header.after or 0) for group in of_run)
        # its mark is written, so it is complete and further results belong to the next checkpoint
        if last.checkpoint is not None:
            self._begin_group(_following(last))
        if unread_bytes:  # consumers may have got lost frames, whose numbers must not be reused
            self._writer.pass_over(1 + unread_bytes // RECORD_HEADER_BYTES)

    def _note_damage(self, found: RecoveredGroup) -> None:
        """Count the rows that the group lacks, and those that the one before it lacks at its end, if known."""
        before, group = self.groups[-1] if self.groups else None, found.group
        if found.damaged_bytes:
            logger.error("prepared results are damaged: file=%s bytes=%d events=%d",
                         group.path, found.damaged_bytes, group.lost_rows)  # fmt: skip
        received = _received_before(group, before) if before is not None else None
        if before is not None and received is not None and received.position > before.position:
            missing = received.position - before.position
            before.lost_rows += missing
            logger.error(
                "prepared results are damaged, their file ends too early: file=%s events=%d", before.path, missing
            )

    def _was_dropped(self, group: ResultGroup) -> bool:
        """Return whether all consumers had the group and the process ended before its file was deleted."""
        progress = self.progress
        return progress is not None and progress.log == group.header.log and group.ordinal <= progress.dropped

    def _note_missing(self, group: ResultGroup, given_up_rows: int) -> None:
        """Count rows of missing or shortened files before the group.

        The group has the number of rows before it, of which `given_up_rows` are already counted.
        """
        before, progress = (self.groups[-1] if self.groups else None), self.progress
        if before is not None:
            known = before.all_rows if before.header.rows_before is not None else None
        else:
            known = progress.dropped_rows if progress is not None and progress.log == group.header.log else None
        if known is None or group.header.rows_before is None:
            return
        missing = max(0, group.header.rows_before - known - given_up_rows)
        if not missing:
            return
        logger.error("prepared results lost, earlier files are missing or truncated: file=%s events=%d",
                     group.path, missing)  # fmt: skip
        stood = progress.rows if progress is not None and progress.log == group.header.log else 0
        certain = missing if group.header.at_once else min(missing, max(0, stood - known - given_up_rows))
        self._note_lost(group.path, certain)
        # whether the others had to be delivered is decided with their checkpoint
        group.missing_rows = missing - certain

    def _note_missing_end(self, given_up_rows: int) -> None:
        """Count rows of missing newest files, or of a last file that ends too early."""
        progress = self.progress
        logs = {group.header.log for group in self.groups}
        if progress is None or (logs and progress.log not in logs):
            return
        self.dropped, self.dropped_rows = progress.dropped, progress.dropped_rows
        there = self.groups[-1].all_rows if self.groups else progress.dropped_rows
        missing = progress.rows - there - given_up_rows
        if missing > 0 and (not self.groups or self.groups[-1].header.rows_before is not None):
            logger.error("prepared results lost, the newest files are missing or truncated: folder=%s events=%d",
                         self.folder, missing)  # fmt: skip
            self._note_lost(self.folder / f"behind {self._ordinal}", missing)

    def _repair_mark(self, group: ResultGroup) -> None:
        """Restore the lost mark of the group before `group`, or move that group aside.

        A group whose mark is unknown would block everything after it.
        """
        before = self.groups[-1] if self.groups else None
        if before is None or before.checkpoint is not None or not before.frames:
            return
        reported = _received_before(group, before)
        if reported is not None and reported.checkpoint:
            writer = GroupWriter.reopen(before)
            try:
                writer.mark(reported.checkpoint, reported.position)
            finally:
                os.close(writer.descriptor)
            logger.warning("lost mark of prepared results restored: file=%s checkpoint=%d",
                           before.path, reported.checkpoint)  # fmt: skip
        elif before.header.run() == group.header.run() and group.header.after != 0:
            self.groups.pop()
            logger.error("prepared results lost, their checkpoint is unknown, set aside: file=%s events=%d",
                         quarantine(before.path), before.rows)  # fmt: skip
            self._note_lost(before.path, before.rows + before.lost_rows + before.missing_rows)

    def _note_lost(self, path: Path, rows: int) -> None:
        if rows:
            self.lost[place_of(path)] = self.lost.get(place_of(path), 0) + rows

    def _give_up_unmarked(self, group: ResultGroup) -> None:
        """Move aside unmarked results of another run with the epoch and attempt that begin now.

        They would wait for checkpoints of the new run.

        Raises:
            OSError: the disk fails.
        """
        if group.frames and group.checkpoint is None and group in self.groups and not group.header.at_once:
            logger.error("prepared results lost, their epoch was used again before their checkpoint, set aside: "
                         "file=%s events=%d", quarantine(group.path), group.rows)  # fmt: skip
            self.groups.remove(group)
            self._note_lost(group.path, group.rows + group.lost_rows + group.missing_rows)

    def _give_up(self, path: Path) -> int:
        """Set aside a file whose owner is unknown. Return its number of results."""
        rows = rows_in(path)
        if rows:
            logger.error("prepared results lost, the beginning of their file is damaged, set aside: file=%s events=%d",
                         quarantine(path), rows)  # fmt: skip
            self._note_lost(path, rows)
        elif any(path.read_bytes()):  # how many results it had is seen by where the next file begins
            logger.error("a file of prepared results cannot be read, set aside: file=%s", quarantine(path))
        else:  # created just before everything stopped
            logger.warning("prepared results without a beginning, deleted: file=%s", path)
            path.unlink()
        return rows


def prepared_rows(folder: Path) -> int:
    """Return the number of results in a plan's folder whose files can be read.

    Raises OSError.
    """
    rows = 0
    for path in folder.glob(f"*/*/*{SUFFIX}"):
        found = recover(path)
        rows += found.group.rows if found is not None else rows_in(path)
    return rows


def has_unreadable(folder: Path) -> bool:
    """Return whether a file in a plan's folder has contents, but no beginning that can be read. Raises OSError."""
    return any(recover(path) is None and any(path.read_bytes()) for path in folder.glob(f"*/*/*{SUFFIX}"))


def place_of(path: Path) -> str:
    """Return the name of a file within its plan's folder: epoch, publisher, number."""
    return "/".join(path.parts[-3:])


def _following(group: ResultGroup) -> GroupHeader:
    """Return the header of the group that follows `group` in the same run."""
    return msgspec.structs.replace(
        group.header, first_number=group.next_number, position=group.position, after=group.checkpoint or 0
    )


def _newest_mark(group: ResultGroup) -> ReceivedRows | None:
    """Return the newest mark of the run that ends with `group`, if no other file will contain it in the next run."""
    header = group.header
    if group.checkpoint is not None:  # the next file could not be created
        return ReceivedRows(ordinal_of(group.path), group.checkpoint, group.position)
    if group.frames:
        return None
    # it has only a header, and will be deleted
    return ReceivedRows(ordinal_of(group.path) - 1, header.after, header.position) if header.after else header.former


def _received_before(group: ResultGroup, before: ResultGroup) -> ReceivedRows | None:
    """Return the end of `before` according to `group`; checkpoint 0: unknown, or none."""
    header, ordinal = group.header, ordinal_of(before.path)
    if header.former is not None and header.former.ordinal == ordinal:
        return header.former
    follows = before.header.run() == header.run() and ordinal + 1 == ordinal_of(group.path)
    return ReceivedRows(ordinal, header.after or 0, header.position) if follows else None
