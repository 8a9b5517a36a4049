"""Records of errors, grouped by the process that has them: a million events with the same error make one record."""

from __future__ import annotations

import re

import msgspec

from cep_common.writable import writable

MOST_RECORDS = 8
"""The maximum number of groups in an `ErrorLog`; the least recently seen one is dropped first."""
LONGEST_TEXT = 600
LONGEST_TRACEBACK = 4_000
"""The maximum length of a traceback. Longer ones lose their beginning, since the end names the error."""

SCRIPT_STOPPED = "script-stopped"
"""The code of errors of script functions that exceeded their time or memory."""

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*")


class ErrorRecord(msgspec.Struct, frozen=True):
    """An error that occurred `count` times between the times of day `first_ms` and `last_ms`.

    `code` is stable, `text` and `traceback` are those of the newest. `instance` is the stage instance, source or sink
    that had it; `host` and `process_id` its process, empty and 0 for the sender's own.
    """

    code: str
    text: str
    first_ms: int
    last_ms: int
    count: int = 1
    instance: str = ""
    traceback: str = ""
    host: str = ""
    process_id: int = 0


def group_of(text: str) -> str:
    """Return the text without its numbers, which is equal for errors of one kind."""
    return _NUMBER.sub("#", text)


def _end_of(traceback: str) -> str:
    """Return as many of the last lines as may be sent."""
    if len(traceback) <= LONGEST_TRACEBACK:
        return traceback
    end = traceback[-LONGEST_TRACEBACK:]
    return "…\n" + (end.partition("\n")[2] or end)


class ErrorLog:
    """The errors of one process, or of a part of it, since it started.

    It keeps at most `most` groups by instance, code and text without numbers. It belongs to one thread; the results of
    `records` may be used by others.
    """

    def __init__(self, most: int = MOST_RECORDS) -> None:
        """Create an empty log.

        Args:
            most: How many records are kept; the oldest are dropped first.
        """
        self._most = most
        self._groups: dict[tuple[str, str, str], ErrorRecord] = {}
        self._records: tuple[ErrorRecord, ...] | None = ()

    def note(
        self,
        code: str,
        text: str,
        now_ms: int,
        *,
        count: int = 1,
        instance: str = "",
        traceback: str = "",
        host: str = "",
        process_id: int = 0,
    ) -> bool:
        """Count `count` more occurrences at `now_ms` (time of day). Return whether the error is new."""
        text = writable(text)[:LONGEST_TEXT]
        name = (instance, code, group_of(text))
        before = self._groups.pop(name, None)
        self._groups[name] = ErrorRecord(
            code=code,
            text=text,
            first_ms=before.first_ms if before is not None else now_ms,
            last_ms=now_ms,
            count=count + (before.count if before is not None else 0),
            instance=instance,
            traceback=_end_of(writable(traceback)),
            host=host,
            process_id=process_id,
        )
        if len(self._groups) > self._most:
            del self._groups[next(iter(self._groups))]
        self._records = None
        return before is None

    def records(self) -> tuple[ErrorRecord, ...]:
        """Return all groups, the most recent last."""
        if self._records is None:
            self._records = tuple(self._groups.values())
        return self._records
