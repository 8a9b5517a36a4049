"""Reads logs and configurations of processes for the web: one process, those of a plan, or all."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from cep_common.ids import PlanKey
from cep_common.inspection.endpoint import Inspection, answer_to
from cep_common.protocol.inspection import ConfigurationRead, LogRead, ReadConfiguration, ReadLog
from cep_common.protocol.registry import Message, Rejected
from cep_manager.errors import BadRequestError, InsightBusyError, ProcessSilentError, UnknownProcessError
from cep_manager.monitoring.logs.client import Ask, NoAnswer, ProcessQuestion
from cep_manager.monitoring.logs.key_descriptions import explain
from cep_manager.monitoring.logs.model import (
    ConfigurationList,
    FoundRecord,
    LogPage,
    LogQuery,
    LogSearch,
    Process,
    ProcessAnswer,
    ProcessConfiguration,
)
from cep_manager.monitoring.logs.processes import KnownProcess

PATIENCE_MS = 2_000
"""Timeout for an answer of a process."""

AGAIN_MS = 300
"""Timeout for a process that did not answer the last time."""

MOST_ASKED = 100
"""The number of processes that are queried at the same time; the rest is left out."""

AT_ONCE = 6
"""The number of concurrent requests, so that processes that hang leave threads for other pages."""

MOST_HUNG, MOST_DIGITS = 10_000, 18


class Insights:
    """Reads information from processes for the web API, apart from the control loop. Thread-safe."""

    def __init__(
        self, known: Callable[[], tuple[KnownProcess, ...]], ask: Ask, own_id: str, own: Inspection | None
    ) -> None:
        """`known` are all processes; the manager itself, `own_id`, uses `own` without a request."""
        self._known = known
        self._ask = ask
        self._own_id = own_id
        self._own = own
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._hung: set[str] = set()

    def processes(self) -> tuple[Process, ...]:
        """Return all processes that are known."""
        return tuple(one.process for one in self._known())

    def log(self, process: str, query: LogQuery) -> LogPage:
        """Record of one process. Raises UnknownProcessError, ProcessSilentError, InsightBusyError, BadRequestError."""
        known = self._find(process)
        run = known.address.run if known.address is not None else process
        after, before, restarted = _places(query, run)
        message = ReadLog(run, after, before, query.level, query.contains, "", query.limit)
        (answer,) = self._put([(known, message)])
        if not isinstance(answer, LogRead):
            raise _silent(known.process, answer)
        first = answer.records[0].sequence if answer.records else answer.reached + 1
        older = answer.more if after is None else first > answer.oldest > 0
        return LogPage(
            process=known.process,
            records=answer.records,
            next=f"{run}:{answer.reached}",
            previous=f"{run}:{first}" if older else "",
            more=answer.more,
            lost=max(0, answer.oldest - after - 1) if after is not None and not restarted else 0,
            restarted=restarted,
        )

    def search(self, query: LogQuery, plan: PlanKey | None = None, tasks_only: bool = False) -> LogSearch:
        """Return the newest log records of all processes, or of those that concern `plan`.

        For a plan these are all records of its tasks and those of other processes that mention its topology; the tasks
        are asked first. `tasks_only` leaves the others out. Raises InsightBusyError.
        """
        wanted = [one for one in self._known() if _concerns(one.process, plan, tasks_only)]
        if plan is not None:
            wanted.sort(key=lambda one: one.process.kind != "task")
        asked, left_out = wanted[:MOST_ASKED], max(0, len(wanted) - MOST_ASKED)
        answers = self._put([(one, _search_for(one, query, plan)) for one in asked])
        found = [
            FoundRecord(one.process.id, *(getattr(record, name) for name in record.__struct_fields__))
            for one, answer in zip(asked, answers, strict=True)
            if isinstance(answer, LogRead)
            for record in answer.records
        ]
        found.sort(key=lambda record: (record.time_ms, record.process, record.sequence))
        return LogSearch(
            records=tuple(found[-query.limit :]),
            answers=tuple(_answer(one.process, answer) for one, answer in zip(asked, answers, strict=True)),
            more=len(found) > query.limit or any(isinstance(one, LogRead) and one.more for one in answers),
            left_out=left_out,
        )

    def configuration(self, process: str) -> ProcessConfiguration:
        """Return the configuration of one process. Raises UnknownProcessError, InsightBusyError."""
        return self._configurations([self._find(process)])[0]

    def configurations(self) -> ConfigurationList:
        """Return the configurations of all processes.

        Only the first of a plan's tasks is asked, since all have the same configuration. Raises InsightBusyError.
        """
        wanted = [one for one in self._known() if one.process.kind != "task" or one.process.task == 0]
        return ConfigurationList(tuple(self._configurations(wanted[:MOST_ASKED])), max(0, len(wanted) - MOST_ASKED))

    def _configurations(self, asked: Sequence[KnownProcess]) -> list[ProcessConfiguration]:
        answers = self._put([(one, ReadConfiguration(_run(one))) for one in asked])
        return [
            ProcessConfiguration(one.process, explain(one.process.kind, answer.settings))
            if isinstance(answer, ConfigurationRead)
            else ProcessConfiguration(one.process, (), _problem(answer))
            for one, answer in zip(asked, answers, strict=True)
        ]

    def _find(self, process: str) -> KnownProcess:
        for one in self._known():
            if one.process.id == process:
                return one
        raise UnknownProcessError(f"there is no process {process[:200]}; it may have ended, see the list of processes")

    def _put(self, questions: Sequence[tuple[KnownProcess, ReadLog | ReadConfiguration]]) -> list[Message | NoAnswer]:
        """Return the answers in order; processes that did not answer the last time are not waited for as long."""
        answers = [self._at_once(known, message) for known, message in questions]
        outside = {
            number: ProcessQuestion(known.role, known.address.endpoint, message, self._patience_ms(known))
            for number, (known, message) in enumerate(questions)
            if answers[number] is None and known.address is not None
        }
        if outside:
            with self._turn():
                reported = self._ask(list(outside.values()))
            for number, answer in zip(outside, reported, strict=True):
                answers[number] = answer
                self._remember(_run(questions[number][0]), answer)
        return [UNKNOWN_PLACE if answer is None else answer for answer in answers]

    def _at_once(self, known: KnownProcess, message: ReadLog | ReadConfiguration) -> Message | NoAnswer | None:
        """Answer for this manager's own process; None for other processes."""
        if known.process.id != self._own_id:
            return None
        return answer_to(message, message.run, self._own) if self._own is not None else NoAnswer("keeps no log records")

    def _patience_ms(self, known: KnownProcess) -> int:
        return AGAIN_MS if not known.process.live or _run(known) in self._hung else PATIENCE_MS

    def _remember(self, run: str, answer: Message | NoAnswer) -> None:
        if isinstance(answer, NoAnswer) and answer.hung:
            self._hung.add(run)
        else:
            self._hung.discard(run)
        if len(self._hung) > MOST_HUNG:
            self._hung.clear()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._free.acquire(timeout=PATIENCE_MS / 1_000):
            raise InsightBusyError(f"{AT_ONCE} requests for logs are being processed; try again in a moment")
        try:
            yield
        finally:
            self._free.release()


UNKNOWN_PLACE = NoAnswer("has not reported where its log can be read; its standard error says why")


def _run(known: KnownProcess) -> str:
    return known.address.run if known.address is not None else known.process.id


def _places(query: LogQuery, run: str) -> tuple[int | None, int, bool]:
    """Return the places after and before which records are wanted, and whether the log that they are of has ended.

    Raises BadRequestError.
    """
    after, before = (_place(text, name) for text, name in ((query.after, "after"), (query.before, "before")))
    if before is not None:
        return None, before[1] if before[0] == run else 0, before[0] != run
    if after is None:
        return None, 0, False
    return (after[1], 0, False) if after[0] == run else (0, 0, True)


def _place(text: str, name: str) -> tuple[str, int] | None:
    if not text:
        return None
    run, _, number = text.rpartition(":")
    if not run or not (number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS):
        raise BadRequestError(f"{name} must be a position from an earlier response, not {text[:80]!r}")
    return run, int(number)


def _concerns(process: Process, plan: PlanKey | None, tasks_only: bool) -> bool:
    """Return whether the process's log may contain records about the plan."""
    if process.kind != "task":
        return not tasks_only
    return plan is None or (process.tenant, process.plan) == (plan.tenant, plan.plan)


def _search_for(known: KnownProcess, query: LogQuery, plan: PlanKey | None) -> ReadLog:
    mentions = plan.topology() if plan is not None and known.process.kind != "task" else ""
    return ReadLog(_run(known), None, 0, query.level, query.contains, mentions, query.limit)


def _answer(process: Process, answer: Message | NoAnswer) -> ProcessAnswer:
    if isinstance(answer, LogRead):
        return ProcessAnswer(process, answered=True, records=len(answer.records), more=answer.more)
    return ProcessAnswer(process, answered=False, problem=_problem(answer))


def _problem(answer: Message | NoAnswer) -> str:
    match answer:
        case NoAnswer(problem=problem):
            return problem
        case Rejected(reason=reason):
            return reason
        case _:
            return f"answered with {answer.TYPE}"


def _silent(process: Process, answer: Message | NoAnswer) -> ProcessSilentError:
    kind = "" if process.kind == "task" else f"{process.kind} "
    where = f"process {process.process_id} on {process.host}" if process.process_id else f"on {process.host}"
    return ProcessSilentError(f"{kind}{process.name} ({where}) {_problem(answer)}")
