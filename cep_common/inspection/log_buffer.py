"""The newest log records of a process, in memory, bounded in bytes."""

from __future__ import annotations

import logging
import re
import sys
from collections import deque

from cep_common.configuration.redaction import redact
from cep_common.protocol.inspection import LEVELS, Level, LogRead, LogRecord, ReadLog
from cep_common.writable import writable

MOST_TEXT = 16_384
"""The maximum characters of a record's text and of its traceback; longer ones are cut."""

OVERHEAD_BYTES = 160
"""Approximate memory of a record besides its texts."""

ANSWER_BYTES = 524_288
"""The size in bytes at which an answer ends."""

_TRACEBACKS = logging.Formatter()
_NUMBERS: dict[Level, int] = {level: getattr(logging, level) for level in LEVELS}


class LogBuffer(logging.Handler):
    """Keeps log records, without their secrets, until newer ones take up `most_bytes`.

    Any thread may log and read.
    """

    def __init__(self, most_bytes: int) -> None:
        """Create an empty buffer.

        Args:
            most_bytes: How much text is kept; the oldest records are dropped first.
        """
        super().__init__()
        self._most_bytes = most_bytes
        self._records: deque[LogRecord] = deque()
        self._bytes = 0
        self._newest = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record; called by logging, under this handler's lock."""
        try:
            kept = structured(record, self._newest + 1)
        except Exception:  # noqa: BLE001 - the border of logging: a record that cannot be formatted must not raise
            self.handleError(record)
            return
        self._newest = kept.sequence
        self._records.append(kept)
        self._bytes += _size(kept)
        while self._bytes > self._most_bytes and len(self._records) > 1:
            self._bytes -= _size(self._records.popleft())

    def read(self, wanted: ReadLog) -> LogRead:
        """Return the requested records, with at most `ANSWER_BYTES` of text."""
        self.acquire()
        try:
            records, newest = tuple(self._records), self._newest
        finally:
            self.release()
        return select(records, newest, wanted)


def structured(record: logging.LogRecord, sequence: int) -> LogRecord:
    """Return the record in its stored form: secrets redacted, long texts cut, and all of it valid UTF-8."""
    traceback = ""
    if record.exc_info and record.exc_info[0] is not None:
        traceback = _TRACEBACKS.formatException(record.exc_info)
    elif record.stack_info:
        traceback = record.stack_info
    return LogRecord(
        sequence=sequence,
        time_ms=int(record.created * 1_000),
        level=_level(record.levelno),
        logger=writable(record.name),
        text=_kept(record.getMessage()),
        traceback=_kept(traceback),
        thread=writable(record.threadName or ""),
    )


def select(records: tuple[LogRecord, ...], newest: int, wanted: ReadLog) -> LogRead:
    """Return those of `records` (oldest first) that are `wanted`. Pure."""
    oldest = records[0].sequence if records else 0
    chosen: list[LogRecord] = []
    size, more = 0, False
    forward = wanted.after is not None
    # A mention of the plan `XP[1]` is not one of `P[1]`.
    mention = re.compile(rf"(?<![\w.-]){re.escape(wanted.mentions)}") if wanted.mentions else None
    sought = wanted.contains.casefold()
    for record in _range(records, wanted):
        if _NUMBERS[record.level] < _NUMBERS[wanted.level] or not _holds(record, mention, sought):
            continue
        size += _size(record)
        if len(chosen) == wanted.most_records or (chosen and size > ANSWER_BYTES):
            more = True
            break
        chosen.append(record)
    if not forward:
        chosen.reverse()
    reached = chosen[-1].sequence if forward and more else newest
    return LogRead(tuple(chosen), reached, more, oldest, newest)


def _range(records: tuple[LogRecord, ...], wanted: ReadLog) -> tuple[LogRecord, ...]:
    """Return the records at the requested places, in the order in which they are read. Sequences have no gaps."""
    if not records:
        return ()
    oldest = records[0].sequence
    if wanted.after is not None:
        return records[max(0, wanted.after + 1 - oldest) :]
    before = records[: max(0, wanted.before - oldest)] if wanted.before else records
    return before[::-1]


def _holds(record: LogRecord, mention: re.Pattern[str] | None, sought: str) -> bool:
    if mention is not None and not (mention.search(record.text) or mention.search(record.traceback)):
        return False
    return not sought or any(sought in text.casefold() for text in (record.text, record.traceback, record.logger))


def _size(record: LogRecord) -> int:
    """Return the approximate size in memory, without the names of threads and loggers, which many records share."""
    return OVERHEAD_BYTES + sys.getsizeof(record.text) + sys.getsizeof(record.traceback)


def _kept(text: str) -> str:
    """Redact and cut the text. Twice the length is redacted first, so that no secret is cut in half and kept."""
    text = writable(text)
    covered = redact(text[: 2 * MOST_TEXT])
    return covered if len(text) <= MOST_TEXT else f"{covered[:MOST_TEXT]}… ({len(text) - MOST_TEXT} characters more)"


def _level(number: int) -> Level:
    """Return the highest level that is not above `number`."""
    return next((level for level in reversed(LEVELS) if number >= _NUMBERS[level]), "DEBUG")
