"""Recover the state of a log from its folder when it is opened."""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path

from cep_worker.inflows.wal.segment import SUFFIX, Segment, segment_path
from cep_worker.storage.damaged_files import quarantine
from cep_worker.storage.records import SEGMENT_HEADER_BYTES, decode_segment_header

logger = logging.getLogger(__name__)


def find_segments(folder: Path, log: str) -> tuple[list[Segment], list[Path]]:
    """Return the segments of that log in order, and damaged files that may have been segments.

    Files of other logs are moved aside, or deleted if they contain nothing.

    Raises:
        OSError: the folder cannot be read.
    """
    segments: list[Segment] = []
    damaged: list[Path] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        found = _take(path, log)
        if isinstance(found, Segment):
            segments.append(found)
        elif found is not None:
            damaged.append(found)
    return segments, damaged


def log_of_segments(folder: Path) -> str:
    """Return the identity of the log that most segments in `folder` name; empty when none does."""
    # by majority, since the file with the log's identity is lost and single segments may belong to another log
    named: Counter[str] = Counter()
    for path in folder.glob(f"*{SUFFIX}") if folder.is_dir() else ():
        with path.open("rb") as file:
            header = decode_segment_header(file.read(SEGMENT_HEADER_BYTES))
        if header is not None:
            named[header.log] += 1
    return named.most_common(1)[0][0] if named else ""


def _take(path: Path, log: str) -> Segment | Path | None:
    """Return the segment in the file, or the new path of a file with a damaged header."""
    try:
        with path.open("rb") as file:
            beginning = file.read(SEGMENT_HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:  # secured, and deleted at this moment
        return None
    header = decode_segment_header(beginning)
    # The identity in the header decides, not the file's name: a restored backup may contain files of another log under
    # valid names.
    ours = header is not None and header.log == log
    named = segment_path(path.parent, header.first_position) if header is not None else path
    if header is not None and ours and named == path:
        return Segment(path, header, size)
    # Set aside rather than deleted: the file may contain accepted events that an operator can still recover.
    if any(beginning) and not (ours and named < path):
        aside = quarantine(path)
        logger.error("segment does not belong to this log, set aside: file=%s bytes=%d", aside, size)
        return aside if header is None else None
    # created or recycled just before the machine stopped, so that its header did not reach the disk
    if any(beginning):
        logger.warning("segment was not written to the disk: file=%s", path)
    path.unlink()
    return None
