"""Source `file`: an event for each line of a file that grows.

file ──► lines ──► mapper ──► the worker's intake ──► accepted ──► position saved

The position is saved once the events before it are durable: after a crash lines may be read twice, none is lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pyarrow as pa

from cep_common.errors import InputError
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.source_mappers.registry import BodyReader, LineReader
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.sources.base import SourceContext, UncountedSource
from cep_worker.sources.file_lines import FileLines, FilePosition, Lines, Splitter
from cep_worker.sources.read_position import ReadPosition
from query_plan.connectors.options import path_of
from query_plan.connectors.sources import FileSourceOptions

logger = logging.getLogger(__name__)

_MARK = b"\xef\xbb\xbf"
"""The byte order mark, with which some programs begin UTF-8 files."""
_ROTATION_S = 5.0
"""How long nothing may be appended to a renamed file until its successor is read."""
_ENDING_S = 0.5
"""How long a source that ends may take to finish its current read."""
_SAFE_S = 5.0
"""Longer than it takes until accepted events are durable."""


class LineEvents:
    """Decodes events from lines, or from other pieces that `cutter` makes of a file.

    The first `header` lines contain no events. `at_once`: `reader` can decode several lines together.
    """

    def __init__(self, reader: BodyReader, header: int, at_once: bool, cutter: Splitter) -> None:
        self._reader = reader
        self._header = header
        self._at_once = at_once
        self.cutter = cutter

    def read(self, lines: Lines, now_ms: int) -> tuple[pa.RecordBatch | None, list[tuple[int, str]]]:
        """Return the events, if any, and the numbers of invalid lines with the reasons."""
        written = lines.data.removeprefix(_MARK) if lines.first == 1 else lines.data
        pieces = enumerate(self.cutter.pieces(written), lines.first)
        numbered = [(number, line) for number, line in pieces if number > self._header and line.strip()]
        if self._at_once and numbered:
            try:
                batch = self._read(b"\n".join(line for _, line in numbered), now_ms)
            except EventsRejectedError:
                pass  # which lines are invalid is determined below
            else:
                if batch.num_rows == len(numbered):  # otherwise a quoted value contained line ends
                    return batch, []
        batches, refused = [], []
        for number, line in numbered:
            try:
                batches.append(self._read(line, now_ms))
            except EventsRejectedError as error:
                refused.append((number, "; ".join(_problems(error)) or error.message))
        return pa.concat_batches(batches) if batches else None, refused

    def read_whole(self, data: bytes, now_ms: int) -> pa.RecordBatch:
        """Read the events of a file that is one body.

        Raises:
            EventsRejectedError: an event does not fit.
        """
        return self._reader.read(data.removeprefix(_MARK), now_ms)

    def _read(self, data: bytes, now_ms: int) -> pa.RecordBatch:
        if isinstance(self._reader, LineReader):
            return self._reader.read_lines(data, now_ms)
        return self._reader.read(data, now_ms)


def _problems(error: EventsRejectedError) -> Iterator[str]:
    for misfit in error.details:
        yield f"{misfit.attribute} {misfit.problem}".strip()


class FileSource(UncountedSource):
    """Reads a file in a thread of its own. Of workers that share the folder of positions, one reads at a time."""

    def __init__(
        self, context: SourceContext, options: FileSourceOptions, events: LineEvents, position: ReadPosition
    ) -> None:
        self._trouble = self._left_out = ""
        self._path = path_of(options.file_uri or options.dir_uri)
        self._tailing = options.tails()
        self._poll_s = options.file_polling_interval / 1000
        self._events = events
        self._position = position
        self._stream = context.declared.stream
        self._submit = context.submit
        self._now_ms = context.now_ms
        self._guard = context.guard
        self._refused = 0
        self._ending = threading.Event()
        self._stirred = threading.Event()
        """Wakes the thread that waits for events to be accepted."""
        self._under_way: Future[None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"file source {self._path.name}", daemon=True)
        self._thread.start()

    @property
    def error(self) -> str:
        """The present error, or the last line that was skipped."""
        return self._trouble or self._left_out

    def retry(self, now_ms: int) -> None:
        """Do nothing: batches wait in the worker's intake, not here."""

    def reroute(self, declared: DeclaredConnector, now_ms: int) -> None:
        self._stream = declared.stream

    def tick(self, now_ms: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Stop reading; the next source reads again what was not accepted."""
        self._ending.set()
        self._stirred.set()
        under_way = self._under_way
        if under_way is None or not under_way.running():  # it is durable at the end of this turn
            self._thread.join(_ENDING_S)

    def _run(self) -> None:
        logger.info("following file: path=%s position=%s", self._path, self._position.path)
        while not self._ending.is_set():
            try:
                if self._position.take():
                    self._follow()
                    return
            except (OSError, ValueError) as error:
                self._report_problem(f"{self._path} cannot be read: {error}")
            except Exception as defect:  # outermost frame: shown as the plan's last error
                plan_error = f"{self._path} cannot be read: {type(defect).__name__}: {defect}"
                if plan_error != self._trouble:
                    logger.exception("%s", plan_error)
                self._trouble = plan_error
            finally:
                self._position.release()
            self._ending.wait(self._poll_s)

    def _forbidden(self, path: Path) -> str:
        """Return why the plan may not read the file; empty if it may."""
        return self._guard.refuse_file(path, "source") if self._guard is not None else ""

    def _follow(self) -> None:
        if reason := self._forbidden(self._path):  # the file may have become a link since the source was created
            raise ValueError(reason)
        patience = max(1, round(_ROTATION_S / self._poll_s))
        lines = FileLines(self._path, self._position.load(), self._tailing, patience, self._events.cutter)
        try:
            while not (self._ending.is_set() or lines.ended):
                found = lines.next()
                if found is not None and self._bring(found):
                    self._keep(found.behind, self._position)
                self._trouble = ""
                if found is None:
                    self._ending.wait(self._poll_s)
        finally:
            lines.close()

    def _keep(self, position: FilePosition, kept: ReadPosition) -> None:
        """Save the read position.

        Reading stops until this succeeds, or the same events would be accepted again and again.
        """
        while True:
            try:
                return kept.save(position)
            except OSError as error:
                self._report_problem(f"{self._path} waits: {kept.path} cannot be written: {error}")
            if self._ending.wait(self._poll_s):
                return None

    def _bring(self, lines: Lines) -> bool:
        """Return whether the events of `lines` are accepted, False when the source ended before that."""
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
            except InputError as error:  # the plan was deactivated or undeployed, or the log is full
                if error.reason_code not in ("inactive", "unknown-stream"):
                    self._report_problem(f"{self._path} waits: {error.message}")
                self._ending.wait(self._poll_s)
            else:
                self._trouble = ""
                return True
        return False

    def _name(self) -> tuple[str, int, str, str]:
        """Return a name that distinguishes this source from others of the worker."""
        return "file-source", self._stream.tenant(), self._stream.lasting_name(), str(self._path)

    def _wait(self, taken: Future[None]) -> None:
        """Until `taken` is done.

        CancelledError or TimeoutError when the source ends before.
        """
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
            self._report_skipped(f"{self._path}, line {number}: {problem}; skipped lines so far: {self._refused}")

    def _report_skipped(self, problem: str) -> None:
        self._left_out = problem
        logger.warning("%s", problem)

    def _report_problem(self, plan_error: str) -> None:
        """Log the problem once, however often it occurs."""
        if plan_error != self._trouble:
            logger.warning("%s", plan_error)
        self._trouble = plan_error
