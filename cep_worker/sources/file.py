"""Source `file`: an event for each line of a file that grows.

file ──► lines ──► mapper ──► the worker's intake ──► accepted ──► position kept

The position is kept once the worker can no longer lose the events in front of it: after a crash lines may come twice,
none is left out.
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
"""With which some programs begin files in UTF-8."""
_ROTATION_S = 5.0
"""So long nothing has come to a file that was renamed when it is left."""
_ENDING_S = 0.5
"""So long a source that ends may take for what it reads."""
_SAFE_S = 5.0
"""Longer than it takes until what is taken is safe."""


class LineEvents:
    """Events of lines, or of what else `cutter` makes of a file.

    The first `header` lines hold none. `at_once` says that `reader` takes several lines together.
    """

    def __init__(self, reader: BodyReader, header: int, at_once: bool, cutter: Splitter) -> None:
        self._reader = reader
        self._header = header
        self._at_once = at_once
        self.cutter = cutter

    def read(self, lines: Lines, now_ms: int) -> tuple[pa.RecordBatch | None, list[tuple[int, str]]]:
        """Return the events, if there are any, and the numbers of the lines that hold none, with the reason."""
        written = lines.data.removeprefix(_MARK) if lines.first == 1 else lines.data
        pieces = enumerate(self.cutter.pieces(written), lines.first)
        numbered = [(number, line) for number, line in pieces if number > self._header and line.strip()]
        if self._at_once and numbered:
            try:
                batch = self._read(b"\n".join(line for _, line in numbered), now_ms)
            except EventsRejectedError:
                pass  # which lines are to blame shows below
            else:
                if batch.num_rows == len(numbered):  # otherwise a quote reached over line ends
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
    """Reads in a thread of its own, one of the workers that share the folder of positions at a time."""

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
        """There may be something new for who waits for events to be accepted."""
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
        if under_way is None or not under_way.running():  # what is being taken is safe at the end of this turn
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
            except Exception as defect:  # the border of the thread: the plan's last error tells people of it
                plan_error = f"{self._path} cannot be read: {type(defect).__name__}: {defect}"
                if plan_error != self._trouble:
                    logger.exception("%s", plan_error)
                self._trouble = plan_error
            finally:
                self._position.release()
            self._ending.wait(self._poll_s)

    def _forbidden(self, path: Path) -> str:
        """Why the plan may not read the file, or nothing."""
        return self._guard.refuse_file(path, "source") if self._guard is not None else ""

    def _follow(self) -> None:
        if reason := self._forbidden(self._path):  # a link may have come since the source was made
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
        """Save how far the file is read.

        Nothing more is read until that succeeds, or the same events would come again and again.
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
