"""On-demand queries over the state of the processing stages of a running task.

its own thread  parsed, analysed ──► question ──► waits ──────────────▶ reads the answer
task's loop                          forks between two bundles, continues  │
copy of the process                  └── answers, and ends ────────────────┘

A query can be arbitrarily expensive. So it runs in a copy of the process with limits of time and memory, while the loop
continues: no query can block the plan or end it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from cep_common.protocol.codec import decode, encode
from cep_common.protocol.inspection import QueryRunningState, StateFound
from cep_common.protocol.registry import Message, Rejected
from siddhi.analysis.model import AnalysedOnDemandQuery
from siddhi.errors import SiddhiError, render_problem
from siddhi.float_values import written
from siddhi.language.ast import AttributeType
from topology.stages.kinds.processor import Processor
from topology.stages.state.forked_call import CallStoppedError, ForkedCall

logger = logging.getLogger(__name__)

PATIENCE_S = 1.5
"""The time limit of a query, including its wait for the loop; managers wait slightly longer."""
MOST_BYTES = 4 * 1024 * 1024
"""The maximum size of a result; the rows that exceed it are omitted."""


@dataclass(slots=True)
class _Question:
    processor: Processor
    query: AnalysedOnDemandQuery
    most_rows: int
    call: ForkedCall | None = None
    refusal: Message | None = None
    taken: threading.Event = field(default_factory=threading.Event)
    _given_up: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, *, works: bool) -> None:
        """Start the query, unless the caller has stopped waiting; called by the loop."""
        with self._lock:
            if self._given_up:
                return
            if works:
                self.processor.refresh_tables()
                try:
                    self.call = ForkedCall.start(lambda: _encoded(_answered(self)))
                except OSError as error:
                    self.refusal = Rejected("busy", f"the process cannot be copied: {error}")
            else:
                self.refusal = Rejected("not-working", "the stage is on standby")
            self.taken.set()

    def give_up(self) -> bool:
        """Stop waiting for the loop. Return False if the query was started."""
        with self._lock:
            self._given_up = not self.taken.is_set()
            return self._given_up


class StateQueryService:
    """Answers queries; `ask` is for one other thread at a time, `answer` belongs to the task's loop."""

    def __init__(self, processors: Mapping[str, Processor], ring: Callable[[], None]) -> None:
        """Create the service of the task with these `processors` by instance; `ring` wakes its loop."""
        self._processors = processors
        self._ring = ring
        self._waiting: queue.SimpleQueue[_Question] = queue.SimpleQueue()

    def ask(self, message: QueryRunningState) -> Message:
        """Return the result of a query, or why it is not available."""
        processor = self._processors.get(f"{message.component}#0")
        if processor is None:
            return Rejected("unknown-component", f"no instance of the stage {message.component} is in this task")
        try:
            query = processor.on_demand(message.query)
        except SiddhiError as error:
            return Rejected("query-invalid", "\n".join(render_problem(one, message.query) for one in error.problems))
        until_s = time.monotonic() + PATIENCE_S
        question = _Question(processor, query, message.most_rows)
        self._waiting.put(question)
        self._ring()
        if not question.taken.wait(PATIENCE_S) and question.give_up():
            return Rejected("busy", f"the stage {message.component} did not answer within {PATIENCE_S:g} s")
        if question.call is None:
            return question.refusal or Rejected("not-working", "the stage is on standby")
        try:
            return _decoded(question.call.result(until_s))
        except CallStoppedError as error:
            reason = f"the query was stopped: {error}; a query may take {PATIENCE_S:g} s in all, ask for less"
            return Rejected("query-failed", reason)

    def answer(self, *, works: bool) -> None:
        """Answer the requests since the last turn; a task that does not run reports this."""
        while not self._waiting.empty():
            self._waiting.get().take(works=works)


def _encoded(message: Message) -> bytes:
    return b"".join(encode(message))


def _decoded(data: bytes) -> Message:
    return decode([data]).message


def _answered(question: _Question) -> Message:
    """Return the answer to a query. An error does not end the task."""
    try:
        return _answer_to(question)
    except SiddhiError as error:
        return Rejected("query-failed", "; ".join(one.message for one in error.problems))
    except Exception as error:
        logger.exception("an on-demand query could not be answered: instance=%s", question.processor.name)
        reason = f"{type(error).__name__}; see this process's log, and please report it"
        return Rejected("internal", reason)


def _answer_to(question: _Question) -> StateFound:
    found = question.processor.query(question.query)
    attributes = question.query.schema.attributes
    columns = tuple((name, type_.value) for name, type_ in attributes)
    if found is None:
        return StateFound(columns, "[]", 0)
    kept = found.slice(0, question.most_rows)
    values = [_values(kept.column(place + 2), type_) for place, (_, type_) in enumerate(attributes)]
    return StateFound(columns, _as_json(list(zip(*values, strict=True))), found.num_rows)


def _values(column: pa.Array, type_: AttributeType) -> list[Any]:
    values: list[Any] = written(column).to_pylist()
    if type_ is not AttributeType.OBJECT:
        return values
    return [None if value is None else msgspec.json.decode(value) for value in values]


def _as_json(rows: list[tuple[Any, ...]]) -> str:
    pieces: list[bytes] = []
    left = MOST_BYTES
    for row in rows:
        piece = msgspec.json.encode(row)
        left -= len(piece)
        if left < 0:
            break
        pieces.append(piece)
    return f"[{b','.join(pieces).decode()}]"
