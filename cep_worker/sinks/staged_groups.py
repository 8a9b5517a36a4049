"""Groups of results in temporary files until their commit.

A sink that delivers a group in one transaction keeps its frames here until then, so that the transaction is short and
can be repeated.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import pyarrow as pa

from cep_worker.outflows.consumers import FrameId, GroupId


@dataclass(slots=True)
class _Staged:
    """The frames of a group, the newest last: (frame, first byte, length) each."""

    file: IO[bytes]
    frames: list[tuple[FrameId, int, int]] = field(default_factory=list)


class StagedGroups:
    """The frames of uncommitted groups, by log, since groups of several logs may be open."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._staged: dict[str, _Staged] = {}

    def __bool__(self) -> bool:
        return bool(self._staged)

    def put(self, batch: pa.RecordBatch, frame: FrameId) -> None:
        """Add a frame to its group. A repeated group, or another one of the log, replaces the present one.

        Raises:
            OSError: if the frame cannot be written. The call may be repeated.
        """
        staged = self._staged.get(frame.group.log)
        if staged is None or (staged.frames and not frame.follows(staged.frames[-1][0])):
            self.forget(frame.group.log)
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by forget
            staged = self._staged[frame.group.log] = _Staged(file)
        start = sum(staged.frames[-1][1:]) if staged.frames else 0
        rest = memoryview(batch.serialize())
        length = len(rest)
        staged.file.seek(start)
        while rest:
            rest = rest[staged.file.write(rest) :]
        staged.frames.append((frame, start, length))

    def batches(self, group: GroupId) -> Iterator[tuple[FrameId, pa.RecordBatch]]:
        """Return the frames of a group in order; none for an unknown group."""
        staged = self._staged.get(group.log)
        if staged is None or not staged.frames or staged.frames[-1][0].group != group:
            return
        for frame, start, length in staged.frames:
            staged.file.seek(start)
            yield frame, pa.ipc.read_record_batch(pa.py_buffer(staged.file.read(length)), self._schema)

    def forget(self, log: str) -> None:
        """Drop the group of the log."""
        staged = self._staged.pop(log, None)
        if staged is not None:
            staged.file.close()

    def close(self) -> None:
        """Drop everything."""
        for log in list(self._staged):
            self.forget(log)
