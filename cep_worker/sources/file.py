"""Source `file`: an event for each line of a file that grows.

    file ──► lines ──► mapper ──► the worker's intake ──► accepted ──► position kept

The position is kept once the worker can no longer lose the events in front of it: after a crash lines may come twice,
none is left out.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError, InputError
from cep_worker.config import FileSourcesConfig, Milliseconds
from cep_worker.connectors import Declared
from cep_worker.mappers.csv_events import CsvFormat
from cep_worker.mappers.refusals import EventsRefusedError
from cep_worker.mappers.sources import EventReader, LineReader, source_format
from cep_worker.options import path_of, read_options
from cep_worker.sources.base import SourceContext
from cep_worker.sources.file_lines import FileLines, Lines, Position
from cep_worker.sources.read_position import ReadPosition

logger = logging.getLogger(__name__)

_OPTION_NAMES = {
    "file_uri": "file.uri",
    "polling_interval_ms": "file.polling.interval",
    "action_after_process": "action.after.process",
    "header_present": "header.present",
}
_MARK = b"\xef\xbb\xbf"
"""With which some programs begin files in UTF-8."""
_ROTATION_S = 5.0
"""So long nothing has come to a file that was renamed when it is left."""
_ENDING_S = 0.5
"""So long a source that ends may take for what it reads."""
_SAFE_S = 5.0
"""Longer than it takes until what is taken is safe."""


class FileOptions(msgspec.Struct, frozen=True, rename=_OPTION_NAMES):
    """`file.uri` is a path, or `file:` and a path. With `tailing` false the file is read to its end once.
    `file.polling.interval` is in milliseconds. `timestamp` names the attribute (or in JSON a key of its own) that holds
    the event's time. With `header.present` the first line is none of events. `mode` and `action.after.process` are
    Siddhi's, of which there is one each, under two names: without expressions of its own REGEX reads lines too."""

    file_uri: str
    mode: Literal["LINE", "REGEX"] = "LINE"
    tailing: Literal["true", "false"] = "true"
    polling_interval_ms: Milliseconds = 1_000
    timestamp: str = ""
    header_present: Literal["true", "false"] = "false"
    action_after_process: Literal["keep", "none"] = "keep"

    def path(self) -> Path:
        """Where the file is."""
        return path_of(self.file_uri)


class LineEvents:
    """Events of lines. `at_once` says that `reader` takes several lines together."""

    def __init__(self, reader: EventReader, header: bool, at_once: bool) -> None:
        self._reader = reader
        self._header = header
        self._at_once = at_once

    def read(self, lines: Lines, now_ms: int) -> tuple[pa.RecordBatch | None, list[tuple[int, str]]]:
        """The events, if there are any, and the numbers of the lines that hold none, with the reason."""
        written = lines.data.removeprefix(_MARK) if lines.first == 1 else lines.data
        numbered = [(number, line) for number, line in enumerate(written.split(b"\n"), lines.first) if line.strip()]
        if self._header and numbered and numbered[0][0] == 1:
            del numbered[0]
        if self._at_once and numbered:
            try:
                batch = self._read(b"\n".join(line for _, line in numbered), now_ms)
            except EventsRefusedError:
                pass  # which lines are to blame shows below
            else:
                if batch.num_rows == len(numbered):  # otherwise a quote reached over line ends
                    return batch, []
        batches, refused = [], []
        for number, line in numbered:
            try:
                batches.append(self._read(line, now_ms))
            except EventsRefusedError as error:
                refused.append((number, "; ".join(_problems(error)) or error.message))
        return pa.concat_batches(batches) if batches else None, refused

    def _read(self, data: bytes, now_ms: int) -> pa.RecordBatch:
        if isinstance(self._reader, LineReader):
            return self._reader.read_lines(data, now_ms)
        return self._reader.read(data, now_ms)


def _problems(error: EventsRefusedError) -> Iterator[str]:
    for misfit in error.details:
        yield f"{misfit.attribute} {misfit.problem}".strip()


class FileSource:
    """Reads in a thread of its own, one of the workers that share the folder of positions at a time."""

    def __init__(
        self, context: SourceContext, options: FileOptions, events: LineEvents, position: ReadPosition
    ) -> None:
        self._trouble = self._left_out = ""
        self._path = options.path()
        self._tailing = options.tailing == "true"
        self._poll_s = options.polling_interval_ms / 1000
        self._events = events
        self._position = position
        self._stream = context.declared.stream
        self._submit = context.submit
        self._now_ms = context.now_ms
        self._refused = 0
        self._ending = threading.Event()
        self._stirred = threading.Event()
        """There may be something new for who waits for events to be accepted."""
        self._under_way: Future[None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"file source {self._path.name}", daemon=True)
        self._thread.start()

    @property
    def error(self) -> str:
        """What is wrong now, or which line was left out last."""
        return self._trouble or self._left_out

    def retry(self, now_ms: int) -> None:
        """Batches wait in the worker's intake, not here."""

    def reroute(self, declared: Declared, now_ms: int) -> None:
        self._stream = declared.stream

    def tick(self, now_ms: int) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """What was not accepted until then is read again by the next one."""
        self._ending.set()
        self._stirred.set()
        under_way = self._under_way
        if under_way is None or not under_way.running():  # what is being taken is safe at the end of this turn
            self._thread.join(_ENDING_S)

    def _run(self) -> None:
        logger.info("file is followed: path=%s position=%s", self._path, self._position.path)
        while not self._ending.is_set():
            try:
                if self._position.take():
                    self._follow()
                    return
            except (OSError, ValueError) as error:
                self._tell_trouble(f"{self._path} cannot be read: {error}")
            except Exception as defect:  # the border of the thread: the plan's last error tells people of it
                trouble = f"{self._path} cannot be read: {type(defect).__name__}: {defect}"
                if trouble != self._trouble:
                    logger.exception("%s", trouble)
                self._trouble = trouble
            finally:
                self._position.release()
            self._ending.wait(self._poll_s)

    def _follow(self) -> None:
        patience = max(1, round(_ROTATION_S / self._poll_s))
        lines = FileLines(self._path, self._position.load(), self._tailing, patience)
        try:
            while not (self._ending.is_set() or lines.ended):
                found = lines.next()
                if found is not None and self._bring(found):
                    self._keep(found.behind)
                self._trouble = ""
                if found is None:
                    self._ending.wait(self._poll_s)
        finally:
            lines.close()

    def _keep(self, position: Position) -> None:
        """It is kept how far the file is read; nothing more is read before, or it would come twice without end."""
        while True:
            try:
                return self._position.save(position)
            except OSError as error:
                self._tell_trouble(f"{self._path} waits: {self._position.path} cannot be written: {error}")
            if self._ending.wait(self._poll_s):
                return None

    def _bring(self, lines: Lines) -> bool:
        """True when the events of `lines` are accepted, False when the source ended before that."""
        if lines.too_long:
            self._refuse([(lines.first, "it is too long")])
        batch, refused = self._events.read(lines, self._now_ms())
        self._refuse(refused)
        return batch is None or self._accepted(batch)

    def _accepted(self, batch: pa.RecordBatch) -> bool:
        while not self._ending.is_set():
            taken = self._submit(self._name(), self._stream, batch)
            try:
                self._wait(taken)
            except (CancelledError, TimeoutError):
                return False
            except InputError as error:  # the plan was deactivated or undeployed, or the spool is full
                if error.reason_code not in ("inactive", "unknown-stream"):
                    self._tell_trouble(f"{self._path} waits: {error.message}")
                self._ending.wait(self._poll_s)
            else:
                self._trouble = ""
                return True
        return False

    def _name(self) -> tuple[str, int, str, str]:
        """What tells this source from others of the worker."""
        return "file-source", self._stream.tenant(), self._stream.schema.stream, str(self._path)

    def _wait(self, taken: Future[None]) -> None:
        """Until `taken` is done. CancelledError or TimeoutError when the source ends before."""
        self._under_way = taken
        self._stirred.clear()
        taken.add_done_callback(lambda _: self._stirred.set())
        if not self._ending.is_set():
            self._stirred.wait()
        if not taken.done():
            taken.cancel()
        taken.result(_SAFE_S)

    def _refuse(self, refused: list[tuple[int, str]]) -> None:
        if refused:
            number, problem = refused[0]
            self._refused += len(refused)
            self._left_out = f"{self._path}, line {number}: {problem}; lines left out so far: {self._refused}"
            logger.warning("%s", self._left_out)

    def _tell_trouble(self, trouble: str) -> None:
        """It is logged once, however often it is found."""
        if trouble != self._trouble:
            logger.warning("%s", trouble)
        self._trouble = trouble


def file_source(context: SourceContext) -> FileSource:
    """A source that reads the lines of a file. ConfigError for options that cannot be used."""
    declared, where = context.declared, context.where()
    if "dir.uri" in declared.connector.options:
        raise ConfigError(f"{where}: dir.uri: a source reads one file, not those of a folder; name it in file.uri")
    options = read_options(FileOptions, declared.connector.options, where)
    if declared.key is not None:  # a plan says it, perhaps of somebody who may not read what the worker may
        _refuse_others_files(options.path(), context.files, where)
    form = source_format(declared.connector, declared.stream.schema, f"@map of {where}")
    header = options.header_present == "true"
    if isinstance(form, CsvFormat):
        form, header = replace(form, header=False), header or form.header
    try:
        reader = form.reader(declared.stream.schema, options.timestamp or None)
    except InputError as error:
        raise ConfigError(f"{where}: timestamp: {error.message}") from error
    at_once = isinstance(form, CsvFormat) or isinstance(reader, LineReader)
    names = (str(declared.tenant()), declared.plan_name() if declared.key else "", declared.stream.schema.stream)
    position = ReadPosition(Path(context.files.positions), *names, str(options.path().absolute()))
    return FileSource(context, options, LineEvents(reader, header, at_once), position)


def _refuse_others_files(path: Path, config: FileSourcesConfig, where: str) -> None:
    allowed = [os.path.realpath(folder) for folder in config.folders]
    if not any(Path(os.path.realpath(path)).is_relative_to(folder) for folder in allowed):
        raise ConfigError(
            f"{where}: file.uri: {path} is in none of the folders whose files plans may read; "
            "name them in file_sources.folders of the worker's configuration"
        )
